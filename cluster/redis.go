package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// largeKeys are a key for each node. Their budgets are larger than what a node gives
// on its own, so that they tell when it has Redis back.
func (s *stage) largeKeys(ctx context.Context) ([]key, error) {
	keys := make([]key, nodes)
	for i := range keys {
		var err error
		if keys[i], err = s.newKey(ctx, fmt.Sprintf("large-%d", i), limits{budget: frozenBudget}); err != nil {
			return nil, err
		}
		if err := s.useEverywhere(ctx, keys[i], cheap); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// comeBack asks each node for nearly all of a budget until it gives it.
func (s *stage) comeBack(ctx context.Context, large []key) (slowest time.Duration, wrong []string) {
	var wg sync.WaitGroup
	took, late := make([]time.Duration, nodes), make([]string, nodes)
	for node, k := range large {
		wg.Go(func() {
			took[node], late[node] = waited(ctx, comesBack, fmt.Sprintf("node %d has not got Redis back", node+1), func() bool { return s.spend(ctx, node, k, frozenBudget-nodes).good() })
		})
	}
	wg.Wait()
	return slices.Max(took), late
}

// tokensOf are those that a key's clients have got.
func (s *stage) tokensOf(k key) (total int) {
	for _, a := range s.clients.history.list() {
		if a.key == k.ID {
			total += a.tokens
		}
	}
	return total
}

// outages is how often a node has found Redis too slow.
func (s *stage) outages() (n int) {
	for _, g := range s.nodes {
		n += strings.Count(g.log(), "redis is lost")
	}
	return n
}

// slow says that this has happened where nothing was done to Redis: the machine is too
// busy for its timeouts.
func (s *stage) slow() string {
	if n := s.outages(); n > 0 {
		return fmt.Sprintf("; Redis was too slow %d times", n)
	}
	return ""
}

// warnings are the lines that the nodes have logged above the usual.
func (s *stage) warnings() (n int) {
	for _, g := range s.nodes {
		for line := range strings.Lines(g.log()) {
			if up := strings.ToUpper(line); strings.Contains(up, "WARN") || strings.Contains(up, "ERROR") && !strings.Contains(up, "INFO") {
				n++
			}
		}
	}
	return n
}
