package db

import (
	"context"
	"errors"
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
	schema := fstest.MapFS{"schema/0001_first.sql": {Data: []byte("CREATE TABLE a (b TEXT)")}}
	d, err := Open("sqlite:"+filepath.Join(t.TempDir(), "x.db"), Options{Migrate: true, Schema: schema, Convert: map[string]func(context.Context, Conn) error{
		"first": func(context.Context, Conn) error { close(began); <-done; return nil },
	}})
	no(t, err)
	t.Cleanup(func() { _ = d.Close() })
	<-began
	if err := d.Ready(); !errors.Is(err, ErrMigrating) {
		t.Errorf("while it is migrated: %v", err)
	}
	close(done)
	eventually(t, "the tables are there", d.Ready)
}

func TestSplit(t *testing.T) {
	got := splitStatements("-- one; two\nCREATE a (\n  b, -- c;\n  d\n);\n\nDROP e;\nLAST f")
	want := []string{"CREATE a (\n  b,\n  d\n)", "DROP e", "LAST f"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	for _, files := range []fstest.MapFS{{"schema/0002_x.sql": {}}, {"schema/one.sql": {}}} {
		if _, err := readMigrations(files); err == nil {
			t.Error("files with a gap")
		}
	}
}
