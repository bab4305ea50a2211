package cache

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// timeout limits a call while Redis does not respond.
const timeout = 50 * time.Millisecond

func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// wantWithin runs f a number of times at once and checks that it takes about limit at
// most. It compares with timers that run at the same time: a busy machine delays both.
func wantWithin(t *testing.T, limit time.Duration, calls int, f func()) {
	t.Helper()
	var all sync.WaitGroup
	var slowestCall, slowestTimer atomic.Int64
	slower := func(slowest *atomic.Int64, d time.Duration) {
		for old := slowest.Load(); int64(d) > old && !slowest.CompareAndSwap(old, int64(d)); old = slowest.Load() {
		}
	}
	for range calls {
		all.Go(func() { slower(&slowestCall, took(f)) })
		all.Go(func() { slower(&slowestTimer, took(func() { <-time.After(limit) })) })
	}
	all.Wait()
	if call, timer := time.Duration(slowestCall.Load()), time.Duration(slowestTimer.Load()); call > 4*timer+80*time.Millisecond {
		t.Errorf("it took %v, a timer of %v took %v", call, limit, timer)
	}
}

// TestRedisFrozen checks that a frozen Redis is a miss: the first requests wait for
// 50 ms, later ones do not wait, and Redis is used again when it continues.
func TestRedisFrozen(t *testing.T) {
	s := storetest.Redis(t)
	r := openRedis(t, s.URL)
	c := newCache(t, r, nil)
	k := c.Key("t", request("a"))
	eventually(t, "the hit", func() bool { c.Put(k, response("x")); return c.Get(t.Context(), k) != nil })

	s.Freeze()
	defer s.Thaw()
	wantWithin(t, timeout, 50, func() {
		if c.Get(t.Context(), k) != nil {
			t.Error("a hit from a frozen Redis")
		}
	})
	if r.Snapshot().Up {
		t.Error("it counts as up")
	}
	const looks = 10_000
	d := took(func() {
		for range looks {
			c.Get(t.Context(), k)
			c.Put(k, response("y"))
		}
	})
	t.Logf("while it is frozen a look and a write take %v", d/looks)
	if d > looks*timeout/100 {
		t.Error("they wait for Redis")
	}
	s.Thaw()
	wantWithin(t, 500*time.Millisecond, 1, func() {
		eventually(t, "the hit after it goes on", func() bool { a := c.Get(t.Context(), k); return a != nil && string(a.Body) == "x" })
	})
}

// TestRedisKilledAndWiped checks that a Redis that was killed and starts again empty is
// an empty cache.
func TestRedisKilledAndWiped(t *testing.T) {
	s := storetest.Redis(t)
	r := openRedis(t, s.URL)
	c := newCache(t, r, nil)
	k := c.Key("t", request("a"))
	eventually(t, "the hit", func() bool { c.Put(k, response("x")); return c.Get(t.Context(), k) != nil })
	s.Kill()
	wantWithin(t, timeout, 100, func() {
		if c.Get(t.Context(), k) != nil {
			t.Error("a hit from a killed Redis")
		}
	})
	if err := s.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its return", func() bool { return r.Snapshot().Up })
	if c.Get(t.Context(), k) != nil {
		t.Error("an empty Redis has an response")
	}
	eventually(t, "a new hit", func() bool { c.Put(k, response("y")); return c.Get(t.Context(), k) != nil })
}

// TestRedisComesLater checks that a Redis that starts after the gateway is used.
func TestRedisComesLater(t *testing.T) {
	s := storetest.Redis(t)
	s.Kill()
	var r *Redis
	wantWithin(t, 200*time.Millisecond, 1, func() { r = openRedis(t, s.URL) })
	c := newCache(t, r, nil)
	k := c.Key("t", request("a"))
	if c.Get(t.Context(), k) != nil {
		t.Error("a hit without Redis")
	}
	n := newOnce(t, r, nil)
	expect(t, n, "k", request("a"), Unavailable)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its arrival", func() bool { return r.Snapshot().Up })
	begin(t, n, "k", request("a")).Release()
}

// TestRedisFull checks that a Redis that rejects writes counts as up and is still read.
func TestRedisFull(t *testing.T) {
	s := storetest.Redis(t)
	r := openRedis(t, s.URL)
	c := newCache(t, r, nil)
	held, more := c.Key("t", request("a")), c.Key("t", request("b"))
	eventually(t, "the hit", func() bool { c.Put(held, response("x")); return c.Get(t.Context(), held) != nil })
	client := r.client.Server("").Conn()
	if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	before := r.Snapshot().Dropped
	c.Put(more, response("y"))
	eventually(t, "the refusal", func() bool { return r.Snapshot().Dropped > before })
	eventually(t, "the hit", func() bool { return c.Get(t.Context(), held) != nil })
	if c.Get(t.Context(), more) != nil {
		t.Error("a full Redis has stored a response")
	}
	if v := newOnce(t, r, nil).Begin(t.Context(), "o", "c", "k", request("a")); v.State != Unavailable {
		t.Errorf("the state is %v where nothing can be recorded", v.State)
	}
}

// TestOnceFrozen checks that the response of an idempotent request that finishes while
// Redis is frozen is stored when Redis continues, and that the request does not run again
// until then.
func TestOnceFrozen(t *testing.T) {
	s := storetest.Redis(t)
	a, b := newOnce(t, openRedis(t, s.URL), nil), newOnce(t, openRedis(t, s.URL), nil)
	q := request("a")
	run := begin(t, a, "k", q)
	s.Freeze()
	defer s.Thaw()
	wantWithin(t, 3*timeout, 1, func() { expect(t, b, "k", q, Unavailable) })
	expect(t, b, "new", q, Unavailable)
	wantWithin(t, onceEnd, 1, func() { run.Finish(response("kept")) })
	s.Thaw()
	eventually(t, "the response", func() bool {
		v := b.Begin(t.Context(), "o", "caller", "k", q)
		if v.State == First {
			t.Fatal("it runs again")
		}
		return v.State == Done && string(v.Response.Body) == "kept"
	})
	eventually(t, "the end of the run", func() bool { return a.Snapshot() == OnceState{} })
}

// TestOnceLostReply checks that a claim whose reply was lost is removed, so that the
// client can retry.
func TestOnceLostReply(t *testing.T) {
	s := storetest.Redis(t)
	n := newOnce(t, openRedis(t, s.URL), nil)
	q := request("a")
	s.Freeze()
	expect(t, n, "k", q, Unavailable) // Redis has received the command and will execute it
	s.Thaw()
	eventually(t, "the run", func() bool {
		v := n.Begin(t.Context(), "o", "caller", "k", q)
		if v.State == First {
			v.Run.Release()
		}
		return v.State == First
	})
}

// TestOnceWiped checks that the node that runs a request writes its record again after
// Redis has lost it.
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
	run.Finish(response("x"))
	expect(t, n, "k", request("a"), Done)
}

func (r *Run) signs() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// TestBytesOfTenantInRedis checks that a tenant that stores responses without end keeps its
// share, and that others can store theirs.
func TestBytesOfTenantInRedis(t *testing.T) {
	r := openRedisFor(t, storetest.Redis(t).URL, time.Minute) // after a timeout a response is stored again, and counts twice
	n := newOnce(t, r, nil)
	body := make([]byte, 1000<<10)
	run := func(tenant string, i int) State {
		v := n.Begin(t.Context(), tenant, tenant, strconv.Itoa(i), request("a"))
		if v.State == First {
			v.Run.Finish(&Response{Status: 200, Body: body})
			eventually(t, "the end of the run", func() bool { return n.Snapshot().Open == 0 })
		}
		return v.State
	}
	const most = redisTenantBytes / (1000 << 10)
	for i := range most + 5 {
		if s := run("loud", i); s != First {
			t.Fatal(i, s)
		}
	}
	for i, want := range map[int]State{0: Done, most / 2: Done, most: NoResponse, most + 4: NoResponse} {
		if s := run("loud", i); s != want {
			t.Errorf("request %d of the loud tenant is %d, want %d", i, s, want)
		}
	}
	if run("quiet", 0) != First || run("quiet", 0) != Done {
		t.Error("another tenant cannot store its response")
	}
	c := r.client.Server("").Conn()
	if ms, err := c.Do(t.Context(), c.B().Pttl().Key(bytesPrefix+"loud").Build()).AsInt64(); err != nil || ms <= 0 || ms > defaultKeep.Milliseconds() {
		t.Errorf("the count expires in %d ms: %v", ms, err)
	}
}

// TestClusterMasterDies kills a master of a cluster. Idempotency-Keys and responses on the others are used
// as before.
func TestClusterMasterDies(t *testing.T) {
	cluster := storetest.RedisCluster(t, 3, 0)
	r := openRedis(t, cluster[0].URL)
	c, n := newCache(t, r, nil), newOnce(t, r, nil)
	cluster[1].Kill()
	alive := map[bool]int{}
	for i := range 24 {
		q := request(strconv.Itoa(i))
		k, one := c.Key("t", q), n.keys.once("caller", strconv.Itoa(i))
		up := r.client.Server(oncePrefix+one.text()).Addr != cluster[1].Addr
		alive[up]++
		if up {
			eventually(t, "a run on a master that lives", func() bool {
				v := n.Begin(t.Context(), "o", "caller", strconv.Itoa(i), q)
				if v.State == First {
					v.Run.Release()
				}
				return v.State == First
			})
		} else {
			expect(t, n, strconv.Itoa(i), q, Unavailable)
		}
		if r.client.Server(responsePrefix+k.text()).Addr != cluster[1].Addr {
			eventually(t, "a hit on a master that lives", func() bool { c.Put(k, response("x")); return c.Get(t.Context(), k) != nil })
		} else if c.Get(t.Context(), k) != nil {
			t.Error("a hit on a dead master")
		}
	}
	if alive[true] == 0 || alive[false] == 0 {
		t.Errorf("the keys are on one side: %v", alive)
	}
}
