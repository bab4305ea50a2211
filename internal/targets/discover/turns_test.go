package discover

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit/limittest"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestTurnsInEtcd checks with a real etcd that three gateways use a worker of capacity 2 in
// turns: all get a slot, and never more than two at once.
func TestTurnsInEtcd(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	w := worker("a", "m")
	w.Capacity = 2
	put(t, c, w)
	load := limittest.New(3)
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
		all.Go(func() { load.Run(ctx, n, target, 20*time.Millisecond) })
	}
	eventually(t, "every gateway has had a slot", func() bool {
		_, served, _ := load.Seen()
		return slices.Min(served) > 0
	})
	if most, _, _ := load.Seen(); most > 2 {
		t.Errorf("%d requests were open at once", most)
	}
}
