package keyfeed

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/store"
	"github.com/isogloss-gateway/isogloss/internal/storetest"
)

var (
	manyKeys    = flag.Int("keys", 1500, "keys of TestManyChanges")
	manyNodes   = flag.Int("nodes", 30, "nodes of TestManyChanges")
	manyWriters = flag.Int("writers", 2, "writers of TestManyChanges")
)

// TestChangesAllTheTime checks that few nodes read the store although keys change between the looks of any two nodes.
func TestChangesAllTheTime(t *testing.T) {
	const nodes, rounds, pause = 20, 4, 45 * time.Millisecond
	h := &history{mark: "a"}
	c := connect(t, storetest.Redis(t).URL)
	var all []*node
	for range nodes {
		all = append(all, newNode(t, h, c, secret))
	}
	ready(t, all[0])
	began := time.Now()
	for round := range rounds {
		for i, n := range all {
			h.add(fmt.Sprint(round, " ", i))
			n.poll(t)
			if i == 10 {
				n.own = time.Time{} // it reads the store itself next time
			}
			time.Sleep(pause)
		}
	}
	took := time.Since(began)
	for _, n := range all {
		n.own = time.Time{} // the store has everything
		n.poll(t)
		n.check(t, h)
	}
	// Each node reads the store at its first contact, when it joins the others, and at the end.
	if most := 3*nodes + rounds + int(took/freshFor) + 1; h.polls > most {
		t.Errorf("the store was read %d times in %s by %d nodes, want at most %d", h.polls, took, nodes, most)
	}
}

// TestFarBehind checks that a node that is many pages behind reads one after the other without waiting for Redis.
func TestFarBehind(t *testing.T) {
	const changes, most = 20_000, 3 * time.Second
	h := &history{mark: "a"}
	n := newNode(t, h, connect(t, storetest.Redis(t).URL), secret)
	ready(t, n)
	n.poll(t)
	for i := range changes {
		h.add(fmt.Sprint(i))
	}
	began := time.Now()
	n.poll(t)
	if took := time.Since(began); len(n.known) != changes || took > most {
		t.Errorf("a node knows %d of %d changes after %s", len(n.known), changes, took)
	}
}

// check compares what the node knows since its first contact with a history.
func (n *node) check(t *testing.T, h *history) {
	t.Helper()
	ids := map[string]bool{}
	for _, id := range n.known {
		ids[id] = true
	}
	for i := int(n.first.Revision) - 1; i < len(h.changes); i++ {
		if id := h.changes[i].ID; !ids[id] {
			t.Errorf("a node does not know %q", id)
		}
	}
}

// TestManyChanges changes keys in PostgreSQL all the time, and checks that most of the nodes have the changes from Redis.
func TestManyChanges(t *testing.T) {
	s, err := store.Open(context.Background(), storetest.Postgres(t).URL, store.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for s.Ready() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	create := func(i int64) {
		if err := s.CreateKey(context.Background(), access.Record{ID: fmt.Sprintf("%022d", i), Name: "k", Org: "default", Models: []string{"*"}, Created: time.Now(), Digests: []access.Digest{{Pepper: 1}}}); err != nil {
			t.Error(err)
		}
	}
	create(0) // a store without a change has no cursor
	c := connect(t, storetest.Redis(t).URL)
	var nodes, writers sync.WaitGroup
	var looks, ready, last atomic.Int64
	var all []*node
	for i := range *manyNodes {
		n := newNode(t, s, c, secret)
		all = append(all, n)
		nodes.Go(func() {
			time.Sleep(time.Duration(i) * time.Second / time.Duration(*manyNodes))
			ids := map[string]bool{}
			for end := time.Now().Add(5 * time.Minute); len(ids) < *manyKeys; looks.Add(1) {
				c, err := n.Changes(context.Background(), n.at, 1000)
				if err != nil || time.Now().After(end) {
					t.Errorf("a node knows %d of %d changes; %v", len(ids), *manyKeys, err)
					return
				}
				if n.at == (access.Cursor{}) {
					ready.Add(1)
				}
				n.at = c.Next
				for _, r := range c.Records {
					ids[r.ID] = true
				}
				if !c.More {
					time.Sleep(time.Second - rand.N(200*time.Millisecond)) // as a gateway
				}
			}
		})
	}
	for ready.Load() < int64(*manyNodes) {
		time.Sleep(10 * time.Millisecond)
	}
	began := time.Now()
	for range *manyWriters {
		writers.Go(func() {
			for i := last.Add(1); i <= int64(*manyKeys); i = last.Add(1) {
				create(i)
				time.Sleep(5 * time.Millisecond / time.Duration(*manyWriters))
			}
		})
	}
	writers.Wait()
	took := time.Since(began)
	nodes.Wait()
	polls := int64(0)
	for _, n := range all {
		polls += n.Polls()
	}
	t.Logf("%d changes in %v: %d nodes have looked %d times and read the store %d times", *manyKeys, took.Round(time.Second/10), *manyNodes, looks.Load(), polls)
	if first := 2 * int64(*manyNodes); *manyNodes >= 30 && polls > first+(looks.Load()-first)/3 { // they read it when they join
		t.Errorf("%d nodes have looked %d times and read the store %d times", *manyNodes, looks.Load(), polls)
	}
}
