package db

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// patient is the timeout of the nodes. The server ends a statement after two fifths of it.
const patient = 10 * time.Second

// TestPooler opens a database behind PgBouncer in transaction mode, by two nodes that migrate at the
// same time. Statements have timeouts, although sessions have none.
func TestPooler(t *testing.T) {
	pooler := storetest.PgBouncer(t, storetest.Postgres(t))
	var wg sync.WaitGroup
	nodes := make([]*DB, 2)
	for i := range nodes {
		wg.Go(func() { nodes[i] = opened(t, pooler.URL, Options{Migrate: true, Timeout: patient}) })
	}
	wg.Wait()
	for _, d := range nodes {
		eventually(t, "the database is ready", d.Ready)
		if !d.pooled.Load() {
			t.Error("the pooler was not recognised")
		}
		eventually(t, "the table is read", func() error { return notes(d) })
	}
	ctx := t.Context()
	err := nodes[0].Read(ctx, func(ctx context.Context, c Conn) error {
		return c.Exec(context.WithoutCancel(ctx), `SELECT pg_sleep(600)`)
	})
	var ended *pgconn.PgError
	if !errors.As(err, &ended) || ended.Code != "57014" {
		t.Errorf("a statement without end: %v, want that the server ends it", err)
	}
	// No setting of a transaction stays in a session that another client gets.
	link, err := nodes[0].write.Conn(ctx)
	no(t, err)
	defer link.Close()
	var timeout string
	no(t, link.QueryRowContext(ctx, `SHOW statement_timeout`).Scan(&timeout))
	if timeout != "0" {
		t.Errorf("a session has a statement_timeout of %s", timeout)
	}
}
