package db

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestExamineLeavesNothing examines a file that is not there, one that is in use, and one that nobody has open. It
// creates no file: root, who examines, would leave one that the gateway cannot write.
func TestExamineLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	look := func() (names []string) {
		list, err := os.ReadDir(dir)
		no(t, err)
		for _, f := range list {
			names = append(names, f.Name())
		}
		return names
	}
	examine := func(want Facts) {
		t.Helper()
		before := look()
		f, err := Examine(t.Context(), "sqlite:"+path, schema)
		no(t, err)
		if f.Latency = 0; f != want {
			t.Errorf("%+v, want %+v", f, want)
		}
		if after := look(); !slices.Equal(before, after) {
			t.Errorf("the folder had %q, and now %q", before, after)
		}
	}
	examine(Facts{Missing: true, First: 1, Need: 1})
	d, err := Open("sqlite:"+path, Options{Schema: schema, Migrate: true})
	no(t, err)
	no(t, notes(d))
	examine(Facts{Have: 1, First: 1, Need: 1})
	no(t, d.Close())
	examine(Facts{Have: 1, First: 1, Need: 1})
	if got := look(); !slices.Equal(got, []string{"x.db"}) {
		t.Errorf("the closed database has the files %q", got)
	}
}
