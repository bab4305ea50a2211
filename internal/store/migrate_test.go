package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

// nextSchema is ours and one more step, of the kinds that the rule allows.
func nextSchema(t *testing.T) fs.FS {
	t.Helper()
	first, err := ownSchema.ReadFile("schema/0001_first.sql")
	no(t, err)
	return fstest.MapFS{
		"schema/0001_first.sql": {Data: first},
		"schema/0002_more.sql": {Data: []byte(`-- a column, a table
ALTER TABLE requests ADD COLUMN region TEXT NOT NULL DEFAULT 'here';
ALTER TABLE keys ADD COLUMN note TEXT;
CREATE TABLE regions (id TEXT NOT NULL PRIMARY KEY);`)},
		"schema/0003_index.sql": {Data: []byte(`DROP INDEX CONCURRENTLY IF EXISTS requests_region;
CREATE INDEX CONCURRENTLY requests_region ON requests (region, began);`)},
	}
}

// An old node writes and reads while two new ones bring the tables up to date at the
// same time. No call fails, and nothing is lost.
func TestMigrateUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		old := opened(t, url, Options{Migrate: true})
		no(t, old.CreateKey(bg(), sampleKey("k1")))
		stop := make(chan struct{})
		var load, sent sync.WaitGroup
		var batches [3]int
		for w := range batches {
			sent.Add(1)
			load.Go(func() {
				for n := 0; ; n++ {
					if err := old.Append(bg(), rows(fmt.Sprintf("%d%07d", w, n), 50)); err != nil {
						t.Error("append:", err)
					}
					if _, err := old.Key(bg(), "k1"); err != nil {
						t.Error("key:", err)
					}
					if batches[w]++; n == 2 {
						sent.Done()
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		sent.Wait() // the load is on
		var migrating sync.WaitGroup
		news := make([]*Store, 2)
		for i := range news {
			migrating.Go(func() {
				news[i] = opened(t, url, Options{Migrate: true, schema: nextSchema(t)})
				for news[i].Ready() != nil {
					_, _ = news[i].Key(bg(), "k1")
				}
			})
		}
		migrating.Wait()
		close(stop)
		load.Wait()
		total := batches[0] + batches[1] + batches[2]
		if n := count(t, old, "requests"); n != 50*total {
			t.Errorf("%d rows of %d", n, 50*total)
		}
		var here int
		no(t, news[1].read.QueryRowContext(bg(), `SELECT count(*) FROM requests WHERE region = 'here'`).Scan(&here))
		if v, err := news[1].version(bg(), conn{news[1].read, &news[1].kind}); v != 3 || err != nil || here != 50*total {
			t.Errorf("version %d, %v; %d rows have the new column", v, err, here)
		}
		if r, err := news[0].Key(bg(), "k1"); err != nil || r.ID != "k1" {
			t.Error(err)
		}
	})
}

// Many nodes start at once on an empty database.
func TestMigrateTogether(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		var starting sync.WaitGroup
		for range 6 {
			starting.Go(func() {
				s := open()
				if _, err := s.Key(bg(), "nobody"); !errors.Is(err, access.ErrUnknown) {
					t.Error(err)
				}
			})
		}
		starting.Wait()
		if n := count(t, open(), "schema_steps"); n != 1 {
			t.Errorf("%d steps were taken", n)
		}
	})
}

// A node that does not migrate waits for one that does.
func TestWaitForTables(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	waiting := opened(t, url, Options{})
	if _, err := waiting.Key(bg(), "k"); err == nil || errors.Is(err, access.ErrUnknown) {
		t.Errorf("without tables: %v", err)
	}
	_, err := opened(t, url, Options{Migrate: true}).Key(bg(), "k")
	if !errors.Is(err, access.ErrUnknown) {
		t.Fatal(err)
	}
	for waiting.Ready() != nil { // it looks again by itself
		_, _ = waiting.Key(bg(), "k")
	}
}

func TestSplit(t *testing.T) {
	got := split("-- one; two\nCREATE a (\n  b, -- c;\n  d\n);\n\nDROP e;\nLAST f")
	want := []string{"CREATE a (\n  b,\n  d\n)", "DROP e", "LAST f"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	for _, files := range []fstest.MapFS{{"schema/0002_x.sql": {}}, {"schema/one.sql": {}}} {
		if _, err := readSteps(files); err == nil {
			t.Error("files with a gap")
		}
	}
}
