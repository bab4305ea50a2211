package db

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestFileMode checks that only the owner can read the file.
func TestFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	no(t, notes(opened(t, "sqlite:"+path, Options{Migrate: true})))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		no(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %s", suffix, info.Mode())
		}
	}
}

// TestWaitForLock checks that calls wait for a lock that another process holds on a slow disk, while the file is
// new, while another process migrates it, and later.
func TestWaitForLock(t *testing.T) {
	for name, pragma := range map[string]string{"a new file": "PRAGMA user_version", "while it is migrated": "PRAGMA journal_mode = wal"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.db")
			other := lock(t, path, pragma)
			var log testrig.Log
			d := opened(t, "sqlite:"+path, Options{Migrate: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			done := make(chan error, 1)
			go func() { done <- notes(d) }()
			eventually(t, "an attempt ends at the lock", func() error {
				if text := log.String(); !strings.Contains(text, "locked") {
					return Error("the log has " + text)
				}
				return nil
			})
			other()
			no(t, <-done)
		})
	}
	t.Run("a write", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "x.db")
		d := opened(t, "sqlite:"+path, Options{Migrate: true})
		no(t, notes(d))
		other := lock(t, path, "PRAGMA busy_timeout = 60000")
		tries := make(chan struct{}, 100)
		done := make(chan error, 1)
		is := d.kind.is
		d.kind.is = func(err error, c Condition) bool {
			if c == retryable {
				tries <- struct{}{}
			}
			return is(err, c)
		}
		_, err := d.write.ExecContext(t.Context(), "PRAGMA busy_timeout = 0") // each try ends at once
		no(t, err)
		go func() {
			done <- d.Write(context.Background(), func(ctx context.Context, c Conn) error {
				return c.Exec(ctx, `INSERT INTO notes (id) VALUES ('a')`)
			})
		}()
		for range 30 {
			select {
			case <-tries:
			case err := <-done:
				t.Fatal("it does not wait: ", err)
			}
		}
		other()
		no(t, <-done)
	})
}

// lock locks a file for writers, as another process does, and returns the function that ends it.
func lock(t *testing.T, path, pragma string) func() {
	t.Helper()
	file, err := sql.Open("sqlite", path)
	no(t, err)
	t.Cleanup(func() { _ = file.Close() })
	link, err := file.Conn(t.Context())
	no(t, err)
	for _, statement := range []string{pragma, "BEGIN IMMEDIATE", "CREATE TABLE others (id TEXT)"} {
		_, err = link.ExecContext(t.Context(), statement)
		no(t, err)
	}
	return func() {
		_, err := link.ExecContext(t.Context(), "COMMIT")
		no(t, err)
		no(t, link.Close())
	}
}
