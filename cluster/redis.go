package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// largeKeys creates a key for each node with a budget larger than a node's share, so
// that it shows when the node uses Redis again.
func (s *stage) largeKeys(ctx context.Context) []key {
	return s.usedKeys(ctx, nodes, "large", cheap, limits{budget: frozenBudget})
}

// waitForRedis asks each node for nearly all of a budget until the node admits it, which has
// to be soon.
func (s *stage) waitForRedis(ctx context.Context, large []key) (slowest time.Duration, wrong []string) {
	var wg sync.WaitGroup
	took, late := make([]time.Duration, nodes), make([]string, nodes)
	for node, k := range large {
		wg.Go(func() {
			took[node], late[node] = s.soon(ctx, node, sharedAgain, fmt.Sprintf("node %d does not use Redis again", node+1), func() bool { return s.spend(ctx, node, k, frozenBudget-nodes).good() })
		})
	}
	wg.Wait()
	return slices.Max(took), late
}

// tokensOf returns how many tokens the clients of a key received.
func (s *stage) tokensOf(k key) (total int) {
	for _, a := range s.exchanges.List() {
		if a.key == k.ID {
			total += a.tokens
		}
	}
	return total
}

// outages returns how often a node found Redis too slow.
func (s *stage) outages() int { return s.logged("redis is lost") }

// fromShare returns how many reservations the nodes have taken from their shares: in an outage, or because one call was
// too slow.
func (s *stage) fromShare(ctx context.Context) (n int) {
	for _, g := range s.nodes {
		n += int(testrig.Number(g.Metrics(ctx), "isogloss_quota_share_reservations_total "))
	}
	return n
}

// redisShared reports whether every node uses Redis: each outage has ended.
func (s *stage) redisShared() bool { return s.outages() == s.logged("redis is back") }

// logged counts a message in the logs of the nodes.
func (s *stage) logged(message string) (n int) {
	for _, g := range s.nodes {
		n += strings.Count(g.Log(), message)
	}
	return n
}

// slow reports outages that no scenario caused: the machine is too busy for Redis.
func (s *stage) slow() string {
	if n := s.outages(); n > 0 {
		return fmt.Sprintf("; Redis was too slow %d times", n)
	}
	return ""
}

// warnings counts the log lines of the nodes above level info.
func (s *stage) warnings() (n int) {
	for _, g := range s.nodes {
		for line := range strings.Lines(g.Log()) {
			if up := strings.ToUpper(line); strings.Contains(up, "WARN") || strings.Contains(up, "ERROR") && !strings.Contains(up, "INFO") {
				n++
			}
		}
	}
	return n
}
