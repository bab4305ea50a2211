package discover

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	fileLook = 250 * time.Millisecond
	maxFile  = 64 << 20 // bytes
)

// file is a list of workers that somebody else writes.
type file struct {
	path   string
	logger *slog.Logger
}

// File is the source that reads a JSON list of workers, and reads it again when
// it has changed. A file with a mistake is refused and the old list kept.
func File(path string, logger *slog.Logger) Source {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return file{path: path, logger: logger}
}

func (f file) Name() string { return "file" }

// Watch looks four times a second: that works on every file system and through
// symbolic links.
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

// load tells what is in the file. One that is only half written is not JSON; it
// is refused, and it changes once more when it is whole.
func (f file) load(tell func(Change)) {
	at := time.Now()
	workers, err := readWorkers(f.path)
	if err != nil {
		f.logger.Error("the file of workers is refused and what was known is kept", "file", f.path, "error", err.Error())
		tell(Change{Stale: true})
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

// look is how a file was when it was looked at.
type look struct {
	info  os.FileInfo // nil: it was not there
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

// same is true if nothing can have changed since the earlier look. A file that
// was younger than the clock of its file system can tell may have been written
// again since, and look the same.
func (l look) same(earlier look) bool {
	if !earlier.taken || l.info == nil || earlier.info == nil {
		return earlier.taken && l.info == nil && earlier.info == nil
	}
	return os.SameFile(l.info, earlier.info) && l.info.Size() == earlier.info.Size() &&
		l.info.ModTime().Equal(earlier.info.ModTime()) && earlier.at.Sub(earlier.info.ModTime()) > 50*time.Millisecond
}
