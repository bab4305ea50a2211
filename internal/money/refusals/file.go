package refusals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

const (
	filePrefix = "refusals-"
	fileSuffix = ".json"
	maxFile    = 64 << 20 // bytes that are read
	maxElement = 64 << 10 // of these, of a count or a row
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
		if path == r.file.own || !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), filePrefix) || !strings.HasSuffix(e.Name(), fileSuffix) {
			continue
		}
		if err := adoptFile(ctx, sink, path); err != nil && ctx.Err() == nil {
			r.o.Logger.Warn("refused requests of an earlier process are not stored yet", "path", path, "error", err)
		}
	}
}

// errMalformed says that no recorder has written a file. A parser's error would quote it.
var errMalformed = errors.New("the file is malformed; it is removed")

func adoptFile(ctx context.Context, sink Sink, path string) error {
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process has adopted it
	}
	var b usage.Refusals
	if err == nil {
		b, err = decode(text)
	}
	if errors.Is(err, errMalformed) {
		return errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return err
	}
	if err := send(ctx, sink, b); err != nil {
		return err
	}
	if again, err := read(path); err != nil || !bytes.Equal(text, again) {
		return ignoreMissing(err)
	}
	return ignoreMissing(os.Remove(path))
}

// ignoreMissing returns an error unless it says that a file does not exist: another process may have adopted it too.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own folder
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		return nil, errMalformed
	}
	return text, err
}

// decode reads what a recorder has written. Each count and row is bounded before it is read, because one of two bytes needs
// hundreds in memory.
func decode(text []byte) (b usage.Refusals, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(text))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return b, errMalformed
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return b, errMalformed
		}
		switch name.String() {
		case "Counts":
			b.Counts, err = elements[usage.RefusalCount](d, 2*maxCounts+len(usage.Reasons()))
		case "Rows":
			b.Rows, err = elements[usage.Row](d, maxRows)
		default:
			err = errMalformed
		}
		if err != nil {
			return b, err
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
		return b, errMalformed
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return b, errMalformed
	}
	b.Rows = slices.DeleteFunc(b.Rows, func(r usage.Row) bool { return r.ID == "" })
	for i := range b.Rows {
		b.Rows[i].Outcome, b.Rows[i].Cost = usage.Refused, new(usage.Money)
	}
	return b, nil
}

// elements reads a list of at most so many elements, or null.
func elements[T any](d *jsontext.Decoder, most int) (list []T, err error) {
	t, err := d.ReadToken()
	if err == nil && t.Kind() == 'n' {
		return nil, nil
	}
	if err != nil || t.Kind() != '[' {
		return nil, errMalformed
	}
	for d.PeekKind() != ']' {
		var one T
		value, err := d.ReadValue()
		if err != nil || len(value) > maxElement || len(list) >= most || json.Unmarshal(value, &one) != nil {
			return nil, errMalformed
		}
		list = append(list, one)
	}
	_, err = d.ReadToken()
	return list, err
}
