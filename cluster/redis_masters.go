package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// newMaster is how long the Sentinels and the nodes take for a failover on a quiet machine.
const newMaster = 15 * time.Second

// keyOn creates keys of different organisations until the account of one is on a master, and spends a part
// of its budget.
func (s *stage) keyOn(ctx context.Context, master *storetest.Server) key {
	for i := range 100 {
		name := fmt.Sprintf("org-%s-%d", master.Addr[strings.IndexByte(master.Addr, ':')+1:], i)
		k := s.newKey(ctx, name, limits{org: name, budget: historyBudget})
		s.spendSome(ctx, k, 600)
		if strings.Contains(redisCommand(ctx, master, "KEYS", "quota2:*"), "a:key:"+k.ID) {
			return k
		}
	}
	testrig.NoError(fmt.Errorf("no organisation is on %s", master.Addr))
	return key{}
}

// runRedisCluster kills one of three masters under load.
func runRedisCluster(ctx context.Context, s *stage) {
	masters := testrig.Must(storetest.RunRedisCluster(filepath.Join(s.dir, "masters"), 3, 0))
	for _, m := range masters {
		s.cleanups = append(s.cleanups, m.Close)
	}
	with := s.settings()
	with.redis = masters[0].URL
	s.restartWith(ctx, with)
	s.warm(ctx)
	keys := make([]key, len(masters))
	for i, m := range masters {
		keys[i] = s.keyOn(ctx, m)
	}
	free := s.usedKey(ctx, "load", cheap, limits{requests: 10_000_000, budget: 10_000_000})
	testrig.Pause(ctx, time.Second)
	began := time.Now()
	end := s.background(ctx, loadRate/4, func(int) (key, string) { return free, cheap })
	dead := masters[1]
	dead.Kill()
	wrong := s.exhaust(ctx, keys[1], 14*time.Second) // each node spends its share
	for _, k := range []key{keys[0], keys[2]} {      // the ledger is compared at the end
		others := s.exhaust(ctx, k, 4*time.Second)
		used := s.tokensOf(k)
		s.Check("redis-cluster/other-master", fmt.Sprintf("%d of %d tokens spent while a master was down", used, historyBudget), began,
			append(others, testrig.Unless(used == historyBudget, "%d of %d tokens were spent", used, historyBudget))...)
	}
	testrig.NoError(dead.Start())
	testrig.Pause(ctx, 3*time.Second)
	wrong = append(wrong, s.exhaust(ctx, keys[1], 8*time.Second)...)
	seen := end()
	s.balance(ctx, "redis-cluster/dead-master", keys[1], historyBudget/100, wrong)
	s.Check("redis-cluster/no-errors", fmt.Sprintf("%d requests", len(seen)), began, bad(seen, exchange.good)...)
}

// runSentinel kills the master that three Sentinels watch.
func runSentinel(ctx context.Context, s *stage) {
	replica := testrig.Must(storetest.RunRedis(filepath.Join(s.dir, "replica")))
	s.cleanups = append(s.cleanups, replica.Close)
	sentinels := testrig.Must(storetest.RunSentinels(filepath.Join(s.dir, "sentinels"), s.redis, replica, 3))
	for _, one := range sentinels {
		s.cleanups = append(s.cleanups, one.Close)
	}
	with := s.settings()
	with.redis = sentinels[0].URL
	s.restartWith(ctx, with)
	s.warm(ctx)
	large := s.largeKeys(ctx)
	k := s.newKey(ctx, "sentinel", limits{budget: historyBudget})
	s.spendSome(ctx, k, 2000)
	testrig.Pause(ctx, time.Second)
	began, cpu := time.Now(), testrig.ReadCPUTime()
	s.redis.Kill()
	var wrong []string
	for node, one := range large {
		_, late := waitFor(ctx, waitLimit, fmt.Sprintf("node %d does not use the new master", node+1), func() bool { return s.spend(ctx, node, one, frozenBudget-nodes).good() })
		wrong = append(wrong, late)
	}
	took := time.Since(began)
	s.Figures("sentinel/new-master", fmt.Sprintf("all nodes used the new master %v after the old one was killed", took.Round(time.Millisecond)), began, cpu, []string{goal("it", took, newMaster)}, wrong...)
	s.balance(ctx, "sentinel", k, 0, s.exhaust(ctx, k, 6*time.Second))
}
