package refusals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

const (
	filePrefix = "refusals-"
	fileSuffix = ".json"
	maxFile    = 64 << 20 // bytes that are read
	// adoptInterval is the time between two searches for files of other processes.
	adoptInterval = 30 * time.Second
)

// file is what the sink does not have, for the next process. It is not synced: a power loss may lose more
// than a kill.
type file struct {
	mu          sync.Mutex
	folder, own string
	exists      bool
	failed      bool
	searched    time.Time
}

// write replaces the file.
func (f *file) write(b *usage.Refusals, logger *slog.Logger) {
	text, err := json.Marshal(b)
	if err == nil {
		err = errors.Join(os.WriteFile(f.own+".tmp", text, 0o600), os.Rename(f.own+".tmp", f.own))
	}
	if err != nil && !f.failed {
		logger.Warn("refused requests are not on the disk; a process that is killed loses those that are not stored", "error", err)
	}
	f.exists, f.failed = true, err != nil
}

// remove removes the file, because the sink has everything.
func (f *file) remove(logger *slog.Logger) {
	if !f.exists {
		return
	}
	f.exists = false
	if err := os.Remove(f.own); err != nil && !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("a file of refused requests is not removed; they are sent again, which changes nothing", "error", err)
	}
}

// adopt sends the files that other processes have left, and removes those that have not changed meanwhile. The
// file of a process that runs may be sent too: it sends the same counts, or higher ones.
func (r *Recorder) adopt(ctx context.Context, sink Sink) {
	if time.Since(r.file.searched) < adoptInterval {
		return
	}
	r.file.searched = time.Now()
	entries, err := os.ReadDir(r.file.folder)
	if err != nil {
		return // nothing can be written there either, and that is logged
	}
	for _, e := range entries {
		path := filepath.Join(r.file.folder, e.Name())
		if path == r.file.own || !strings.HasPrefix(e.Name(), filePrefix) || !strings.HasSuffix(e.Name(), fileSuffix) {
			continue
		}
		if err := adoptFile(ctx, sink, path); err != nil && ctx.Err() == nil {
			r.o.Logger.Warn("refused requests of an earlier process are not stored yet", "path", path, "error", err)
		}
	}
}

func adoptFile(ctx context.Context, sink Sink, path string) error {
	text, err := read(path)
	if err != nil {
		return err
	}
	var b usage.Refusals
	if err := json.Unmarshal(text, &b); err != nil {
		return errors.Join(errors.New("the file is malformed; it is removed"), os.Remove(path)) // the parser's error would quote it
	}
	if err := send(ctx, sink, b); err != nil {
		return err
	}
	if again, err := read(path); err != nil || !bytes.Equal(text, again) {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) { // another process may have adopted it too
		return err
	}
	return nil
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []byte("{}"), nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, errors.New("it is larger than 64 MiB")
	}
	return os.ReadFile(path) //nolint:gosec // the operator's own path
}
