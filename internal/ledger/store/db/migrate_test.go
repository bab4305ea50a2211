package db

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"testing"
	"testing/fstest"
)

// TestWaitForTables checks that a node without Migrate waits for one with it.
func TestWaitForTables(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	waiting := opened(t, url, Options{})
	if notes(waiting) == nil {
		t.Error("no error without tables")
	}
	no(t, notes(opened(t, url, Options{Migrate: true})))
	eventually(t, "it looks again by itself", waiting.Ready)
}

// TestMigrating checks that a database says so while it is migrated.
func TestMigrating(t *testing.T) {
	began, done := make(chan struct{}), make(chan struct{})
	log := slog.New(&waitingHandler{Handler: slog.DiscardHandler, message: "store migrates", began: began, done: done})
	d, err := Open("sqlite:"+filepath.Join(t.TempDir(), "x.db"), Options{Migrate: true, Schema: schema, Logger: log})
	no(t, err)
	t.Cleanup(func() { _ = d.Close() })
	<-began
	if err := d.Ready(); !errors.Is(err, ErrMigrating) {
		t.Errorf("while it is migrated: %v", err)
	}
	close(done)
	eventually(t, "the tables are there", d.Ready)
}

// waitingHandler waits while it writes a message.
type waitingHandler struct {
	slog.Handler
	message     string
	began, done chan struct{}
}

func (h *waitingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *waitingHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		close(h.began)
		<-h.done
	}
	return nil
}

func TestSplit(t *testing.T) {
	got := splitStatements("-- one; two\nDEFINE x\n  c, -- ;\n  d;\nCREATE a (\n  b, -- c;\n:x\n);\n\nDO $body$\nBEGIN;\nEND $body$;\nDROP e;\nLAST f")
	want := []string{"CREATE a (\n  b,\n  c,\n  d\n)", "DO $body$\nBEGIN;\nEND $body$", "DROP e", "LAST f"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	got = adapt([]string{"/* SQLite */ A\nB", "C (\n  /* SQLite */ d\n  /* PostgreSQL */ e\n)", "/* PostgreSQL */ F"}, onlySQLite)
	if want = []string{"C (\n  /* PostgreSQL */ e\n)", "/* PostgreSQL */ F"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	for _, files := range []fstest.MapFS{{"schema/0002_x.sql": {}, "schema/0004_y.sql": {}}, {"schema/one.sql": {}}, {}} {
		if _, err := readMigrations(files); err == nil {
			t.Error("files with a gap")
		}
	}
}
