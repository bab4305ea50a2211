package db

import (
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
	for waiting.Ready() != nil { // it looks again by itself
		_ = notes(waiting)
	}
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
