package db

import (
	"os"
	"path/filepath"
	"testing"
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
