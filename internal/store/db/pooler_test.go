package db

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
)

// TestPooler opens a database behind PgBouncer in transaction mode, by two nodes that migrate at the
// same time. Statements have timeouts, although sessions have none.
func TestPooler(t *testing.T) {
	pooler := storetest.PgBouncer(t, storetest.Postgres(t))
	var wg sync.WaitGroup
	nodes := make([]*DB, 2)
	for i := range nodes {
		wg.Go(func() { nodes[i] = opened(t, pooler.URL, Options{Migrate: true}) })
	}
	wg.Wait()
	for _, d := range nodes {
		eventually(t, "the database is ready", d.Ready)
		if !d.pooled.Load() {
			t.Error("the pooler was not recognised")
		}
		no(t, notes(d))
	}
	ctx := t.Context()
	began := time.Now()
	err := nodes[0].Read(ctx, func(ctx context.Context, c Conn) error {
		return c.Exec(context.WithoutCancel(ctx), `SELECT pg_sleep(30)`)
	})
	if took := time.Since(began); err == nil || took > 10*time.Second || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a statement without end: %v after %v", err, took)
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
