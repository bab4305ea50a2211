package spool

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

const tinyEnv = "ISOGLOSS_USAGE_TINY"

// TestDiskIsFull fills a real file system of 16 MiB. It runs in its own namespace and process,
// because a count in a page without space would kill the process.
func TestDiskIsFull(t *testing.T) {
	if dir := os.Getenv(tinyEnv); dir != "" {
		onTinyDisk(t, dir)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDiskIsFull$", "-test.v")
	cmd.Env = append(os.Environ(), tinyEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil || strings.Contains(string(out), "cannot mount") {
		t.Skipf("no name space to be had here: %v %s", err, out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func onTinyDisk(t *testing.T, dir string) {
	if err := syscall.Mount("tiny", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal("cannot mount", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	s, to := openSpool(t, Options{Dir: filepath.Join(dir, "spool")}), newLedger()
	var open []*Entry
	for i := range pageSlots { // all slots of the first page
		e, err := s.Begin(Opening{ID: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, e)
	}
	filler := filepath.Join(dir, "filler")
	fill(t, filler)

	for range 3 {
		if _, err := s.Begin(Opening{ID: "no slot"}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Begin without room for slots: %v", err)
		}
	}
	for _, e := range open { // Begin has taken the space for these
		e.Delivered(1)
		if _, err := e.End(usage.Row{Usage: sampleRow("").Usage}); err != nil {
			t.Fatal("a request that has begun cannot end: ", err)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	open = open[:0]
	for i := range 2 * pageSlots { // the slot file grows
		open = append(open, begin(t, s, fmt.Sprint("more-", i)))
	}
	for _, e := range open {
		e.Delivered(1)
		end(t, e, 1)
	}
	drain(t, s, to, nil)
	flush(t, s)
	if rows := to.all(); len(rows) != 3*pageSlots || s.Snapshot().Corrupt != 0 {
		t.Errorf("%d rows of %d, and the backlog is %+v", len(rows), 3*pageSlots, s.Snapshot())
	}
}

// fill writes until the disk is full.
func fill(t *testing.T, path string) {
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}
