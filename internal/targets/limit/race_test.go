package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestConcurrentUse runs requests that wait, are cancelled and are released twice,
// concurrently with reloads and snapshots. It checks that no limit is exceeded and that
// no slot stays taken.
//
// The goroutines run in parallel in the bubble; only waiting costs no time.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, testConcurrentUse)
}

func testConcurrentUse(t *testing.T) {
	const requests, perKey, perTarget = 20, 6, 8
	config := Config{Requests: requests, PerKey: perKey, PerTarget: perTarget, Queue: 50, Wait: 20 * time.Millisecond, Adaptive: true, Memory: 1 << 40}
	l := New()
	l.Use(config)
	var open, served atomic.Int64
	var keys, targets [4]atomic.Int64
	check := func(n *atomic.Int64, limit int64, what string) func() {
		if got := n.Add(1); got > limit {
			t.Errorf("%d are open for %s, the limit is %d", got, what, limit)
		}
		return func() { n.Add(-1) }
	}
	one := func(random *rand.Rand) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(30))*time.Millisecond)
		defer cancel()
		k, class := random.IntN(4), Class(random.IntN(classes))
		p, refusal := l.Enter(ctx, Caller{Key: fmt.Sprint(k), Class: class})
		if refusal != nil {
			return
		}
		defer p.Release()
		defer check(&open, requests, "the process")()
		defer check(&keys[k], perKey, "a key")()
		i := random.IntN(4)
		target := l.Target(fmt.Sprint(i), 0)
		slot, ok := target.TryEnter(Caller{Class: class})
		if !ok {
			if slot, refusal = target.Enter(ctx, Caller{Key: fmt.Sprint(k), Class: class}); refusal != nil {
				return
			}
		}
		defer slot.Release()
		defer check(&targets[i], perTarget, "a target")()
		served.Add(1)
		if random.IntN(10) == 0 {
			slot.Failed()
		}
		slot.FirstToken(time.Duration(random.IntN(int(time.Millisecond))))
		if random.IntN(4) == 0 {
			time.Sleep(time.Duration(random.IntN(int(2 * time.Millisecond)))) // some requests hold their slots, so that others wait
		}
	}
	var all sync.WaitGroup
	for n := range 64 {
		random := rand.New(rand.NewPCG(uint64(n), 1))
		all.Go(func() {
			for range 100 {
				one(random)
			}
		})
	}
	all.Go(func() {
		for range 100 {
			l.Use(config)
			_ = l.Snapshot()
		}
	})
	all.Wait()
	s := l.Snapshot()
	if s.Process.Open != 0 || s.Process.Waiting != 0 {
		t.Errorf("the process is left with %+v", s.Process)
	}
	for id, g := range s.Targets {
		if g.Open != 0 || g.Waiting != 0 {
			t.Errorf("target %s is left with %+v", id, g)
		}
	}
	for key, s := range l.process.queue.shares {
		if s.open != 0 || s.waiting != 0 {
			t.Errorf("key %s is left with %d open and %d waiting", key, s.open, s.waiting)
		}
	}
	if served.Load() < 100 {
		t.Errorf("only %d of 6400 were served", served.Load())
	}
}
