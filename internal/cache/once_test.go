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

// begin runs the first request under a key. On a busy machine Redis may take longer
// than a request waits for it; a client then tries again, and so does this.
func begin(t testing.TB, n *Once, key string, q *Request) *Run {
	t.Helper()
	var v Verdict
	eventually(t, "the run of "+key, func() bool {
		v = n.Begin(t.Context(), "caller", key, q)
		return v.State == First
	})
	return v.Run
}

// expect tries again for the same reason, also where an end may not be stored yet.
func expect(t testing.TB, n *Once, key string, q *Request, want State) Verdict {
	t.Helper()
	var v Verdict
	eventually(t, "an answer about "+key, func() bool {
		v = n.Begin(t.Context(), "caller", key, q)
		late := v.State == Running && (want == Done || want == Spent)
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
			run.Finish(answer("hello"))
			run.Release() // comes too late
			v := expect(t, n, "finished", q, Done)
			if string(v.Answer.Body) != "hello" || v.Answer.Header.Get("Content-Type") != "application/json" {
				t.Errorf("the answer is %+v", v.Answer)
			}
			expect(t, n, "finished", other, Mismatch)

			// An error of the upstream is what came of it.
			failed := answer("no")
			failed.Status = http.StatusBadGateway
			begin(t, n, "failed", q).Finish(failed)
			if v := expect(t, n, "failed", q, Done); v.Answer.Status != http.StatusBadGateway {
				t.Errorf("the status is %d", v.Answer.Status)
			}

			begin(t, n, "refused", q).Release()
			begin(t, n, "refused", other).Release()

			begin(t, n, "cut", q).Spend()
			expect(t, n, "cut", q, Spent)

			large := answer(strings.Repeat("x", DefaultMax+1))
			begin(t, n, "large", q).Finish(large)
			expect(t, n, "large", q, Spent)

			begin(t, n, strings.Repeat("k", MaxKey), q).Release()
			for _, key := range []string{"", strings.Repeat("k", MaxKey+1), "a\nb"} {
				expect(t, n, key, q, Invalid)
			}
			eventually(t, "the end of all runs", func() bool { return n.Snapshot() == OnceState{} })
		})
	}
}

// The same Idempotency-Key of another caller is another key.
func TestOnceCallers(t *testing.T) {
	for name, locks := range lockers(t) {
		t.Run(name, func(t *testing.T) {
			n := newOnce(t, locks, nil)
			for _, caller := range []string{"k1", "k2"} {
				eventually(t, "the run of "+caller, func() bool {
					v := n.Begin(t.Context(), caller, "same", request("a"))
					if v.State == First {
						v.Run.Finish(answer("of " + caller))
					}
					return v.State == First
				})
			}
			for _, caller := range []string{"k1", "k2"} {
				var v Verdict
				eventually(t, "the answer to "+caller, func() bool {
					v = n.Begin(t.Context(), caller, "same", request("a"))
					return v.State == Done
				})
				if string(v.Answer.Body) != "of "+caller {
					t.Errorf("%s was given %q", caller, v.Answer.Body)
				}
			}
		})
	}
}

// A hundred at once: one runs at a time, and once one has finished none runs again.
// Two nodes share the records, as they do in Redis.
func TestOnceAtATime(t *testing.T) {
	for name, locks := range lockers(t) {
		t.Run(name, func(t *testing.T) {
			nodes := []*Once{newOnce(t, locks, nil), newOnce(t, locks, nil)}
			var inside, runs, finished atomic.Int64
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() {
					for {
						v := nodes[i%2].Begin(t.Context(), "c", "key", request("a"))
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
							v.Run.Finish(answer("done"))
						case Running, Unavailable: // Unavailable: the machine is slower than 50 ms
						case Done:
							if string(v.Answer.Body) != "done" {
								t.Errorf("the answer is %q", v.Answer.Body)
							}
							return
						default:
							t.Errorf("the state is %v", v.State)
							return
						}
						<-time.After(v.RetryAfter / 100) // clients wait between two tries
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

// A long run stays Running as long as it gives signs of life. When its node dies it is
// spent and does not run again: it may have been charged.
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
			clock.advance(2 * defaultLease) // nothing is heard of it
			expect(t, lives, "long", request("a"), Spent)

			// It was not dead after all: its answer counts.
			run.Finish(answer("late"))
			expect(t, lives, "long", request("a"), Done)
		})
	}
}

// What is known of a key ends after a day.
func TestOnceKeep(t *testing.T) {
	clock := newClock()
	records := NewRecords(0)
	records.now = clock.now
	n := newOnce(t, records, clock.now)
	begin(t, n, "k", request("a")).Finish(answer("x"))
	clock.advance(defaultKeep - time.Second)
	expect(t, n, "k", request("a"), Done)
	clock.advance(2 * time.Second)
	begin(t, n, "k", request("b")).Release()
	if len(records.all) != 0 || records.size != 0 {
		t.Errorf("%d records and %d bytes are left", len(records.all), records.size)
	}
}

// Memory is bounded: answers go first, then records of what is over, and what is under
// way stays.
func TestRecordsBound(t *testing.T) {
	const size = 1 << 20
	records := NewRecords(size)
	n := newOnce(t, records, nil)
	q := request("a")
	open := begin(t, n, "open", q)
	body := strings.Repeat("x", 100_000)
	for i := range 50 {
		begin(t, n, fmt.Sprint(i), q).Finish(answer(body))
		if records.size > size {
			t.Fatalf("%d bytes are held, the bound is %d", records.size, size)
		}
	}
	expect(t, n, "0", q, Spent)
	expect(t, n, "49", q, Done)
	for i := range 10_000 {
		begin(t, n, fmt.Sprint("s", i), q).Spend()
	}
	begin(t, n, "0", q).Release() // forgotten long ago
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
	open.Finish(answer("x"))
	expect(t, n, "open", q, Done)
}

func TestRecordsFull(t *testing.T) {
	n := newOnce(t, NewRecords(2000), nil)
	var runs []*Run
	for i := range 100 {
		v := n.Begin(t.Context(), "c", fmt.Sprint(i), request("a"))
		if v.State == Unavailable {
			break
		}
		runs = append(runs, v.Run)
	}
	if len(runs) == 0 || len(runs) > 7 {
		t.Fatalf("%d runs fit into 2000 bytes", len(runs))
	}
	runs[0].Release()
	if v := n.Begin(t.Context(), "c", "more", request("a")); v.State != First {
		t.Errorf("the state is %v after one has ended", v.State)
	}
}
