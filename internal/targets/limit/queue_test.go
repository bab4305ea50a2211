package limit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bench queues requests in front of a full limiter and records the order of admission and
// the reasons of rejections. Use it in a synctest bubble.
type bench struct {
	l     *Limiter
	mu    sync.Mutex
	order []string
	lost  map[string]string // reason by name
	after map[string]time.Duration
	all   sync.WaitGroup
}

func newBench(c Config) *bench {
	return &bench{l: use(c), lost: map[string]string{}, after: map[string]time.Duration{}}
}

// wait queues a request that holds its slot for a second.
func (b *bench) wait(ctx context.Context, name, key string, class Class) {
	start := time.Now()
	b.all.Go(func() {
		p, refusal := b.l.Enter(ctx, Caller{Key: key, Class: class})
		b.mu.Lock()
		b.after[name] = time.Since(start)
		if refusal != nil {
			b.lost[name] = refusal.Reason
			b.mu.Unlock()
			return
		}
		b.order = append(b.order, name)
		b.mu.Unlock()
		time.Sleep(time.Second)
		p.Release()
	})
	synctest.Wait()
}

// came returns the requests admitted so far. lose returns the reason of a rejection. took
// returns the time until a request was admitted or rejected.
func (b *bench) came() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.order)
}

func (b *bench) lose(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost[name]
}

func (b *bench) took(name string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.after[name]
}

// end waits for all requests and verifies that none is left.
func (b *bench) end(t *testing.T) {
	t.Helper()
	b.all.Wait()
	s := b.l.Snapshot().Process
	if s.Open != 0 || s.Waiting != 0 {
		t.Errorf("at the end %d are open and %d wait", s.Open, s.Waiting)
	}
	for c := range b.l.process.queue.lines {
		l := &b.l.process.queue.lines[c]
		if l.ready != 0 || l.turns.Len() != 0 || l.all.Len() != 0 {
			t.Errorf("at the end the queue of %s has %d, %d and %d left", Class(c), l.ready, l.turns.Len(), l.all.Len())
		}
	}
}

func (b *bench) want(t *testing.T, order string) {
	t.Helper()
	if got := strings.Join(b.came(), " "); got != order {
		t.Errorf("they came in as %s, want %s", got, order)
	}
}

func TestQueueOrder(t *testing.T) {
	cases := []struct {
		name  string
		come  string // name:key:class, in order of arrival
		order string
	}{
		{"first come, first served", "1:a:normal 2:a:normal 3:a:normal", "1 2 3"},
		{"by class", "1:a:sheddable 2:a:normal 3:a:critical 4:b:normal 5:b:critical", "3 5 2 4 1"},
		{"keys take turns", "1:a:normal 2:a:normal 3:a:normal 4:b:normal 5:c:normal 6:b:normal", "1 4 5 2 6 3"},
		{"turns in each class", "1:a:normal 2:a:normal 3:b:normal 4:a:critical 5:a:critical 6:b:critical", "4 6 5 1 3 2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(Config{Requests: 1, Queue: 20, Wait: time.Minute})
				b.wait(context.Background(), "0", "a", Normal)
				for _, w := range strings.Fields(c.come) {
					f := strings.Split(w, ":")
					class, _ := ParseClass(f[2])
					b.wait(context.Background(), f[0], f[1], class)
				}
				b.end(t)
				b.want(t, "0 "+c.order)
			})
		})
	}
}

// TestKeyWaitsForItself checks that a key at its limit waits for its own slots and does
// not delay other keys.
func TestKeyWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(Config{Requests: 10, PerKey: 1, Queue: 8, Wait: time.Minute})
		for _, name := range []string{"a1", "a2", "a3"} {
			b.wait(context.Background(), name, "a", Critical)
		}
		b.wait(context.Background(), "b1", "b", Sheddable)
		b.want(t, "a1 b1")
		b.end(t)
		b.want(t, "a1 b1 a2 a3")
		if b.took("a2") != time.Second || b.took("a3") != 2*time.Second {
			t.Errorf("the key waited %v and %v for its own places", b.took("a2"), b.took("a3"))
		}
	})
}

func TestKeysShareOfTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(Config{Requests: 1, Queue: 30, Wait: time.Hour})
		b.wait(context.Background(), "0", "x", Normal)
		for i := range 30 {
			b.wait(context.Background(), fmt.Sprint("a", i), "a", Normal)
		}
		if got := b.l.Snapshot().Process.Waiting; got != 20 {
			t.Errorf("one key has %d of 30 places in the queue, want two thirds", got)
		}
		if b.lose("a29") != Queue {
			t.Errorf("its last request was refused for %q", b.lose("a29"))
		}
		for i := range 5 { // keys without waiting requests are still admitted to the queue
			b.wait(context.Background(), fmt.Sprint("q", i), fmt.Sprint("q", i), Normal)
		}
		b.end(t)
		if !slices.Equal(b.came()[:7], []string{"0", "a0", "q0", "q1", "q2", "q3", "q4"}) {
			t.Errorf("they came in as %v", b.came())
		}
	})
}

func TestFullQueuePushesOutALesserClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(Config{Requests: 1, Queue: 3, Wait: time.Hour})
		b.wait(context.Background(), "0", "x", Normal)
		for i, class := range []Class{Sheddable, Sheddable, Normal, Normal, Critical, Critical, Sheddable, Critical} {
			b.wait(context.Background(), fmt.Sprint(i+1), fmt.Sprint(i), class)
		}
		b.end(t)
		// Sheddable requests are dropped first, then the newest normal ones.
		b.want(t, "0 5 6 8")
		for _, name := range []string{"1", "2", "3", "4", "7"} {
			if b.lose(name) != Queue || b.took(name) >= 5*time.Millisecond {
				t.Errorf("%s was refused for %q after %v", name, b.lose(name), b.took(name))
			}
		}
	})
}

func TestWaitEnds(t *testing.T) {
	const wait = 8 * time.Second
	cases := []struct {
		name   string
		class  Class
		cancel time.Duration // when the client disconnects; 0: never
		reason string
		after  time.Duration
	}{
		{"at the end of its wait", Normal, 0, Process, wait},
		{"sheddable earlier", Sheddable, 0, Process, wait / shortWait},
		{"when the client goes", Normal, time.Second, Cancelled, time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(Config{Requests: 1, Queue: 3, Wait: wait})
				p := enter(t, b.l, "a", Normal)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				b.wait(ctx, "1", "a", c.class)
				b.all.Wait()
				if b.lose("1") != c.reason || b.took("1") != c.after {
					t.Errorf("refused for %q after %v, want %s after %v", b.lose("1"), b.took("1"), c.reason, c.after)
				}
				p.Release()
				b.end(t)
			})
		})
	}
}

// learnHold makes a gate measure a hold time of one second per slot.
func learnHold(t *testing.T, l *Limiter) {
	t.Helper()
	p := enter(t, l, "x", Normal)
	time.Sleep(time.Second)
	p.Release()
}

func TestHopelessWaitIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(Config{Requests: 1, Queue: 100, Wait: 10 * time.Second})
		learnHold(t, b.l)
		b.wait(context.Background(), "0", "x", Normal)
		for i := range 10 {
			b.wait(context.Background(), fmt.Sprint(i+1), fmt.Sprint(i), Normal)
		}
		// Each slot is held for a second. With the safety factor of two, five requests
		// may queue for ten seconds.
		for i := range 10 {
			name := fmt.Sprint(i + 1)
			if refused := b.lose(name) != ""; refused != (i >= 5) || refused && b.took(name) > 0 {
				t.Errorf("request %s: refused %v after %v", name, refused, b.took(name))
			}
		}
		// A client whose deadline is shorter than the expected wait is rejected at once.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		b.wait(ctx, "hurry", "h", Critical)
		if b.lose("hurry") != Process || b.took("hurry") > 0 {
			t.Errorf("a request with a second left was refused for %q after %v", b.lose("hurry"), b.took("hurry"))
		}
		b.end(t)
	})
}

// TestStalledQueueRefusesAtOnce checks that new requests to a hanging target, which frees
// no slots, are rejected at once instead of after the full wait.
func TestStalledQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(Config{Requests: 1, Queue: 100, Wait: 10 * time.Second})
		p := enter(t, b.l, "x", Normal)
		b.wait(context.Background(), "1", "a", Normal)
		time.Sleep(6 * time.Second)
		r := refused(t, b.l, "b", Normal, Process)
		if r.RetryAfter < 6*time.Second {
			t.Errorf("after 6 s without a place the client is told to return in %v", r.RetryAfter)
		}
		p.Release()
		b.end(t)
	})
}

// TestCrowdedQueueIsKeptShort checks that a queue that has not been empty for the
// duration of Wait is kept short.
func TestCrowdedQueueIsKeptShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(Config{Requests: 1, Queue: 100, Wait: 20 * time.Second})
		learnHold(t, b.l)
		longest := func(n int) (longest int) {
			for i := range n {
				b.wait(context.Background(), fmt.Sprint(b.l.clock()), fmt.Sprint("k", i%5), Normal)
				time.Sleep(250 * time.Millisecond)
				longest = max(longest, b.l.Snapshot().Process.Waiting)
			}
			return longest
		}
		if got := longest(4 * 20); got < 9 || got > 14 {
			t.Errorf("in a burst up to %d wait, want half of 20 s, a second each", got)
		}
		_ = longest(4 * 10) // the queue shrinks
		if got := longest(4 * 10); got < 1 || got > 4 {
			t.Errorf("in a crowded queue %d wait, want half of 5 s, a second each", got)
		}
		b.end(t)
	})
}

func TestIdleKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := use(Config{Requests: 10, PerKey: 1})
		held := enter(t, l, "held", Normal)
		for i := range 3 * keepShares {
			enter(t, l, fmt.Sprint(i), Normal).Release()
		}
		if n := len(l.process.queue.shares); n > keepShares+1 {
			t.Errorf("%d keys are remembered", n)
		}
		_ = refused(t, l, "held", Normal, Key)
		held.Release()
	})
}
