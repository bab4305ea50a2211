// Package limittest keeps targets busy, for tests of who gets their slots.
package limittest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
)

// Load counts the requests that several gateways have open at one worker.
type Load struct {
	mu     sync.Mutex
	open   int
	most   int
	last   []time.Time // when each gateway last had a slot
	served []int
	gap    time.Duration
}

// New returns a Load for a number of gateways.
func New(gateways int) *Load {
	return &Load{last: make([]time.Time, gateways), served: make([]int, gateways)}
}

// Seen returns the largest number of requests that were open at once, the number of requests of each gateway, and the
// longest time between two requests of a gateway.
func (l *Load) Seen() (most int, served []int, gap time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most, slices.Clone(l.served), l.gap
}

func (l *Load) begin(gateway int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	l.most = max(l.most, l.open)
	if !l.last[gateway].IsZero() {
		l.gap = max(l.gap, time.Since(l.last[gateway]))
	}
	l.last[gateway] = time.Now()
	l.served[gateway]++
}

func (l *Load) end(gateway int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.last[gateway] = time.Now()
}

// Run sends requests of a gateway to the target, two at a time, until the context ends. Each holds its slot for the
// duration open.
func (l *Load) Run(ctx context.Context, gateway int, target *limit.Target, open time.Duration) {
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for ctx.Err() == nil {
				slot, refusal := target.Enter(ctx, limit.Caller{Class: limit.Critical})
				if refusal != nil {
					pause(ctx, 100*time.Millisecond)
					continue
				}
				l.begin(gateway)
				pause(ctx, open)
				l.end(gateway)
				slot.Release()
			}
		})
	}
	clients.Wait()
}

// pause waits for a time, or for the end of the context.
func pause(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}
