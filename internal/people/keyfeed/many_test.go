package keyfeed

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

var (
	manyKeys    = flag.Int("keys", 1500, "keys of TestManyChanges")
	manyNodes   = flag.Int("nodes", 30, "nodes of TestManyChanges")
	manyWriters = flag.Int("writers", 2, "writers of TestManyChanges")
)

// TestChangesAllTheTime checks that few nodes read the store although keys change between the looks of any two nodes.
func TestChangesAllTheTime(t *testing.T) {
	const nodes, rounds, looks = 20, 4, 9 // looks while a page is there
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
			if (round*nodes+i)%looks == looks-1 {
				n.expire(t)
			}
		}
	}
	took := time.Since(began)
	for _, n := range all {
		n.own = time.Time{} // the store has everything
		n.poll(t)
		n.check(t, h)
	}
	// Each node reads the store at its first contact, when it joins the others, and at the end.
	if most := 3*nodes + rounds + rounds*nodes/looks + int(took/freshFor) + 1; h.polls > most {
		t.Errorf("the store was read %d times in %s by %d nodes, want at most %d", h.polls, took, nodes, most)
	}
}

// TestFarBehind checks that a node that is many pages behind reads one after the other without looking for a page in Redis.
func TestFarBehind(t *testing.T) {
	const changes = 20_000
	h := &history{mark: "a"}
	n := newNode(t, h, connect(t, storetest.Redis(t).URL), secret)
	ready(t, n)
	n.poll(t)
	for i := range changes {
		h.add(fmt.Sprint(i))
	}
	before := n.pagesRead(t)
	n.poll(t)
	if read := n.pagesRead(t) - before; len(n.known) != changes || read > 2 {
		t.Errorf("a node knows %d of %d changes and has looked into Redis %d times, want 2 at most", len(n.known), changes, read)
	}
}

// pagesRead returns how often all nodes have looked for a page in Redis.
func (n *node) pagesRead(t *testing.T) (calls int) {
	t.Helper()
	err := n.exec(t.Context(), n.name, func(ctx context.Context, c rueidis.Client) error {
		text, err := c.Do(ctx, c.B().Info().Section("commandstats").Build()).ToString()
		if _, line, found := strings.Cut(text, "cmdstat_getrange:"); found {
			_, err = fmt.Sscanf(line, "calls=%d", &calls)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return calls
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
	testrig.EventuallyNil(t, "the tables are there", s.Ready)
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
			testrig.Pause(t.Context(), time.Duration(i)*time.Second/time.Duration(*manyNodes)) // at different times, as gateways start
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
					testrig.Pause(t.Context(), time.Second-rand.N(200*time.Millisecond)) // as a gateway
				}
			}
		})
	}
	testrig.Eventually(t, "all nodes have joined", func() bool { return ready.Load() >= int64(*manyNodes) })
	began := time.Now()
	for range *manyWriters {
		writers.Go(func() {
			for i := last.Add(1); i <= int64(*manyKeys); i = last.Add(1) {
				create(i)
				testrig.Pause(t.Context(), 5*time.Millisecond/time.Duration(*manyWriters))
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
