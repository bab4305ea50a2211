package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const revoked = 2 * time.Second

// runRevoke revokes keys and asks on every node how long they still work.
func runRevoke(ctx context.Context, s *stage) error {
	if err := s.revokes(ctx, "revoke/on-every-node", of(s, 5, 2)); err != nil {
		return err
	}
	s.redis.Freeze()
	defer s.redis.Thaw()
	return s.revokes(ctx, "revoke/with-redis-frozen", of(s, 3, 1))
}

func (s *stage) revokes(ctx context.Context, check string, times int) error {
	began := time.Now()
	var slowest time.Duration
	var wrong []string
	for range times {
		k, err := s.newKey(ctx, "revoked", limits{budget: 100_000})
		if err != nil {
			return err
		}
		if err := s.useEverywhere(ctx, k, cheap); err != nil {
			return err
		}
		if err := s.revoke(ctx, k); err != nil {
			return err
		}
		told := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		for node := range s.nodes {
			wg.Go(func() {
				var last asked
				took, late := waited(ctx, revoked, fmt.Sprintf("node %d serves a revoked key", node+1), func() bool {
					last = s.spend(ctx, node, k, 1)
					return !last.good()
				})
				mu.Lock()
				defer mu.Unlock()
				slowest = max(slowest, took)
				wrong = append(wrong, late, unless(late != "" || last.status == http.StatusUnauthorized, "a revoked key: %v", last))
			})
		}
		wg.Wait()
		wrong = append(wrong, unless(time.Since(told) <= revoked, "it took %v", time.Since(told)))
	}
	s.check(check, fmt.Sprintf("%d keys, refused on all nodes after %v at most", times, slowest.Round(time.Millisecond)), began, wrong...)
	return nil
}
