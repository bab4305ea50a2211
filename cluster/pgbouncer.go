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

// runPgBouncer runs the nodes behind PgBouncer in transaction mode, from an empty database on.
func runPgBouncer(ctx context.Context, s *stage) {
	began := time.Now()
	for _, g := range s.nodes {
		testrig.Must(g.Stop(ctx))
	}
	testrig.Must(s.query(ctx, emptySchema))
	redisCommand(ctx, s.redis, "FLUSHALL")
	pooler := testrig.Must(storetest.RunPgBouncer(filepath.Join(s.dir, "pgbouncer"), s.postgres))
	s.cleanups = append(s.cleanups, pooler.Close)
	with := s.settings()
	with.store = pooler.URL
	s.nodes = nil
	for i := range nodes { // with new data folders
		s.nodes = append(s.nodes, testrig.Must(s.newNode(fmt.Sprintf("pooled-%d", i+1), with)))
	}
	errs := make([]error, nodes)
	testrig.Each(nodes, nodes, func(i int) { errs[i] = s.nodes[i].Start(ctx) }) // they migrate at the same time
	for _, err := range errs {
		testrig.NoError(err)
	}
	steps := testrig.Must(s.query(ctx, "SELECT count(*) FROM schema_steps"))[0][0]
	s.Check("pgbouncer/migrations", fmt.Sprintf("%d nodes started at once on an empty database ran %s migrations and served after %v", nodes, steps, time.Since(began).Round(10*time.Millisecond)), began,
		testrig.Unless(number(steps) > 0, "no migration ran"))

	began = time.Now()
	s.warm(ctx)
	load := s.newKey(ctx, "load", limits{requests: 10_000_000, budget: 100_000_000})
	s.useEverywhere(ctx, load, dear)
	k := s.newKey(ctx, "pgbouncer", limits{budget: historyBudget})
	end := s.background(ctx, 60, func(int) (key, string) { return load, dear })
	s.spendSome(ctx, k, 1000)
	s.revokes(ctx, "pgbouncer/revoke", 1)
	wrong := s.exhaust(ctx, k, 3*time.Second)
	seen := end()
	// A session that the nodes have used must have no setting of theirs.
	timeout := strings.TrimSpace(string(testrig.Must(output(ctx, "psql", "-X", "-A", "-t", "-c", "SHOW statement_timeout", pooler.URL))))
	servers := testrig.Must(s.query(ctx, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"))[0][0]
	warnings := s.logged("unsupported startup parameter")
	s.Check("pgbouncer/no-errors", fmt.Sprintf("%d requests; %s connections of PgBouncer to PostgreSQL", len(seen), servers), began,
		append(bad(seen, exchange.good), testrig.Unless(warnings == 0, "%d errors of PgBouncer were logged", warnings), testrig.Unless(timeout == "0", "a session has a statement_timeout of %s", timeout))...)
	s.balance(ctx, "pgbouncer", k, 0, wrong)
}
