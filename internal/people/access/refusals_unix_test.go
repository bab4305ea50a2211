//go:build unix

package access

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestRefusalIsOnTheDiskFirst checks that a revoked key is refused only when its entry has been written: else a process that is
// killed in between would accept it again. The file is a pipe, which nobody can write before somebody reads it.
func TestRefusalIsOnTheDiskFirst(t *testing.T) {
	s, p := newSource(), peppers(t)
	ids, keys := s.stored(p, 1)
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, Snapshot: filepath.Join(t.TempDir(), "s")})
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(d.refusals.path, 0o600); err != nil {
		t.Fatal(err)
	}
	s.change(ids[0], func(r *Record) { r.Revoked = time.Now() })
	_, before := s.questions()
	refreshed := make(chan error, 1)
	go func() { refreshed <- d.Refresh(t.Context()) }()
	testrig.Eventually(t, "the change is read", func() bool { _, changes := s.questions(); return changes > before })
	for range 1000 { // a revocation that is applied first would show now
		wants(t, d, keys[0], "200")
	}
	pipe, err := os.Open(d.refusals.path)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := <-refreshed; err != nil {
		t.Fatal(err)
	}
	wants(t, d, keys[0], "401 revoked_api_key")
	if n, err := pipe.Read(make([]byte, 1)); n == 0 {
		t.Errorf("nothing was written: %v", err)
	}
}
