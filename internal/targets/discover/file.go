package discover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	fileLook = 250 * time.Millisecond
	maxFile  = 64 << 20 // bytes
)

// file is a JSON list of workers.
type file struct{ path string }

// File returns the source that reads a JSON list of workers, again whenever the file
// changes. It rejects an invalid file and keeps the old list.
func File(path string) Source { return file{path} }

func (f file) Name() string { return "file" }

// Watch checks the file four times a second, which works on every file system and
// through symbolic links.
func (f file) Watch(ctx context.Context, tell func(Change)) {
	tick := time.NewTicker(fileLook)
	defer tick.Stop()
	var last look
	for {
		if now := lookAt(f.path); !now.same(last) {
			last = now
			f.load(tell)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// load reports the content of the file. A file that is still being written is not valid
// JSON; it is rejected and read again when it is complete.
func (f file) load(tell func(Change)) {
	at := time.Now()
	workers, err := readWorkers(f.path)
	if err != nil {
		tell(Change{Stale: true, Err: fmt.Errorf("%s: %w", f.path, err)})
		return
	}
	tell(Change{All: true, Put: workers, At: at})
}

func readWorkers(path string) ([]Worker, error) {
	f, err := os.Open(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, errors.New("it has more than 64 MiB")
	}
	var workers []Worker
	if err := json.Unmarshal(text, &workers, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if workers == nil {
		return nil, errors.New("it is null; write [] for no workers")
	}
	return workers, nil
}

// look is the state of the file at one time.
type look struct {
	info  os.FileInfo // nil: it did not exist
	at    time.Time
	taken bool
}

func lookAt(path string) look {
	info, err := os.Stat(path)
	if err != nil {
		return look{at: time.Now(), taken: true}
	}
	return look{info, time.Now(), true}
}

// same reports whether the file cannot have changed since the earlier look. A file that
// was modified within the resolution of the file system's clock may have changed again
// and look the same.
func (l look) same(earlier look) bool {
	if !earlier.taken || l.info == nil || earlier.info == nil {
		return earlier.taken && l.info == nil && earlier.info == nil
	}
	return os.SameFile(l.info, earlier.info) && l.info.Size() == earlier.info.Size() &&
		l.info.ModTime().Equal(earlier.info.ModTime()) && earlier.at.Sub(earlier.info.ModTime()) > 50*time.Millisecond
}
