package discover

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.snapshot")
	d := newDisk(path, slog.New(slog.DiscardHandler))
	if s := d.load(); len(s.Workers) != 0 {
		t.Fatal("there is something before anything was saved")
	}
	want := Snapshot{Workers: fleet(10, "m"), Revision: 9, At: time.Now().Round(0)}
	if err := d.save(want); err != nil {
		t.Fatal(err)
	}
	got := d.load()
	if !slices.Equal(got.Workers, want.Workers) || got.Revision != 9 || !got.At.Equal(want.At) || !got.Stale {
		t.Errorf("loaded %+v", got)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		bad := slices.Clone(text)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if len(d.load().Workers) != 0 {
			t.Fatalf("a file with bit 0 of byte %d turned is loaded", i)
		}
	}
	if err := os.WriteFile(path, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if len(d.load().Workers) != 0 {
		t.Error("half a file is loaded")
	}
}

// TestDiskSweeps checks that a start removes the temporary file of a killed process, but
// not one that another process is writing.
func TestDiskSweeps(t *testing.T) {
	dir := t.TempDir()
	old, young := filepath.Join(dir, "workers.snapshot.1.tmp"), filepath.Join(dir, "workers.snapshot.2.tmp")
	for _, name := range []string{old, young} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hour := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, hour, hour); err != nil {
		t.Fatal(err)
	}
	newDisk(filepath.Join(dir, "workers.snapshot"), slog.New(slog.DiscardHandler)).load()
	if _, err := os.Stat(old); err == nil {
		t.Error("the old one is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("the young one is gone")
	}
}
