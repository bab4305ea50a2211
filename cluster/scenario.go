package main

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

// scenario is one thing that happens to a cluster.
type scenario struct {
	name  string // the promise that it checks, or a word
	does  string // for docs/operations/cluster.md
	holds string // likewise
	run   func(context.Context, *stage)
	full  time.Duration // timeout
	short time.Duration // timeout of the short form

	whole  bool // not part of the short form
	beside bool // it mostly waits, so that it runs beside those after it
}

// stage is what a scenario works with.
type stage struct {
	short   bool
	streams time.Duration // how long a stream of rollout lasts
	*testrig.Report
	*cluster
}

// of chooses between the two forms of a run.
func of[T any](s *stage, full, short T) T {
	if s.short {
		return short
	}
	return full
}

// waitLimit is far more than a start, a stop or a snapshot takes.
const waitLimit = 3 * time.Minute

func scenarioTable() string {
	rows := [][]string{{"scenario", "what happens", "what holds"}}
	for _, s := range scenarios() {
		rows = append(rows, []string{"`" + s.name + "`", s.does, s.holds})
	}
	return testrig.MarkdownTable(rows)
}

// scenarios returns all scenarios in the order in which they run.
func scenarios() []scenario {
	return []scenario{
		{name: "r1", run: runBudget, full: 2 * time.Minute, short: time.Minute,
			does:  "1,000 concurrent requests against a budget for 100, on three nodes; a fifth of the clients disconnect",
			holds: "the budget is never exceeded; what still fits is admitted to the last token"},
		{name: "limits", run: runLimits, full: time.Minute, short: time.Minute,
			does:  "a rush on limits of requests, tokens and concurrency, and on budgets of a team and its organisation, on three nodes",
			holds: "each limit is used up and none is exceeded, counted on all nodes together"},
		{name: "r3", run: runFrozenRedis, full: 3 * time.Minute, short: time.Minute,
			does:  "Redis frozen for 60 s under load",
			holds: "no error; p99 +60 ms in the first second, +1 ms after it; limits hold to each node's share; shared again within 2 s"},
		{name: "r4", run: runWipedRedis, full: 2 * time.Minute, short: time.Minute,
			does:  "Redis killed under load, emptied, started",
			holds: "no error; budgets are what the ledger leaves of them"},
		{name: "r5", run: runPostgresOutage, full: 8 * time.Minute, short: 90 * time.Second,
			does:  "PostgreSQL frozen, then killed, five minutes in all, under load; a twentieth of the keys is unknown",
			holds: "all requests with known keys are served; unknown keys get 503 with Retry-After and never 401; the ledger is exact afterwards"},
		{name: "r17", run: runKeyStampede, full: 3 * time.Minute, short: 90 * time.Second,
			does:  "5,000 keys that a node has never seen, all at once, on a slow PostgreSQL",
			holds: "at most 16 queries in flight, one for each key, no 401"},
		{name: "r8", run: runKills, full: 6 * time.Minute, short: 90 * time.Second,
			does:  "fifty `kill -9` at random points of 200 streams",
			holds: "one row for each request that delivered a byte, no duplicate, tokens between what the client received and what the upstream sent"},
		{name: "r2", run: runKilledReservations, beside: true, full: 3 * time.Minute, short: 2 * time.Minute,
			does:  "`kill -9` of a gateway with 500 open reservations, then its start",
			holds: "all settled within 60 s; the rest of the budget is what the ledger leaves, to the token"},
		{name: "r6", run: runColdStart, full: 2 * time.Minute, short: time.Minute,
			does:  "a gateway started with every store down",
			holds: "it serves within 2 s from its snapshots; without them it exits and says why"},
		{name: "r7", run: runDiscovery, full: 4 * time.Minute, short: 90 * time.Second,
			does:  "etcd killed, compacted past the watch, emptied, restored to an older state, under load; workers come and go",
			holds: "no 5xx, no mass removal, in sync within 5 s; a new worker serves within 1 s, a dead one is removed with its lease"},
		{name: "rollout", beside: true, run: runRollout, full: 2 * time.Minute, short: 2 * time.Minute,
			does:  "the nodes behind HAProxy replaced one after the other with SIGTERM, under load, with streams of ten seconds (`make rollout`: ten minutes) open on each",
			holds: "no request is refused and no stream cut; each process ends within `shutdown.notice` and `shutdown.drain`"},
		{name: "r10", run: runOneCharge, full: 3 * time.Minute, short: 90 * time.Second,
			does:  "every fault of an upstream, with a retry, with a second target and without, and clients that repeat a request with the same Idempotency-Key",
			holds: "one charge for each request that a client means"},
		{name: "revoke", run: runRevoke, full: time.Minute, short: time.Minute,
			does:  "keys revoked, also with Redis frozen",
			holds: "refused on every node within 2 s"},
		{name: "restart", run: runRestarts, full: 3 * time.Minute, short: time.Minute,
			does:  "every node replaced by SIGHUP under load",
			holds: "no request fails, the ledger is exact"},
		{name: "queue", whole: true, beside: true, run: runLostQueue, full: 2 * time.Minute, short: 90 * time.Second,
			does:  "every node restarted with SIGTERM while Redis is frozen and has not received their settlements",
			holds: "the budget is exceeded by a hundredth at most; one row for each request"},
		{name: "spool", whole: true, beside: true, run: runSeedBeforeSpool, full: 2 * time.Minute, short: 90 * time.Second,
			does:  "one node without Redis: PostgreSQL away, `kill -9`, start, PostgreSQL back",
			holds: "the budget is exceeded by a hundredth at most; one row for each request"},
		{name: "failover", run: runFailover, full: 3 * time.Minute, short: 2 * time.Minute,
			does:  "an asynchronous standby of PostgreSQL promoted that lacks rows which were stored",
			holds: "the nodes send the rows again: one row for each request; the budget is not exceeded"},
		{name: "snapshot", run: runOldSnapshot, full: 2 * time.Minute, short: time.Minute,
			does:  "Redis killed and restarted with a snapshot that lacks half of what was spent",
			holds: "the budget is not exceeded by a token, and all of it can be spent"},
		{name: "replica", whole: true, run: runOldReplica, full: 2 * time.Minute, short: time.Minute,
			does:  "a replica of Redis promoted that lacks half of what was spent",
			holds: "the budget is not exceeded by a token, and all of it can be spent"},
		{name: "handover", whole: true, run: runHandover, full: time.Minute, short: time.Minute,
			does:  "one node without Redis replaced by SIGHUP while a stream holds most of a budget",
			holds: "the new process counts the stream: the budget is not exceeded"},
		{name: "disk", whole: true, run: runDiskFull, full: 2 * time.Minute, short: time.Minute,
			does:  "the disk of a node filled while 50 streams are open, then `kill -9` and a start",
			holds: "open streams end with a row; keys with a budget get 503, others are served; one row for each request with a budget"},
		{name: "restore", run: runRestoredDump, full: 4 * time.Minute, short: 90 * time.Second,
			does:  "PostgreSQL restored from a dump under running gateways; then a change of an organisation with a million keys (short: 5,000)",
			holds: "keys that the dump does not have, and keys revoked afterwards, are refused on every node within 2 s"},
		{name: "postgres-tls", beside: true, run: runPostgresTLS, full: 2 * time.Minute, short: 2 * time.Minute,
			does:  "PostgreSQL with TLS, `sslmode=verify-full` and its own CA; another host name, another CA; the password of the role changed under load, and its connections closed",
			holds: "another name or CA is refused with advice; new connections use the new password without a restart; no request fails, the ledger is exact"},
		{name: "s5", run: runSecrets, full: 2 * time.Minute, short: time.Minute,
			does:  "secrets of providers, clients and operators, the pepper and a prompt, after traffic and errors",
			holds: "none of them in logs, metrics, responses of the admin API, dumps of the three stores or files of the nodes"},
	}
}
