package cache

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
)

// slow is what a call may take while Redis does not answer: its own 20 ms, and what a
// busy machine adds.
const slow = 20*time.Millisecond + 80*time.Millisecond

func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// A frozen Redis is a miss: whoever meets it first waits for 20 ms, the next not at
// all, and it is used again when it goes on.
func TestRedisFrozen(t *testing.T) {
	s := storetest.Redis(t)
	r := openRedis(t, s.URL)
	c := newCache(t, r, nil)
	k := c.Key("t", request("a"))
	eventually(t, "the hit", func() bool { c.Put(k, answer("x")); return c.Get(t.Context(), k) != nil })

	s.Freeze()
	defer s.Thaw()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if d := took(func() {
				if c.Get(t.Context(), k) != nil {
					t.Error("a frozen Redis answers")
				}
			}); d > slow {
				t.Errorf("the first look took %v", d)
			}
		})
	}
	all.Wait()
	if r.Snapshot().Up {
		t.Error("it counts as up")
	}
	const looks = 10_000
	d := took(func() {
		for range looks {
			c.Get(t.Context(), k)
			c.Put(k, answer("y"))
		}
	})
	t.Logf("while it is frozen a look and a write take %v", d/looks)
	if d/looks > 100*time.Microsecond {
		t.Error("that is too long")
	}
	s.Thaw()
	d = took(func() {
		eventually(t, "the hit after it goes on", func() bool { a := c.Get(t.Context(), k); return a != nil && string(a.Body) == "x" })
	})
	t.Logf("it is used again after %v", d)
	if d > 2*time.Second {
		t.Error("that is too late")
	}
}

// A killed Redis that comes back empty is an empty cache.
func TestRedisKilledAndWiped(t *testing.T) {
	s := storetest.Redis(t)
	r := openRedis(t, s.URL)
	c := newCache(t, r, nil)
	k := c.Key("t", request("a"))
	eventually(t, "the hit", func() bool { c.Put(k, answer("x")); return c.Get(t.Context(), k) != nil })
	s.Kill()
	for range 100 {
		if d := took(func() {
			if c.Get(t.Context(), k) != nil {
				t.Error("a killed Redis answers")
			}
		}); d > slow {
			t.Errorf("a look took %v", d)
		}
	}
	if err := s.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its return", func() bool { return r.Snapshot().Up })
	if c.Get(t.Context(), k) != nil {
		t.Error("an empty Redis has an answer")
	}
	eventually(t, "a new hit", func() bool { c.Put(k, answer("y")); return c.Get(t.Context(), k) != nil })
}

// Nobody is there at the start; it is found when it comes.
func TestRedisComesLater(t *testing.T) {
	s := storetest.Redis(t)
	s.Kill()
	var r *Redis
	if d := took(func() { r = openRedis(t, s.URL) }); d > time.Second {
		t.Errorf("to open took %v", d)
	}
	c := newCache(t, r, nil)
	k := c.Key("t", request("a"))
	if c.Get(t.Context(), k) != nil {
		t.Error("a hit from nobody")
	}
	n := newOnce(t, r, nil)
	expect(t, n, "k", request("a"), Unavailable)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its arrival", func() bool { return r.Snapshot().Up })
	begin(t, n, "k", request("a")).Release()
}

// A Redis that is frozen at the start does not hold up the start, nor the end.
func TestRedisFrozenAtStart(t *testing.T) {
	s := storetest.Redis(t)
	s.Freeze()
	defer s.Thaw()
	var r *Redis
	if d := took(func() {
		var err error
		if r, err = NewRedis(RedisOptions{URL: s.URL}); err != nil {
			t.Fatal(err)
		}
	}); d > time.Second {
		t.Errorf("to open took %v", d)
	}
	if d := took(r.Close); d > 5*time.Second {
		t.Errorf("to close took %v", d)
	}
}

func TestRedisURL(t *testing.T) {
	for _, url := range []string{"http://x", "redis://user:hunter2@h:1/x", "redis://user:hunter2@h:%zz", "redis://user:hunter2#@h"} {
		r, err := NewRedis(RedisOptions{URL: url})
		if err == nil {
			r.Close()
			t.Errorf("%s was taken", url)
			continue
		}
		if text := err.Error(); len(text) == 0 || strings.Contains(text, "hunter2") {
			t.Errorf("the error tells the password: %s", text)
		}
	}
}

// A Redis that refuses to write has answered: what it holds is still given.
func TestRedisFull(t *testing.T) {
	s := storetest.Redis(t)
	r := openRedis(t, s.URL)
	c := newCache(t, r, nil)
	held, more := c.Key("t", request("a")), c.Key("t", request("b"))
	eventually(t, "the hit", func() bool { c.Put(held, answer("x")); return c.Get(t.Context(), held) != nil })
	client := *r.client.Load()
	if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	before := r.Snapshot().Dropped
	c.Put(more, answer("y"))
	eventually(t, "the refusal", func() bool { return r.Snapshot().Dropped > before })
	eventually(t, "the hit", func() bool { return c.Get(t.Context(), held) != nil })
	if c.Get(t.Context(), more) != nil {
		t.Error("a full Redis has kept an answer")
	}
	if v := newOnce(t, r, nil).Begin(t.Context(), "c", "k", request("a")); v.State != Unavailable {
		t.Errorf("the state is %v where nothing can be recorded", v.State)
	}
}

// An idempotent request that finishes while Redis is frozen is stored when it goes on,
// and in the meantime nobody runs it again.
func TestOnceFrozen(t *testing.T) {
	s := storetest.Redis(t)
	a, b := newOnce(t, openRedis(t, s.URL), nil), newOnce(t, openRedis(t, s.URL), nil)
	q := request("a")
	run := begin(t, a, "k", q)
	s.Freeze()
	defer s.Thaw()
	if d := took(func() { expect(t, b, "k", q, Unavailable) }); d > onceBegin+80*time.Millisecond {
		t.Errorf("Begin took %v", d)
	}
	expect(t, b, "new", q, Unavailable)
	if d := took(func() { run.Finish(answer("kept")) }); d > onceEnd+80*time.Millisecond {
		t.Errorf("Finish took %v", d)
	}
	s.Thaw()
	eventually(t, "the answer", func() bool {
		v := b.Begin(t.Context(), "caller", "k", q)
		if v.State == First {
			t.Fatal("it runs again")
		}
		return v.State == Done && string(v.Answer.Body) == "kept"
	})
	eventually(t, "the end of the run", func() bool { return a.Snapshot() == OnceState{} })
}

// A claim whose reply did not come is taken back, so that the client can try again.
func TestOnceClaimTakenBack(t *testing.T) {
	s := storetest.Redis(t)
	n := newOnce(t, openRedis(t, s.URL), nil)
	q := request("a")
	s.Freeze()
	expect(t, n, "k", q, Unavailable) // Redis has the command and will obey it
	s.Thaw()
	eventually(t, "the run", func() bool {
		v := n.Begin(t.Context(), "caller", "k", q)
		if v.State == First {
			v.Run.Release()
		}
		return v.State == First
	})
}

// A Redis that forgets a run is told again by the node that runs it.
func TestOnceWiped(t *testing.T) {
	s := storetest.Redis(t)
	clock := newClock()
	r := openRedis(t, s.URL)
	n := newOnce(t, r, clock.now)
	run := begin(t, n, "k", request("a"))
	s.Kill()
	if err := s.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	clock.advance(defaultLease / 4)
	eventually(t, "its return", func() bool { n.round(); return r.Snapshot().Up && run.signs().Equal(clock.now()) })
	expect(t, n, "k", request("a"), Running)
	run.Finish(answer("x"))
	expect(t, n, "k", request("a"), Done)
}

func (r *Run) signs() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}
