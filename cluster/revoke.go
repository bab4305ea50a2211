package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// revoked is how soon every node refuses a revoked key, in turns. On a quiet machine it is the
// goal, too.
const revoked = 2 * time.Second

// runRevoke revokes keys and measures on every node how long they still work.
func runRevoke(ctx context.Context, s *stage) {
	s.revokes(ctx, "revoke/on-every-node", of(s, 5, 2))
	s.redis.Freeze()
	defer s.redis.Thaw()
	s.revokes(ctx, "revoke/with-redis-frozen", of(s, 3, 1))
}

func (s *stage) revokes(ctx context.Context, check string, times int) {
	began, cpu := time.Now(), testrig.ReadCPUTime()
	var slowest time.Duration
	var wrong []string
	for range times {
		k := s.newKey(ctx, "revoked", limits{budget: 100_000})
		s.useEverywhere(ctx, k, cheap)
		s.revoke(ctx, k)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for node := range s.nodes {
			wg.Go(func() {
				var last exchange
				took, late := s.soon(ctx, node, revoked, fmt.Sprintf("node %d serves a revoked key", node+1), func() bool {
					last = s.spend(ctx, node, k, 1)
					return !last.good()
				})
				mu.Lock()
				defer mu.Unlock()
				slowest = max(slowest, took)
				wrong = append(wrong, late, testrig.Unless(late != "" || last.status == http.StatusUnauthorized, "a revoked key: %v", last))
			})
		}
		wg.Wait()
	}
	s.Figures(check, fmt.Sprintf("%d keys, refused on all nodes after %v at most", times, slowest.Round(time.Millisecond)), began, cpu, []string{goal("a revocation", slowest, revoked)}, wrong...)
}
