package store

import (
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestPgBouncer runs the store behind PgBouncer in transaction mode: two nodes that migrate at the same
// time, keys, changes and the ledger.
func TestPgBouncer(t *testing.T) {
	pg := storetest.Postgres(t)
	pooler := storetest.PgBouncer(t, pg)
	var wg sync.WaitGroup
	nodes := make([]*Store, 2)
	for i := range nodes {
		wg.Go(func() { nodes[i] = opened(t, pooler.URL, Options{Migrate: true}) })
	}
	wg.Wait()
	ctx := t.Context()
	for _, s := range nodes {
		ready(t, s)
	}
	no(t, nodes[0].CreateKey(ctx, sampleKey("k1")))
	c, err := nodes[1].Changes(ctx, access.Cursor{}, 10)
	no(t, err)
	no(t, nodes[0].CreateKey(ctx, sampleKey("k2")))
	if c, err = nodes[1].Changes(ctx, c.Next, 10); err != nil || len(c.Records) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	for i := range 4 {
		wg.Go(func() {
			for n := range 20 {
				b := usage.Batch{Log: string(rune('a' + i)), After: int64(n * 5), To: int64(n*5 + 5), Rows: rows(string(rune('a'+i))+string(rune('a'+n)), 5)}
				if _, err := nodes[i%2].Append(ctx, b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	list, err := nodes[0].Rows(ctx, RowQuery{Limit: 1000})
	if err != nil || len(list) != 400 {
		t.Errorf("%d rows, %v", len(list), err)
	}
}

// TestFencedPrimary promotes a standby and makes the old primary read-only, as a cluster manager does that
// cannot stop it. The store follows, although its connections to the old one work.
func TestFencedPrimary(t *testing.T) {
	old := storetest.Postgres(t)
	s := opened(t, old.URL, Options{Migrate: true})
	no(t, s.CreateKey(t.Context(), sampleKey("k1")))
	no(t, s.Close())
	standby, err := storetest.RunStandby(t.TempDir(), old.Addr)
	no(t, err)
	t.Cleanup(standby.Close)
	s = opened(t, "postgres://postgres@"+old.Addr+","+standby.Addr+"/postgres?sslmode=disable&target_session_attrs=read-write", Options{Migrate: true})
	for i := range 20 { // open several connections
		if _, err := s.Append(t.Context(), usage.Batch{Log: "l", After: int64(i), To: int64(i + 1), Rows: rows(string(rune('a'+i)), 1)}); err != nil && i > 5 {
			t.Fatal(err)
		}
	}
	psql := func(server *storetest.Server, statements ...string) {
		t.Helper()
		direct, err := sql.Open("pgx", server.URL)
		no(t, err)
		defer direct.Close()
		for _, statement := range statements {
			_, err := direct.ExecContext(t.Context(), statement)
			no(t, err)
		}
	}
	psql(standby, `SELECT pg_promote()`)
	psql(old, `ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`)
	direct := opened(t, standby.URL, Options{})
	began := time.Now()
	eventually(t, "the new primary accepts writes", func() error { return direct.CreateKey(t.Context(), sampleKey("k2")) })
	eventually(t, "the store finds the new primary", func() error {
		_, err := s.Key(t.Context(), "k2")
		if err != nil {
			_, _ = s.Changes(t.Context(), access.Cursor{}, 10) // as a node polls
		}
		return err
	})
	t.Logf("the store found the new primary after %v", time.Since(began).Round(time.Millisecond))
	if _, err := s.Append(t.Context(), usage.Batch{Log: "m", To: 1, Rows: rows("z", 1)}); err != nil {
		t.Error(err)
	}
}
