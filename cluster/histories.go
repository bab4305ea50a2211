package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The histories of a budget: stores that go back in time, and processes that end before
// their settlements are stored. Each begins with a budget of which a part is spent.
const (
	historyBudget = 3000 // tokens
	historyStep   = 50
)

// restartWith restarts the nodes with other stores.
func (s *stage) restartWith(ctx context.Context, with settings) {
	for _, g := range s.nodes {
		testrig.Must(g.Stop(ctx))
		testrig.NoError(g.Configure(with.yaml(g, s.up)))
		testrig.NoError(g.Start(ctx))
	}
}

// single keeps one node and restarts it with other stores.
func (s *stage) single(ctx context.Context, with settings) {
	for _, g := range s.nodes[1:] {
		testrig.Must(g.Stop(ctx))
	}
	s.nodes = s.nodes[:1]
	s.restartWith(ctx, with)
}

// shareTime is how long a node that found Redis slow may go by its share of a budget, on a busy machine.
const shareTime = 10 * time.Second

// spendSome spends tokens on all nodes in turn. All of it has to be admitted. A request that is refused is sent again,
// because a node that found Redis slow knows only its share of the budget for a while.
func (s *stage) spendSome(ctx context.Context, k key, tokens int) {
	for i := 0; tokens > 0; i++ {
		n := min(tokens, historyStep)
		e := s.spend(ctx, i%len(s.nodes), k, n)
		for began := time.Now(); e.refused() && time.Since(began) < shareTime; e = s.spend(ctx, i%len(s.nodes), k, n) {
			testrig.Pause(ctx, 200*time.Millisecond)
		}
		if !e.good() {
			testrig.NoError(fmt.Errorf("a request within its budget: %v", e))
		}
		tokens -= n
	}
}

// exhaust asks for more than is left, on all nodes, for a time.
func (s *stage) exhaust(ctx context.Context, k key, lasts time.Duration) (wrong []string) {
	for i, end := 0, time.Now().Add(lasts); time.Now().Before(end) && ctx.Err() == nil; i++ {
		if e := s.spend(ctx, i%len(s.nodes), k, historyStep); !e.good() && !e.refused() {
			wrong = append(wrong, e.String())
		}
	}
	return wrong
}

// balance checks that no more than the budget and a bound was spent, that the rest can be
// spent, and that the ledger has a row for each request.
func (s *stage) balance(ctx context.Context, name string, k key, bound int, wrong []string) {
	began := time.Now()
	used := s.tokensOf(k)
	wrong = append(wrong, testrig.Unless(used <= historyBudget+bound, "%d of %d tokens were spent, and the bound is %d", used, historyBudget, bound))
	if left := historyBudget - used; left > 0 && len(s.nodes) == nodes {
		_, more := s.exactly(ctx, k, left, settleTime)
		wrong = append(wrong, more...)
	}
	s.Check(name, fmt.Sprintf("%d of %d tokens spent; %d more were allowed", used, historyBudget, bound), began, wrong...)
	s.ledgerAgrees(ctx, name+"/ledger", settleTime)
}

// through returns a proxy to a store and the store's URL with the address of the proxy.
func (s *stage) through(of *storetest.Server) (proxy *testrig.Proxy, url string) {
	proxy = testrig.Must(testrig.NewProxy(of.Addr, nil))
	s.cleanups = append(s.cleanups, proxy.Close)
	return proxy, strings.Replace(of.URL, of.Addr, proxy.Addr, 1)
}

// redisCommand runs a command on a Redis.
func redisCommand(ctx context.Context, of *storetest.Server, args ...string) string {
	return string(testrig.Must(output(ctx, append([]string{"redis-cli", "-u", of.URL}, args...)...)))
}

// runOldSnapshot restarts Redis with an older snapshot.
func runOldSnapshot(ctx context.Context, s *stage) {
	s.warm(ctx)
	k := s.newKey(ctx, "snapshot", limits{budget: historyBudget})
	s.spendSome(ctx, k, 600)
	testrig.Pause(ctx, time.Second)
	redisCommand(ctx, s.redis, "SAVE")
	s.spendSome(ctx, k, 1400)
	testrig.Pause(ctx, time.Second)
	s.redis.Kill()
	testrig.NoError(s.redis.Start())
	wrong := s.exhaust(ctx, k, 15*time.Second)
	s.balance(ctx, "snapshot", k, 0, wrong)
}

// runOldReplica promotes a replica that lacks the newest writes.
func runOldReplica(ctx context.Context, s *stage) {
	with := s.settings()
	var proxy *testrig.Proxy
	proxy, with.redis = s.through(s.redis)
	s.restartWith(ctx, with)
	s.warm(ctx)
	replica := testrig.Must(storetest.RunRedis(filepath.Join(s.dir, "replica")))
	s.cleanups = append(s.cleanups, replica.Close)
	k := s.newKey(ctx, "replica", limits{budget: historyBudget})
	s.spendSome(ctx, k, 600)
	host, port, _ := strings.Cut(s.redis.Addr, ":")
	redisCommand(ctx, replica, "REPLICAOF", host, port)
	testrig.NoError(testrig.Until(ctx, waitLimit, "the replica does not follow", func() bool {
		return strings.Contains(redisCommand(ctx, replica, "INFO", "replication"), "master_link_status:up")
	}))
	redisCommand(ctx, replica, "REPLICAOF", "NO", "ONE") // from here on it lacks every write
	s.spendSome(ctx, k, 1400)
	testrig.Pause(ctx, time.Second)
	proxy.Lead(replica.Addr)
	s.redis.Kill()
	wrong := s.exhaust(ctx, k, 15*time.Second)
	s.balance(ctx, "replica", k, 0, wrong)
}

// runLostQueue stops a node while Redis is frozen, so that its settlements are not sent.
func runLostQueue(ctx context.Context, s *stage) {
	s.warm(ctx)
	k := s.newKey(ctx, "queue", limits{budget: historyBudget})
	s.spendSome(ctx, k, 600)
	testrig.Pause(ctx, time.Second)
	s.redis.Freeze()
	wrong := s.exhaust(ctx, k, 14*time.Second) // each node spends its share
	for _, g := range s.nodes {
		testrig.Must(g.Stop(ctx))
		testrig.NoError(g.Start(ctx))
	}
	s.redis.Thaw()
	testrig.Pause(ctx, 3*time.Second)
	wrong = append(wrong, s.exhaust(ctx, k, 6*time.Second)...)
	s.balance(ctx, "queue", k, historyBudget/100, wrong)
}

// runSeedBeforeSpool kills a node without Redis while PostgreSQL is away. After its start
// the spool has rows that the ledger lacks.
func runSeedBeforeSpool(ctx context.Context, s *stage) {
	with := s.settings()
	with.redis = ""
	var proxy *testrig.Proxy
	proxy, with.store = s.through(s.postgres)
	s.single(ctx, with)
	k := s.newKey(ctx, "spool", limits{budget: historyBudget})
	s.spendSome(ctx, k, 1000)
	testrig.Pause(ctx, 12*time.Second) // until the key is in the snapshot
	proxy.Block()
	s.spendSome(ctx, k, 1500)
	s.nodes[0].Kill()
	testrig.NoError(s.nodes[0].Start(ctx))
	wrong := s.exhaust(ctx, k, 2*time.Second)
	proxy.Unblock()
	wrong = append(wrong, s.exhaust(ctx, k, 8*time.Second)...)
	s.balance(ctx, "spool", k, historyBudget/100, wrong)
}

// runHandover replaces the process of a node without Redis while a stream is open that has
// reserved most of the budget.
func runHandover(ctx context.Context, s *stage) {
	with := s.settings()
	with.redis = ""
	s.single(ctx, with)
	k := s.newKey(ctx, "handover", limits{budget: historyBudget})
	s.spendSome(ctx, k, historyStep)
	done := make(chan exchange, 1)
	go func() {
		w := request{key: k, model: cheap, stream: true, maxTokens: 2800}
		w.Tag, w.Say, w.Every = tag("stream"), 2500, 4*time.Millisecond
		done <- s.send(ctx, w)
	}()
	testrig.NoError(testrig.Until(ctx, waitLimit, "the stream is not open", func() bool { return s.up.Open.Load() == 1 }))
	pid := s.nodes[0].PID()
	testrig.NoError(s.nodes[0].Signal(syscall.SIGHUP))
	testrig.NoError(testrig.Until(ctx, waitLimit, "no other process takes over", func() bool { return s.nodes[0].PID() != pid }))
	var wrong []string
	admitted := 0
	for s.up.Open.Load() > 0 && ctx.Err() == nil {
		if e := s.spend(ctx, 0, k, historyStep); e.good() && s.up.Open.Load() > 0 {
			admitted += historyStep
		} else if !e.good() && !e.refused() {
			wrong = append(wrong, e.String())
		}
	}
	e := <-done
	wrong = append(wrong, testrig.Unless(e.good(), "the stream: %v", e), testrig.Unless(admitted <= 150, "%d tokens were admitted beside a reservation that leaves 150", admitted))
	wrong = append(wrong, s.exhaust(ctx, k, 3*time.Second)...)
	s.balance(ctx, "handover", k, 0, wrong)
}

// runFailover promotes a standby of PostgreSQL that lacks rows which the gateways had
// been told were stored.
func runFailover(ctx context.Context, s *stage) {
	stream, _ := s.through(s.postgres) // for the standby
	with := s.settings()
	var proxy *testrig.Proxy
	proxy, with.store = s.through(s.postgres)
	s.restartWith(ctx, with)
	s.warm(ctx)
	k := s.newKey(ctx, "failover", limits{budget: historyBudget})
	s.spendSome(ctx, k, 1000)
	standby := testrig.Must(storetest.RunStandby(filepath.Join(s.dir, "standby"), stream.Addr))
	s.cleanups = append(s.cleanups, standby.Close)
	testrig.Pause(ctx, 2*time.Second)
	stream.Block()
	s.spendSome(ctx, k, 1000)
	before := len(s.settled(ctx, settleTime))
	s.postgres.Kill()
	s.postgres = standby
	testrig.Must(s.query(ctx, "SELECT pg_promote()"))
	kept := len(testrig.Must(s.ledger(ctx)))
	proxy.Lead(standby.Addr)
	wrong := s.exhaust(ctx, k, 10*time.Second)
	wrong = append(wrong, testrig.Unless(kept < before, "the standby has all %d rows, so nothing was lost", before))
	s.balance(ctx, "failover", k, 0, wrong)
	s.Check("failover/rows", fmt.Sprintf("the primary had %d rows and the standby %d; the nodes sent the others again", before, kept), time.Now())
}
