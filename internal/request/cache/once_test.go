package cache

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// begin starts the first request under a key. On a busy machine Redis may exceed the
// timeout of Begin; begin then retries, as a client does.
func begin(t testing.TB, n *Once, key string, q *Request) *Run {
	t.Helper()
	var v Result
	eventually(t, "the run of "+key, func() bool {
		v = n.Begin(t.Context(), "o", "caller", key, q)
		return v.State == First
	})
	return v.Run
}

// expect retries for the same reason, and because the end of a run may not be stored yet.
func expect(t testing.TB, n *Once, key string, q *Request, want State) Result {
	t.Helper()
	var v Result
	eventually(t, "an response about "+key, func() bool {
		v = n.Begin(t.Context(), "o", "caller", key, q)
		late := v.State == Running && (want == Done || want == NoResponse)
		return v.State == want || v.State != Unavailable && !late
	})
	if v.State != want {
		t.Errorf("%s: the state is %v, want %v", key, v.State, want)
	}
	if wait := v.State == Running || v.State == Unavailable; wait != (v.RetryAfter > 0) {
		t.Errorf("%s: state %v with Retry-After %v", key, v.State, v.RetryAfter)
	}
	return v
}

func TestOnce(t *testing.T) {
	for name, locks := range lockers(t) {
		t.Run(name, func(t *testing.T) {
			n := newOnce(t, locks, nil)
			q, other := request("a"), request("b")

			run := begin(t, n, "finished", q)
			expect(t, n, "finished", q, Running)
			expect(t, n, "finished", other, Mismatch)
			run.Finish(response("hello"))
			run.Release() // has no effect after Finish
			v := expect(t, n, "finished", q, Done)
			if string(v.Response.Body) != "hello" || v.Response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("the response is %+v", v.Response)
			}
			expect(t, n, "finished", other, Mismatch)

			// An upstream error is a response too.
			failed := response("no")
			failed.Status = http.StatusBadGateway
			begin(t, n, "failed", q).Finish(failed)
			if v := expect(t, n, "failed", q, Done); v.Response.Status != http.StatusBadGateway {
				t.Errorf("the status is %d", v.Response.Status)
			}

			begin(t, n, "refused", q).Release()
			begin(t, n, "refused", other).Release()

			begin(t, n, "cut", q).FinishWithoutResponse()
			expect(t, n, "cut", q, NoResponse)

			large := response(strings.Repeat("x", DefaultMax+1))
			begin(t, n, "large", q).Finish(large)
			expect(t, n, "large", q, NoResponse)

			begin(t, n, strings.Repeat("k", MaxKey), q).Release()
			for _, key := range []string{"", strings.Repeat("k", MaxKey+1), "a\nb"} {
				expect(t, n, key, q, Invalid)
			}
			eventually(t, "the end of all runs", func() bool { return n.Snapshot() == OnceState{} })
		})
	}
}

// TestOnceCallers checks that the same Idempotency-Key of two callers is two keys.
func TestOnceCallers(t *testing.T) {
	for name, locks := range lockers(t) {
		t.Run(name, func(t *testing.T) {
			n := newOnce(t, locks, nil)
			for _, caller := range []string{"k1", "k2"} {
				eventually(t, "the run of "+caller, func() bool {
					v := n.Begin(t.Context(), "o", caller, "same", request("a"))
					if v.State == First {
						v.Run.Finish(response("of " + caller))
					}
					return v.State == First
				})
			}
			for _, caller := range []string{"k1", "k2"} {
				var v Result
				eventually(t, "the response to "+caller, func() bool {
					v = n.Begin(t.Context(), "o", caller, "same", request("a"))
					return v.State == Done
				})
				if string(v.Response.Body) != "of "+caller {
					t.Errorf("%s got %q", caller, v.Response.Body)
				}
			}
		})
	}
}

// TestOnceAtATime checks that of a hundred concurrent requests on two nodes one runs at a
// time, and that none runs after one has finished.
func TestOnceAtATime(t *testing.T) {
	for name, locks := range lockers(t) {
		t.Run(name, func(t *testing.T) {
			nodes := []*Once{newOnce(t, locks, nil), newOnce(t, locks, nil)}
			var inside, runs, finished atomic.Int64
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() {
					for {
						v := nodes[i%2].Begin(t.Context(), "o", "c", "key", request("a"))
						switch v.State {
						case First:
							if inside.Add(1) != 1 {
								t.Error("two run at a time")
							}
							if finished.Load() != 0 {
								t.Error("one runs after another has finished")
							}
							last := runs.Add(1) == 5
							inside.Add(-1)
							if !last {
								v.Run.Release()
								continue
							}
							finished.Add(1)
							v.Run.Finish(response("done"))
						case Running, Unavailable: // Unavailable: the machine took longer than 50 ms
						case Done:
							if string(v.Response.Body) != "done" {
								t.Errorf("the response is %q", v.Response.Body)
							}
							return
						default:
							t.Errorf("the state is %v", v.State)
							return
						}
						<-time.After(v.RetryAfter / 100) // clients wait between two attempts
					}
				})
			}
			all.Wait()
			if runs.Load() != 5 || finished.Load() != 1 {
				t.Errorf("%d ran and %d finished, want 5 and 1", runs.Load(), finished.Load())
			}
		})
	}
}

// TestOnceDeadNode checks that a long run stays Running while it is renewed. When its
// node dies it becomes NoResponse and does not run again, because it may have been
// charged.
func TestOnceDeadNode(t *testing.T) {
	for name, locks := range lockers(t) {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			dies, lives := newOnce(t, locks, clock.now), newOnce(t, locks, clock.now)
			run := begin(t, dies, "long", request("a"))
			for range 20 {
				clock.advance(20 * time.Second)
				dies.round()
				expect(t, lives, "long", request("a"), Running)
			}
			clock.advance(2 * defaultLease) // no renewal
			expect(t, lives, "long", request("a"), NoResponse)

			// The node was alive after all: its response is stored.
			run.Finish(response("late"))
			expect(t, lives, "long", request("a"), Done)
		})
	}
}

// TestOnceKeep checks that a record expires after a day.
func TestOnceKeep(t *testing.T) {
	clock := newClock()
	records := NewRecords(0)
	records.now = clock.now
	n := newOnce(t, records, clock.now)
	begin(t, n, "k", request("a")).Finish(response("x"))
	clock.advance(defaultKeep - time.Second)
	expect(t, n, "k", request("a"), Done)
	clock.advance(2 * time.Second)
	begin(t, n, "k", request("b")).Release()
	if len(records.all) != 0 || records.size != 0 {
		t.Errorf("%d records and %d bytes are left", len(records.all), records.size)
	}
}

// TestRecordsBound checks that at the limit responses are evicted first, then records of
// ended runs, and never records of open runs.
func TestRecordsBound(t *testing.T) {
	const size = 1 << 20
	records := NewRecords(size)
	n := newOnce(t, records, nil)
	q := request("a")
	open := begin(t, n, "open", q)
	body := strings.Repeat("x", 100_000)
	for i := range 50 {
		begin(t, n, fmt.Sprint(i), q).Finish(response(body))
		if records.size > size {
			t.Fatalf("%d bytes are held, the bound is %d", records.size, size)
		}
	}
	expect(t, n, "0", q, NoResponse)
	expect(t, n, "49", q, Done)
	for i := range 10_000 {
		begin(t, n, fmt.Sprint("s", i), q).FinishWithoutResponse()
	}
	begin(t, n, "0", q).Release() // its record is evicted long since
	expect(t, n, "open", q, Running)
	if records.size > size {
		t.Errorf("%d bytes are held, the bound is %d", records.size, size)
	}
	var sum int64
	for _, e := range records.all {
		sum += cost(e.value)
	}
	if sum != records.size {
		t.Errorf("%d bytes are counted, and there are %d", records.size, sum)
	}
	open.Finish(response("x"))
	expect(t, n, "open", q, Done)
}

func TestRecordsFull(t *testing.T) {
	n := newOnce(t, NewRecords(2000), nil)
	var runs []*Run
	for i := range 100 {
		v := n.Begin(t.Context(), "o", "c", fmt.Sprint(i), request("a"))
		if v.State == Unavailable {
			break
		}
		runs = append(runs, v.Run)
	}
	if len(runs) == 0 || len(runs) > 7 {
		t.Fatalf("%d runs fit into 2000 bytes", len(runs))
	}
	runs[0].Release()
	if v := n.Begin(t.Context(), "o", "c", "more", request("a")); v.State != First {
		t.Errorf("the state is %v after one has ended", v.State)
	}
}

// TestTenantsDoNotEvictEachOther checks that a tenant that stores responses without end
// evicts only its own records.
func TestTenantsDoNotEvictEachOther(t *testing.T) {
	records := NewRecords(256 << 10)
	n := newOnce(t, records, nil)
	run := func(tenant string, i int) State {
		v := n.Begin(t.Context(), tenant, tenant, fmt.Sprint(i), request("a"))
		if v.State == First {
			v.Run.Finish(&Response{Status: 200, Body: make([]byte, 1000)})
		}
		return v.State
	}
	for i := range 20 {
		if s := run("quiet", i); s != First {
			t.Fatal(s)
		}
	}
	for i := range 2000 {
		if s := run("loud", i); s != First {
			t.Fatal(i, s)
		}
	}
	for i := range 20 {
		if s := run("quiet", i); s != Done {
			t.Errorf("request %d of the quiet tenant is %d", i, s)
		}
	}
	if s := run("loud", 1999); s != Done {
		t.Errorf("the last request of the loud tenant is %d", s)
	}
	if s := run("loud", 0); s == Done {
		t.Error("the first request of the loud tenant is still stored")
	}
}
