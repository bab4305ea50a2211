package main

import (
	"context"
	"time"
)

// scenario is one thing that happens to a cluster.
type scenario struct {
	name  string
	says  string // what is done
	holds string // what has to hold
	run   func(context.Context, *stage) error
	full  time.Duration // the most that it may take
	short time.Duration

	beside bool // it mostly waits, so that those after it are run meanwhile
}

// stage is what a scenario works with.
type stage struct {
	short bool
	*report
	*cluster
}

func (s scenario) most(short bool) time.Duration {
	if short {
		return s.short
	}
	return s.full
}

// of chooses between the two forms of a run.
func of[T any](s *stage, full, short T) T {
	if s.short {
		return short
	}
	return full
}

// scenarios are all, in the order in which they are run.
func scenarios() []scenario {
	return []scenario{
		{name: "r1", run: runBudget, full: 2 * time.Minute, short: time.Minute,
			says:  "1,000 concurrent requests against a budget for 100, on three nodes; a fifth of the clients leave",
			holds: "not one over; what still fits is admitted to the last token"},
		{name: "limits", run: runLimits, full: time.Minute, short: time.Minute,
			says:  "a rush on limits of requests, tokens, concurrency, and on budgets of a team and its organisation, on three nodes",
			holds: "each is used up and none is passed, counted on all nodes together"},
		{name: "r3", run: runFrozenRedis, full: 3 * time.Minute, short: time.Minute,
			says:  "Redis frozen for 60 s under load",
			holds: "no error; p99 +60 ms in the first second, +1 ms after it; limits hold to each node's share; back within 2 s"},
		{name: "r4", run: runWipedRedis, full: 2 * time.Minute, short: time.Minute,
			says:  "Redis killed under load, emptied, started",
			holds: "no error; budgets are what the ledger leaves of them"},
		{name: "r5", run: runPostgresDown, full: 8 * time.Minute, short: 90 * time.Second,
			says:  "PostgreSQL frozen, then killed, five minutes in all, under load; a twentieth of the keys is unknown",
			holds: "known keys are served, all of them; unknown keys get 503 with Retry-After and never 401; the ledger is exact afterwards"},
		{name: "r17", run: runStampede, full: 3 * time.Minute, short: 90 * time.Second,
			says:  "5,000 keys that a node has never seen, all at once, on a slow PostgreSQL",
			holds: "at most 16 queries in flight, one for each key, no 401"},
		{name: "r8", run: runKills, full: 6 * time.Minute, short: 90 * time.Second,
			says:  "fifty `kill -9` at random points of 200 streams",
			holds: "one row for each request that delivered a byte, no duplicate, tokens between what the client got and what the upstream sent"},
		{name: "r2", run: runKilled, beside: true, full: 3 * time.Minute, short: 2 * time.Minute,
			says:  "`kill -9` of a gateway with 500 reservations open, then its start",
			holds: "all settled within 60 s; what is left of the budget is what the ledger leaves, to the token"},
		{name: "r6", run: runColdStart, full: 2 * time.Minute, short: time.Minute,
			says:  "a gateway started with every store down",
			holds: "it serves within 2 s from its snapshots; without them it says why it does not start"},
		{name: "r7", run: runDiscovery, full: 4 * time.Minute, short: 90 * time.Second,
			says:  "etcd killed, compacted past the watch, emptied, put back to an older state, under load; workers come and go",
			holds: "no 5xx, no mass removal, in step within 5 s; a new worker serves within 1 s, a dead one is gone with its lease"},
		{name: "r10", run: runOneCharge, full: 3 * time.Minute, short: 90 * time.Second,
			says:  "every fault of an upstream, with retry, with another target and without, and clients that ask again with the same Idempotency-Key",
			holds: "one charge for each request that a client means"},
		{name: "revoke", run: runRevoke, full: time.Minute, short: time.Minute,
			says:  "keys revoked, also with Redis frozen",
			holds: "refused on every node within 2 s"},
		{name: "restart", run: runRestarts, full: 3 * time.Minute, short: time.Minute,
			says:  "every node replaced by SIGHUP under load",
			holds: "no request fails, the ledger is exact"},
		{name: "s5", run: runCanaries, full: 2 * time.Minute, short: time.Minute,
			says:  "secrets of providers, clients and operators, the pepper and a prompt, after traffic and errors",
			holds: "none of them in logs, metrics, answers of the admin API, dumps of the three stores or files of the nodes"},
	}
}
