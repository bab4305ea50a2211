package db

import (
	"cmp"
	"context"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schema has one table.
var schema = fstest.MapFS{"schema/0001_first.sql": {Data: []byte(`CREATE TABLE notes (id TEXT NOT NULL PRIMARY KEY);`)}}

func opened(t testing.TB, url string, o Options) *DB {
	t.Helper()
	o.Schema = schema
	o.Timeout = cmp.Or(o.Timeout, time.Minute) // longer than the slowest disk of a loaded machine
	d, err := Open(url, o)
	no(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// notes reads the table.
func notes(d *DB) error {
	return d.Read(context.Background(), func(ctx context.Context, c Conn) error {
		var n int
		return c.Row(ctx, `SELECT count(*) FROM notes`)(&n)
	})
}

func no(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition that depends on another process.
func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	testrig.EventuallyNil(t, what, ok)
}
