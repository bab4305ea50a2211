package keyfeed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// history is a store with a list of changes.
type history struct {
	access.Source
	mu      sync.Mutex
	changes []access.Record
	mark    string
	polls   int
	err     error
}

func (h *history) cursor(n int) access.Cursor {
	return access.Cursor{Revision: int64(n + 1), Mark: h.mark + fmt.Sprint(n)}
}

func (h *history) add(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, access.Record{ID: id, Revision: int64(len(h.changes) + 2)})
}

// Changes implements access.Source.
func (h *history) Changes(_ context.Context, since access.Cursor, limit int) (access.Changes, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.polls++
	n := int(since.Revision) - 1
	last := h.cursor(len(h.changes))
	switch {
	case h.err != nil:
		return access.Changes{}, h.err
	case n < 0 || n > len(h.changes) || since != h.cursor(n):
		return access.Changes{Next: last, Reset: true}, nil
	}
	end := min(n+limit, len(h.changes))
	return access.Changes{Records: append([]access.Record(nil), h.changes[n:end]...), Next: h.cursor(end), More: end < len(h.changes)}, nil
}

// node follows a source as a gateway does.
type node struct {
	*Source
	at    access.Cursor
	first access.Cursor // of its first contact
	known []string
}

func (n *node) poll(t *testing.T) {
	t.Helper()
	c, err := n.Changes(t.Context(), n.at, 1000)
	if err != nil {
		t.Error(err)
		return
	}
	if c.Reset {
		n.known = nil
	}
	for _, r := range c.Records {
		n.known = append(n.known, r.ID)
	}
	if n.at = c.Next; n.first == (access.Cursor{}) {
		n.first = n.at
	}
	if c.More {
		n.poll(t)
	}
}

func connect(t *testing.T, url string) *redis.Client {
	t.Helper()
	c, err := redis.New(redis.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newNode(t *testing.T, h access.Source, c *redis.Client, secret string) *node {
	t.Helper()
	s, err := newSource(h, c, []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	s.timeout, s.looks = testrig.Patience, math.MaxInt // a loaded machine is no reason to read the store
	return &node{Source: s}
}

// expire removes the page and the lock, as Redis does after freshFor.
func (n *node) expire(t *testing.T) {
	t.Helper()
	err := n.exec(t.Context(), n.name, func(ctx context.Context, c rueidis.Client) error {
		left, err := c.Do(ctx, c.B().Pttl().Key(n.name).Build()).AsInt64()
		if most := freshFor.Milliseconds(); err == nil && left > most {
			t.Errorf("the page expires after %d ms, want at most %d", left, most)
		}
		return errors.Join(err, c.Do(ctx, c.B().Del().Key(n.name, n.lock).Build()).Error())
	})
	if err != nil {
		t.Fatal(err)
	}
}

const secret = "0123456789abcdef0123456789abcdef"

// ready waits for the connection to Redis.
func ready(t *testing.T, n *node) {
	t.Helper()
	testrig.EventuallyNil(t, "Redis responds", func() error {
		_, err := n.get(t.Context(), n.name, maxSkew)
		return err
	})
}

// TestOneNodeReadsTheStore checks that of many nodes few read the store, and that all know
// every change once.
func TestOneNodeReadsTheStore(t *testing.T) {
	const nodes, rounds = 40, 10
	h := &history{mark: "a"}
	c := connect(t, storetest.Redis(t).URL)
	var all []*node
	for range nodes {
		all = append(all, newNode(t, h, c, secret))
	}
	ready(t, all[0])
	for _, n := range all {
		n.poll(t) // the first contact is with the store
	}
	h.mu.Lock()
	h.polls = 0
	h.mu.Unlock()
	began := time.Now()
	for round := range rounds {
		h.add(fmt.Sprintf("k%d", round))
		for _, n := range all {
			n.poll(t)
		}
		all[0].expire(t) // the next page is due
	}
	for _, n := range all {
		n.poll(t)
	}
	took := time.Since(began)
	h.mu.Lock()
	defer h.mu.Unlock()
	if most := rounds + int(took/freshFor) + 2; h.polls > most || h.polls == 0 {
		t.Errorf("the store was read %d times in %s by %d nodes, want at most %d", h.polls, took, nodes, most)
	}
	for i, n := range all {
		if len(n.known) != rounds {
			t.Fatalf("node %d knows %d of %d changes: %v", i, len(n.known), rounds, n.known)
		}
	}
}

// TestRedisIsNotTrusted checks that pages of others, old pages and garbage are ignored, and
// that a change of the store is known nevertheless.
func TestRedisIsNotTrusted(t *testing.T) {
	server := storetest.Redis(t)
	c := connect(t, server.URL)
	good := &history{mark: "a"}
	n := newNode(t, good, c, secret)
	ready(t, n)
	n.poll(t)

	forger := newNode(t, good, c, "another secret of the same size!")
	forger.name = n.name
	old := (&page{First: n.at}).add(n.at, access.Changes{Records: []access.Record{{ID: "forged"}}, Next: access.Cursor{Revision: 99, Mark: "z"}}, time.Now())
	old.Written = time.Now().Add(-time.Minute)
	for name, write := range map[string]func() error{
		"another secret": func() error { old.Written = time.Now(); return forger.put(t.Context(), old) },
		"an old page":    func() error { old.Written = time.Now().Add(-time.Minute); return n.put(t.Context(), old) },
		"a future page":  func() error { old.Written = time.Now().Add(time.Minute); return n.put(t.Context(), old) },
		"garbage": func() error {
			_, err := storetest.RedisCLI(server.Addr, "SET", n.name, "garbage")
			return err
		},
		"another type": func() error {
			_, err := storetest.RedisCLI(server.Addr, "DEL", n.name)
			_, err2 := storetest.RedisCLI(server.Addr, "LPUSH", n.name, "x")
			return errors.Join(err, err2)
		},
	} {
		if err := write(); err != nil {
			t.Fatal(name, err)
		}
		good.add(name)
		n.poll(t)
		if len(n.known) == 0 || n.known[len(n.known)-1] != name {
			t.Errorf("%s: the node knows %v", name, n.known)
		}
	}
}

// TestRestoredStore checks that a page of a history that the store has left is not followed for
// longer than its own poll, and that a node of the new history does not use the old page.
func TestRestoredStore(t *testing.T) {
	c := connect(t, storetest.Redis(t).URL)
	h := &history{mark: "a"}
	one, two := newNode(t, h, c, secret), newNode(t, h, c, secret)
	ready(t, one)
	one.poll(t)
	two.poll(t)
	h.add("k1")
	one.poll(t) // writes a page
	h.mu.Lock()
	h.mark, h.changes = "b", nil
	h.mu.Unlock()
	two.own = time.Now().Add(-ownPoll)
	two.poll(t)
	if two.at != h.cursor(0) || len(two.known) != 0 {
		t.Errorf("after its own poll a node is at %v with %v", two.at, two.known)
	}
	two.poll(t)
	if two.at != h.cursor(0) {
		t.Error("the node follows the page of the old history")
	}
}

// TestRedisAway checks that nodes read the store themselves, at once.
func TestRedisAway(t *testing.T) {
	server := storetest.Redis(t)
	c := connect(t, server.URL)
	h := &history{mark: "a"}
	n := newNode(t, h, c, secret)
	ready(t, n)
	n.poll(t)
	server.Kill()
	for i := range 5 {
		h.add(fmt.Sprint(i))
		before := n.Polls()
		n.poll(t) // if it looked for a page again and again, it would never return
		if reads := n.Polls() - before; len(n.known) != i+1 || reads != 1 {
			t.Errorf("%v after %d reads of the store", n.known, reads)
		}
	}
}

// TestPagesAreBounded checks the size of a page after many changes.
func TestPagesAreBounded(t *testing.T) {
	var p *page
	at := access.Cursor{Revision: 1, Mark: "m"}
	for i := range 500 {
		next := access.Cursor{Revision: at.Revision + 1, Mark: "m"}
		p = p.add(at, access.Changes{Records: make([]access.Record, 1+i%30), Next: next}, time.Now())
		at = next
	}
	size := 0
	for _, l := range p.Links {
		size += len(l.Records)
	}
	if len(p.Links) > maxLinks || size > maxKeys || size == 0 {
		t.Errorf("%d links with %d keys", len(p.Links), size)
	}
	if _, ok := p.after(access.Cursor{Revision: 2, Mark: "m"}); ok {
		t.Error("a cursor before the page is taken for one in it")
	}
	if c, ok := p.after(access.Cursor{Revision: at.Revision - 1, Mark: "m"}); !ok || c.Next != at || len(c.Records) != 1+499%30 {
		t.Errorf("%v %v", ok, c.Next)
	}
}

// TestPagesSayThatGroupsChanged checks that a page tells nodes of all cursors whether groups of SCIM have changed.
func TestPagesSayThatGroupsChanged(t *testing.T) {
	at := func(n int64) access.Cursor { return access.Cursor{Revision: n, Mark: fmt.Sprint(n)} }
	now := time.Now()
	p := (*page)(nil).add(at(1), access.Changes{Next: at(2)}, now)
	p = p.add(at(2), access.Changes{Next: at(3), Groups: true}, now)
	p = p.add(at(3), access.Changes{Next: at(4)}, now)
	for since, want := range map[int64]bool{1: true, 2: true, 3: false, 4: false} {
		if c, ok := p.after(at(since)); !ok || c.Groups != want {
			t.Errorf("since %d: %+v, %v", since, c, ok)
		}
	}
}
