package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// firstVersion is the version of the tables of the first schema file.
const firstVersion = 16

// ownFiles returns the names of the migrations.
func ownFiles(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(ownSchema, "schema/*.sql")
	no(t, err)
	return names
}

// copyOf returns a schema of some files.
func copyOf(t *testing.T, names []string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for _, name := range names {
		data, err := ownSchema.ReadFile(name)
		no(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	return files
}

// nextSchema is the schema with two more migrations.
func nextSchema(t *testing.T) fs.FS {
	t.Helper()
	files := copyOf(t, ownFiles(t))
	last := firstVersion + len(files) - 1
	add := func(number int, name, text string) {
		files[fmt.Sprintf("schema/%04d_%s.sql", last+number, name)] = &fstest.MapFile{Data: []byte(text)}
	}
	add(1, "more", `-- a column, a table
ALTER TABLE requests ADD COLUMN region TEXT NOT NULL DEFAULT 'here';
ALTER TABLE keys ADD COLUMN note TEXT;
CREATE TABLE regions (id TEXT NOT NULL PRIMARY KEY);`)
	add(2, "index", `DROP INDEX CONCURRENTLY IF EXISTS requests_region;
CREATE INDEX CONCURRENTLY requests_region ON keys (note);`)
	return files
}

// TestMigrateUnderLoad runs an old node while two new ones migrate at the same time. No call fails,
// and nothing is lost.
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
					if err := put(bg(), old, rows(fmt.Sprintf("%d%07d", w, n), 50)); err != nil {
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
		if n := count(t, news[1], "requests WHERE region = 'here'"); n != 50*total {
			t.Errorf("%d rows of %d have the new column", n, 50*total)
		}
		if n := count(t, news[1], "schema_steps"); n != len(ownFiles(t))+2 {
			t.Errorf("%d steps were taken", n)
		}
		if r, err := news[0].Key(bg(), "k1"); err != nil || r.ID != "k1" {
			t.Error(err)
		}
	})
}

// TestMigrateTogether starts many nodes at once on an empty database.
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
		if n := count(t, open(), "schema_steps"); n != len(ownFiles(t)) {
			t.Errorf("%d steps were taken", n)
		}
	})
}

// TestEarlierVersions opens a store that has the tables of the first schema file by the sixteen migrations of the
// program before, and one that lacks the last of them.
func TestEarlierVersions(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := opened(t, url, Options{Migrate: true, schema: copyOf(t, ownFiles(t)[:1])})
		ready(t, s)
		no(t, s.CreateKey(bg(), sampleKey("k1")))
		no(t, execute(bg(), s, `DELETE FROM schema_steps`))
		for version := range int64(firstVersion) {
			no(t, execute(bg(), s, `INSERT INTO schema_steps (version, name, taken) VALUES ($1, $2, 1)`, version+1, fmt.Sprintf("%04d_x.sql", version+1)))
		}
		same := opened(t, url, Options{Migrate: true})
		ready(t, same)
		if r, err := same.Key(bg(), "k1"); err != nil || r.ID != "k1" {
			t.Error(err)
		}
		next := opened(t, url, Options{Migrate: true, schema: nextSchema(t)})
		ready(t, next)
		if n := count(t, next, "schema_steps"); n != firstVersion+len(ownFiles(t))-1+2 {
			t.Errorf("%d steps were taken", n)
		}
		no(t, execute(bg(), s, `DELETE FROM schema_steps WHERE version >= $1`, int64(firstVersion)))
		for _, migrate := range []bool{true, false} {
			_, err := opened(t, url, Options{Migrate: migrate}).Key(bg(), "k1")
			if err == nil || !strings.Contains(err.Error(), "version 15") || !strings.Contains(err.Error(), "version 16") || !strings.Contains(err.Error(), "docs/operations/upgrade.md") {
				t.Error(err)
			}
		}
	})
}
