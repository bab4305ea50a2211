package main

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// failure is a row of docs/operations/failures.md.
type failure struct {
	check     string // its figure is the result
	what      string // the failure
	users     string // what they notice
	operators string // log, metric and alert
	todo      string // for operators
	unheld    bool   // the scenario shows how far the promise is missed
}

// What operators see when a store is lost.
const (
	redisLost = "log `redis is lost; limits are this node's share`; `isogloss_quota_lost` is 1, `isogloss_quota_settlements_waiting` grows; alert IsoglossRedisLost"
	storeLost = "log `store of keys lost; known keys are accepted` and `the store rejects usage rows; they stay in the spool`; `isogloss_keys_age_seconds` and `isogloss_ledger_rows_waiting` grow; alerts IsoglossKeysStale, IsoglossLedgerBehind"
)

// scenario is one thing that happens to a cluster.
type scenario struct {
	name  string // the promise that it checks, or a word
	does  string // for docs/operations/cluster.md
	holds string // likewise
	fails []failure
	run   func(context.Context, *stage)
	most  time.Duration // timeout, far more than it takes

	whole      bool // not part of the short form
	beside     bool // it mostly waits, so that it runs beside the others
	losesRedis bool // it makes the nodes lose Redis
}

// stage is what a scenario works with.
type stage struct {
	short   bool
	streams time.Duration // how long a stream of rollout lasts
	seeds   []uint64      // of the random histories; empty: the usual ones
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

// scenarios returns all scenarios in the order in which they run.
func scenarios() []scenario {
	return []scenario{
		{name: "r1", run: runBudget, most: 20 * time.Minute,
			does:  "1,000 concurrent requests against a budget for 100, on three nodes; a fifth of the clients disconnect",
			holds: "the budget is never exceeded; what still fits is admitted to the last token"},
		{name: "limits", run: runLimits, most: 20 * time.Minute,
			does:  "a rush on limits of requests, tokens and concurrency, and on budgets of a team and its organisation, on three nodes",
			holds: "each limit is used up and none is exceeded, counted on all nodes together"},
		{name: "r3", run: runFrozenRedis, losesRedis: true, most: 20 * time.Minute,
			does:  "Redis frozen for 60 s under load",
			holds: "no error; p99 +60 ms in the first second, +1 ms after it; limits hold to each node's share; shared again within 2 s",
			fails: []failure{
				{check: "r3/back", what: "Redis frozen or slow",
					users:     "up to three requests in a row take 50 ms longer; a limit may be reached at the node's share (429); an `Idempotency-Key` gets 503",
					operators: redisLost,
					todo:      "restart it; the log then has `redis is back; limits are shared again`"},
			}},
		{name: "r4", run: runWipedRedis, losesRedis: true, most: 20 * time.Minute,
			does:  "Redis killed under load, emptied, started",
			holds: "no error; budgets are what the ledger leaves of them",
			fails: []failure{
				{check: "r4/budget-from-the-ledger", what: "Redis killed, and started without its data",
					users:     "a limit may be reached at the node's share (429); an `Idempotency-Key` gets 503",
					operators: redisLost,
					todo:      "start it, with or without its data; the nodes send their settlements and restore the sums from the ledger"},
			}},
		{name: "r5", run: runPostgresOutage, most: 20 * time.Minute,
			does:  "PostgreSQL frozen, then killed, five minutes in all, under load; a twentieth of the keys is unknown",
			holds: "all requests with known keys are served; unknown keys get 503 with Retry-After and never 401; the ledger is exact afterwards",
			fails: []failure{
				{check: "r5/known-keys", what: "PostgreSQL frozen or killed",
					users:     "nothing with known keys; keys new to a node get 503 `keys_unavailable` with `Retry-After`",
					operators: storeLost,
					todo:      "restart it and watch the disk space of the nodes; no key can be created, changed or revoked until then. The log then has `store of keys is back` and `the store accepts usage rows again`, and the ledger is exact when `isogloss_ledger_rows_waiting` is 0"},
			}},
		{name: "r17", run: runKeyStampede, most: 20 * time.Minute,
			does:  "5,000 keys that a node has never seen, all at once, on a slow PostgreSQL",
			holds: "at most 16 queries in flight, one for each key, no 401",
			fails: []failure{
				{check: "r17/after-an-outage", what: "PostgreSQL back after an outage, and thousands of keys new to the nodes used at once",
					users:     "503 with `Retry-After` for a key until it is read",
					operators: "at most 16 queries of a node in PostgreSQL",
					todo:      "nothing"},
			}},
		{name: "r8", run: runKills, most: 20 * time.Minute,
			does:  "fifty `kill -9` at random points of 200 streams",
			holds: "one row for each request that delivered a byte, no duplicate, tokens between what the client received and what the upstream sent",
			fails: []failure{
				{check: "r8/ledger", what: "a gateway killed by SIGKILL with open streams",
					users:     "its streams are cut, and are charged for what was delivered",
					operators: "alert IsoglossDown; `isogloss_ledger_rows_recovered_total` on the process that takes over its folder",
					todo:      "start it with the same `data`: its rows exist nowhere else"},
			}},
		{name: "r2", run: runKilledReservations, beside: true, most: 20 * time.Minute,
			does:  "`kill -9` of a gateway with 500 open reservations, then its start",
			holds: "all settled within 60 s; the rest of the budget is what the ledger leaves, to the token",
			fails: []failure{
				{check: "r2/reservations", what: "a gateway killed by SIGKILL with open reservations",
					users:     "the part of a budget that they hold cannot be spent for 45 s",
					operators: "alert IsoglossDown",
					todo:      "start it with the same `data`"},
			}},
		{name: "r6", run: runColdStart, losesRedis: true, most: 20 * time.Minute,
			does:  "a gateway started with every store down",
			holds: "it serves within 2 s from its snapshots; without them it exits and says why",
			fails: []failure{
				{check: "r6/from-snapshots", what: "a gateway started while all stores are down",
					users:     "known keys and workers are served, budgets to a hundredth",
					operators: storeLost + "; without a snapshot the process exits with the reason",
					todo:      "start the stores; keep the data folder"},
			}},
		{name: "r7", run: runDiscovery, most: 20 * time.Minute,
			does:  "etcd killed, compacted past the watch, emptied, restored to an older state, under load; workers come and go",
			holds: "no 5xx, no mass removal, in sync within 5 s; a new worker serves within 1 s, a dead one is removed with its lease",
			fails: []failure{
				{check: "r7/killed", what: "etcd killed",
					users:     "nothing",
					operators: "log `a source of workers is lost; the workers that are known are kept`, then `a source of workers is back`; `isogloss_workers_stale` is 1; alert IsoglossWorkersStale",
					todo:      "restart it; engines that die meanwhile are ejected when requests to them fail"},
				{check: "r7/emptied", what: "etcd emptied, or restored from an old backup",
					users:     "nothing",
					operators: "log `many workers disappeared at once and are kept until the source confirms it`; `isogloss_workers_known` stays",
					todo:      "nothing if `isogloss register` runs: workers register again within a quarter of their lease. Workers that are still missing after 30 s are removed"},
				{check: "r7/dead-worker", what: "an engine lost with the process that registers it",
					users:     "nothing: failed requests are sent to another worker, until the lease ends",
					operators: "`isogloss_workers_known` falls",
					todo:      "restart the engine"},
			}},
		{name: "rollout", beside: true, run: runRollout, most: 20 * time.Minute,
			does:  "the nodes behind HAProxy replaced one after the other with SIGTERM, under load, with streams of ten seconds (`make rollout`: ten minutes) open on each",
			holds: "no request is refused and no stream cut; each process ends within `shutdown.notice` and `shutdown.drain`",
			fails: []failure{
				{check: "rollout/streams", what: "a gateway behind a load balancer stopped by SIGTERM and started again",
					users:     "nothing, if `shutdown.notice` is longer than the load balancer needs to notice and `shutdown.drain` longer than a stream",
					operators: "log `draining`; `/ready` has status 503",
					todo:      "set both: see [Upgrade](upgrade.md#behind-a-load-balancer)"},
			}},
		{name: "postgres-tls", beside: true, run: runPostgresTLS, most: 20 * time.Minute,
			does:  "PostgreSQL with TLS, `sslmode=verify-full` and its own CA; another host name, another CA; the password of the role changed under load, and its connections closed",
			holds: "another name or CA is refused with advice; new connections use the new password without a restart; no request fails, the ledger is exact",
			fails: []failure{
				{check: "postgres-tls/password", what: "the password of PostgreSQL changed, and its connections closed",
					users:     "nothing with known keys",
					operators: "log `store of keys lost; known keys are accepted` with the reason, if the file has the old password",
					todo:      "write the file of `passfile`: see [Keys](keys.md#postgresql-with-tls-and-a-new-password)"},
				{check: "postgres-tls/wrong-name", what: "PostgreSQL with a certificate for another name or of another CA",
					users:     "as for PostgreSQL killed",
					operators: "log `store is not ready` with the reason",
					todo:      "correct the host or `sslrootcert` in `store.url`"},
			}},
		{name: "r10", run: runOneCharge, most: 20 * time.Minute,
			does:  "every fault of an upstream, with a retry, with a second target and without, and clients that repeat a request with the same Idempotency-Key",
			holds: "one charge for each request that a client means",
			fails: []failure{
				{check: "r10/one-charge", what: "an upstream refuses connections, fails, cuts or hangs",
					users:     "the next target answers; an error only if all targets fail, and nothing is charged before the first token",
					operators: "log `target out of service`; `isogloss_upstream_errors_total`; alert IsoglossTargetOutOfService",
					todo:      "see [Reliability](../reliability.md)"},
			}},
		{name: "revoke", run: runRevoke, losesRedis: true, most: 20 * time.Minute,
			does:  "keys revoked, also with Redis frozen",
			holds: "refused on every node within 2 s",
			fails: []failure{
				{check: "revoke/with-redis-frozen", what: "a key revoked, also with Redis frozen",
					users:     "401 within 2 s on every node",
					operators: "`isogloss_keys_age_seconds` stays below 2",
					todo:      "nothing"},
			}},
		{name: "restart", run: runRestarts, most: 20 * time.Minute,
			does:  "every node replaced by SIGHUP under load",
			holds: "no request fails, the ledger is exact",
			fails: []failure{
				{check: "restart/no-errors", what: "a gateway replaced by SIGHUP",
					users:     "nothing",
					operators: "log `another process has taken over; open requests are finished`",
					todo:      "nothing: see [Restart](../restart.md)"},
			}},
		{name: "queue", whole: true, beside: true, run: runLostQueue, losesRedis: true, most: 20 * time.Minute,
			does:  "every node restarted with SIGTERM while Redis is frozen and has not received their settlements",
			holds: "the budget is exceeded by a hundredth at most; one row for each request",
			fails: []failure{
				{check: "queue", what: "gateways restarted while Redis is frozen and lacks their settlements",
					users:     "a hundredth of a budget until Redis is back",
					operators: redisLost,
					todo:      "restart Redis"},
			}},
		{name: "spool", whole: true, beside: true, run: runSeedBeforeSpool, most: 20 * time.Minute,
			does:  "one node without Redis: PostgreSQL away, `kill -9`, start, PostgreSQL back",
			holds: "the budget is exceeded by a hundredth at most; one row for each request",
			fails: []failure{
				{check: "spool", what: "a gateway without Redis killed while PostgreSQL is down, and started",
					users:     "a hundredth of a budget until PostgreSQL is back",
					operators: storeLost,
					todo:      "restart PostgreSQL"},
			}},
		{name: "failover", run: runFailover, most: 20 * time.Minute,
			does:  "an asynchronous standby of PostgreSQL promoted that lacks rows which were stored",
			holds: "the nodes send the rows again: one row for each request; the budget is not exceeded",
			fails: []failure{
				{check: "failover/rows", what: "PostgreSQL replaced by a standby that lacks rows",
					users:     "nothing",
					operators: "log `the store has lost usage rows; they are sent again`; `isogloss_ledger_rows_waiting` rises once",
					todo:      "nothing; keys that were created or revoked in the lost part have to be changed again"},
			}},
		{name: "histories", run: runRandom, losesRedis: true, most: 30 * time.Minute,
			does:  "random histories: gateways, Redis and PostgreSQL killed and frozen, scripts of Redis flushed, a fifth of the streams left by their clients; `--only histories/SEED` plays one again; a history that fails is played with fewer faults, as long as it fails",
			holds: "the rows of a key are those of its requests, with tokens between what the client received and what the upstream sent; the sums are those of the rows"},
		{name: "snapshot", run: runOldSnapshot, losesRedis: true, most: 20 * time.Minute,
			does:  "Redis killed and restarted with a snapshot that lacks half of what was spent",
			holds: "the budget is not exceeded by a token, and all of it can be spent",
			fails: []failure{
				{check: "snapshot", what: "Redis restarted with an older snapshot",
					users:     "nothing",
					operators: "as for Redis killed",
					todo:      "nothing: the nodes count what was spent again, within 2 s, or 10 s if a node is gone"},
			}},
		{name: "replica", whole: true, run: runOldReplica, losesRedis: true, most: 20 * time.Minute,
			does:  "a replica of Redis promoted that lacks half of what was spent",
			holds: "the budget is not exceeded by a token, and all of it can be spent",
			fails: []failure{
				{check: "replica", what: "Redis replaced by a replica that lacks writes",
					users:     "nothing",
					operators: "as for Redis killed",
					todo:      "nothing: likewise"},
			}},
		{name: "redis-cluster", whole: true, run: runRedisCluster, losesRedis: true, most: 20 * time.Minute,
			does:  "one of the three masters of a Redis Cluster killed under load, then started empty; the nodes know one address",
			holds: "no error; budgets on the other masters stay shared and exact; that on the dead one is exceeded by a hundredth at most; one row for each request",
			fails: []failure{
				{check: "redis-cluster/other-master", what: "a master of a Redis Cluster killed",
					users:     "for accounts on that master: as for Redis killed; for the others: nothing",
					operators: redisLost,
					todo:      "start it, or let the cluster promote a replica"},
			}},
		{name: "sentinel", whole: true, run: runSentinel, losesRedis: true, most: 20 * time.Minute,
			does:  "the master of Redis killed that three Sentinels watch",
			holds: "the nodes use the new master without a restart; the budget is not exceeded by a token, and all of it can be spent",
			fails: []failure{
				{check: "sentinel/new-master", what: "the master of Redis killed, and replaced by Sentinels",
					users:     "as for Redis killed, until the Sentinels have promoted a replica",
					operators: redisLost,
					todo:      "nothing: the nodes ask the Sentinels for the new master"},
			}},
		{name: "handover", whole: true, run: runHandover, most: 20 * time.Minute,
			does:  "one node without Redis replaced by SIGHUP while a stream holds most of a budget",
			holds: "the new process counts the stream: the budget is not exceeded",
			fails: []failure{
				{check: "handover", what: "a gateway without Redis replaced by SIGHUP while a stream holds most of a budget",
					users:     "429 for what does not fit beside the stream",
					operators: "log `another process has taken over; open requests are finished`",
					todo:      "nothing"},
			}},
		{name: "disk", whole: true, run: runDiskFull, most: 20 * time.Minute,
			does:  "the disk of a node filled while 50 streams are open, then `kill -9` and a start",
			holds: "open streams end with a row; keys with a budget get 503, others are served; one row for each request with a budget",
			fails: []failure{
				{check: "disk/full", what: "the disk of a gateway full",
					users:     "503 `ledger_full` for keys with a budget; others are served without a row; `store.disk_full` changes that",
					operators: "log `usage spool cannot be written`; `isogloss_ledger_write_errors_total`; alert IsoglossLedgerWriteErrors",
					todo:      "free disk space; the log then has `usage spool is writable again`"},
			}},
		{name: "restore", run: runRestoredDump, most: 20 * time.Minute,
			does:  "PostgreSQL restored from a dump under running gateways; then a change of an organisation with a million keys (short: 5,000)",
			holds: "keys that the dump does not have, and keys revoked afterwards, are refused on every node within 2 s",
			fails: []failure{
				{check: "restore/lost-key", what: "PostgreSQL restored from a dump under running gateways",
					users:     "401 within 2 s for keys that the dump does not have or has revoked",
					operators: "log `the store of keys was restored or replaced; all keys were read again`",
					todo:      "revoke or create the keys again that were changed after the dump: see [Backup](backup.md)"},
				{check: "restore/large-organisation", what: "limits of an organisation with a million keys changed",
					users:     "nothing",
					operators: "`isogloss_keys_age_seconds` stays below 2",
					todo:      "nothing"},
			}},
		{name: "pgbouncer", whole: true, run: runPgBouncer, losesRedis: true, most: 20 * time.Minute,
			does:  "three nodes started at once on an empty database behind PgBouncer in transaction mode, with its default settings; keys, a revocation, budgets and rows under load",
			holds: "the migrations run once; no request fails; the budget is not exceeded; a revoked key is refused within 2 s; the ledger is exact",
			fails: []failure{
				{check: "pgbouncer/no-errors", what: "PgBouncer in transaction mode between gateways and PostgreSQL, which gives each transaction another session",
					users:     "nothing",
					operators: "nothing",
					todo:      "nothing: the gateway recognises it"},
			}},
		{name: "writers", whole: true, run: runWriters, most: 20 * time.Minute,
			does:  "30,000 rows of an outage sent by three nodes at once, with up to 16 connections each, while 300 keys are created on all of them",
			holds: "one row for each request; no deadlock; at most 48 connections",
			fails: []failure{
				{check: "writers", what: "all gateways send the rows of an outage of PostgreSQL at once",
					users:     "nothing",
					operators: "`isogloss_ledger_rows_waiting` falls to 0",
					todo:      "nothing; PostgreSQL needs 16 connections for each gateway"},
			}},
		{name: "upgrade", whole: true, run: runUpgrade, most: 40 * time.Minute,
			does:  "three nodes of the older version c2382748 upgraded one after the other by SIGHUP under load; one node taken back",
			holds: "no request fails; budgets are not exceeded by a token; one row for each request",
			fails: []failure{
				{check: "upgrade/side-by-side", what: "two versions side by side during an upgrade or after a rollback",
					users:     "nothing",
					operators: "log `another process has taken over; open requests are finished`",
					todo:      "nothing: see [Upgrade](upgrade.md)"},
			}},
		{name: "s5", run: runSecrets, most: 20 * time.Minute,
			does:  "secrets of providers, clients and operators, the pepper and a prompt, after traffic and errors",
			holds: "none of them in logs, metrics, responses of the admin API, dumps of the three stores or files of the nodes"},
	}
}
