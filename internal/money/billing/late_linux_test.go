package billing

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestRowIsWrittenLater checks that a row that cannot be written at the end of its request is written as soon as it
// can be.
func TestRowIsWrittenLater(t *testing.T) {
	dir := t.TempDir()
	ledger, err := spool.Open(spool.Options{Dir: dir, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBooks(t, 0)
	b.Ledger = ledger
	a := mustReserve(t, b, request(), EstimateRequest(100, 7, 1), one)
	writable := makeReadOnly(t, dir)
	a.Charge(Result{Status: 200, Outcome: usage.Answered, Last: Attempt{Target: one, Began: time.Now(), Reported: &llm.Usage{Output: 2}}})
	if s := ledger.Snapshot(); s.Open != 1 || s.Failed == 0 {
		t.Errorf("the row was written: %+v", s)
	}
	writable()
	if err := ledger.Close(); err != nil { // it writes what is late
		t.Fatal(err)
	}
	if s := ledger.Snapshot(); s.Open != 0 {
		t.Errorf("the row was not written: %+v", s)
	}
}

// makeReadOnly replaces the process's open files of a folder by ones that cannot be written, until writable is called.
func makeReadOnly(t *testing.T, dir string) (writable func()) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	saved := map[int]int{}
	for _, path := range fds {
		name, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(name, dir+"/") {
			continue
		}
		fd, _ := strconv.Atoi(filepath.Base(path))
		file, err := os.Open(name)
		if err != nil {
			continue
		}
		if saved[fd], err = syscall.Dup(fd); err == nil {
			err = syscall.Dup3(int(file.Fd()), fd, syscall.O_CLOEXEC)
		}
		if _ = file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for fd, old := range saved {
			if err := syscall.Dup3(old, fd, syscall.O_CLOEXEC); err != nil {
				t.Error(err)
			}
			_ = syscall.Close(old)
		}
	}
}
