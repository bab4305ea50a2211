package discover

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/storetest"
)

// used counts the open requests of a worker and those that each gateway has sent.
type used struct {
	mu     sync.Mutex
	open   int
	most   int
	served []int
}

func (u *used) began(gateway int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open++
	u.most = max(u.most, u.open)
	u.served[gateway]++
}

func (u *used) ended() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open--
}

// load keeps two requests waiting for the worker until the context ends. Each is open for
// a time that long returns.
func (u *used) load(ctx context.Context, gateway int, target *limit.Target, long func() time.Duration) {
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for ctx.Err() == nil {
				slot, refusal := target.Enter(ctx, limit.Caller{Class: limit.Critical})
				if refusal != nil {
					select {
					case <-ctx.Done():
					case <-time.After(100 * time.Millisecond):
					}
					continue
				}
				u.began(gateway)
				select {
				case <-ctx.Done():
				case <-time.After(long()):
				}
				u.ended()
				slot.Release()
			}
		})
	}
	clients.Wait()
}

// TestTurnsInEtcd checks with a real etcd that three gateways use a worker of capacity 2 in
// turns: all get a slot, and never more than two at once.
func TestTurnsInEtcd(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	w := worker("a", "m")
	w.Capacity = 2
	put(t, c, w)
	u := &used{served: make([]int, 3)}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	list := make([]gateway, 3)
	for n := range list {
		list[n] = newGateway(t, at(s.URL), gatewayTTL, "")
	}
	agree(t, 3, list...)
	for n, g := range list {
		found := g.Status().Snapshot
		if len(found.Workers) != 1 || !found.Share.TakesTurns(found.Workers[0]) || found.Turns == nil {
			t.Fatalf("%+v", found)
		}
		l := limit.New()
		l.Use(limit.Config{Requests: -1, Memory: -1, Queue: 100, Wait: time.Minute})
		target := l.Target("w", 1)
		target.UseTurn(found.Turns.Turn(found.Workers[0].ID))
		all.Go(func() { u.load(ctx, n, target, func() time.Duration { return 20 * time.Millisecond }) })
	}
	eventually(t, "every gateway has had a slot", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return slices.Min(u.served) > 0
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.most > 2 {
		t.Errorf("%d requests were open at once", u.most)
	}
}
