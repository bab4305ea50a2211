package access

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/isogloss-gateway/isogloss/internal/people/pepperfile"
)

// A snapshot is a line that names the format, an image, and a MAC over both. Nobody can add a key
// to it without the pepper. Whoever can write to the folder can restore an older snapshot with keys
// that were revoked since: it is used until the store responds, and for at most Stale after it was
// written. What was revoked between a snapshot and the next is in the file of refusals.
const (
	snapshotFormat = "isogloss keys 2\n"
	maxSnapshot    = 1 << 30
)

// snapshotImage is the content of a snapshot. Records are divided into parts, which are decoded in
// parallel.
type snapshotImage struct {
	Contact time.Time // when all changes were known
	Cursor  Cursor
	Parts   [][]byte // each a list of records
}

const partSize = 4096

func newImage(contact time.Time, cursor Cursor, records []Record) (*snapshotImage, error) {
	img := &snapshotImage{Contact: contact, Cursor: cursor}
	for part := range slices.Chunk(records, partSize) {
		var buf bytes.Buffer
		if err := gob.NewEncoder(&buf).Encode(part); err != nil {
			return nil, err
		}
		img.Parts = append(img.Parts, buf.Bytes())
	}
	return img, nil
}

// table returns the keys of the image.
func (img *snapshotImage) table(most int) (*table, error) {
	t := newTable(most)
	var parts errgroup.Group
	parts.SetLimit(runtime.GOMAXPROCS(0))
	for _, part := range img.Parts {
		parts.Go(func() error {
			records := make([]Record, 0, partSize) // or it grows step by step
			if err := gob.NewDecoder(bytes.NewReader(part)).Decode(&records); err != nil {
				return err
			}
			t.apply(Changes{Records: records, Next: img.Cursor})
			return nil
		})
	}
	return t, parts.Wait()
}

// restore reads the snapshot. An invalid one is ignored and logged.
func (d *Directory) restore() {
	if d.o.Snapshot == "" {
		return
	}
	img, err := readSnapshot(d.o.Snapshot, d.snapshotKey())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var t *table
	if err == nil {
		t, err = img.table(d.o.MaxKeys)
	}
	if err != nil {
		d.o.Logger.Warn("snapshot of keys ignored", "path", d.o.Snapshot, "error", err)
		return
	}
	t.cursor.Store(&img.Cursor)
	d.refusals.restore(t)
	d.table.Store(t)
	age := max(0, d.startedAt.Sub(img.Contact)) // never negative, even if clocks differ
	d.lastSync.Store(-int64(age))
	d.synced.Store(true)
	d.o.Logger.Info("keys read from the snapshot", "path", d.o.Snapshot, "known", t.size.Load(), "age", age.String())
}

func (d *Directory) snapshotKey() []byte {
	return d.o.Peppers.list[len(d.o.Peppers.list)-1].snapshotKey
}

func readSnapshot(path string, key []byte) (*snapshotImage, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own path
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSnapshot {
		return nil, fmt.Errorf("it is over %d bytes", maxSnapshot)
	}
	all := make([]byte, info.Size())
	if _, err := io.ReadFull(f, all); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(all, []byte(snapshotFormat)) || len(all) < len(snapshotFormat)+sha256.Size {
		return nil, errors.New("it has another format")
	}
	body, sum := all[:len(all)-sha256.Size], all[len(all)-sha256.Size:]
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), sum) {
		return nil, errors.New("it was written with another pepper, or it was changed")
	}
	img := &snapshotImage{}
	if err := gob.NewDecoder(bytes.NewReader(body[len(snapshotFormat):])).Decode(img); err != nil {
		return nil, err
	}
	return img, nil
}

// writeSnapshot writes a temporary file and renames it, so that readers never see a partial one. If
// two processes write concurrently, the later one wins.
func writeSnapshot(path string, key []byte, img *snapshotImage) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	mac := hmac.New(sha256.New, key)
	buf := bufio.NewWriterSize(f, 1<<20)
	to := io.MultiWriter(buf, mac)
	_, err = io.WriteString(to, snapshotFormat)
	if err == nil {
		err = gob.NewEncoder(to).Encode(img)
	}
	if err == nil {
		_, err = buf.Write(mac.Sum(nil))
	}
	if err = errors.Join(err, buf.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return pepperfile.SyncFolder(filepath.Dir(path))
}

// saver writes the snapshot after changes.
type saver struct {
	d       *Directory
	table   *table // as saved last
	changes int64
	contact int64
	swept   bool
}

func (s *saver) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.wait(ctx)
		t := s.d.table.Load()
		// The snapshot contains the time of the last sync. Without changes it is still
		// written, less often, or a quiet day would make it stale.
		old := time.Duration(s.d.lastSync.Load()-s.contact) > s.d.o.Stale/24
		if ctx.Err() == nil && (t != s.table || t.changes.Load() != s.changes || old) {
			s.save()
		}
	}
}

// wait waits for the next snapshot, which comes sooner if the file of refusals is large.
func (s *saver) wait(ctx context.Context) {
	timer := time.NewTimer(saveInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.d.refusals.full:
	case <-ctx.Done():
	}
}

// save writes the snapshot unless it is up to date.
func (s *saver) save() {
	d := s.d
	if d.o.Snapshot == "" || !d.synced.Load() {
		return
	}
	// The order matters: values that are read later may only be newer.
	contact := d.lastSync.Load()
	t := d.table.Load()
	if t.previous.Load() != nil {
		return // a reset is in progress
	}
	changes, cursor := t.changes.Load(), *t.cursor.Load()
	if t == s.table && changes == s.changes && contact == s.contact {
		return
	}
	s.sweep()
	refused := d.refusals.count()
	img, err := newImage(d.startedAt.Add(time.Duration(contact)), cursor, t.records())
	if err == nil {
		err = writeSnapshot(d.o.Snapshot, d.snapshotKey(), img)
	}
	if err != nil {
		d.o.Logger.Warn("snapshot of keys not written", "path", d.o.Snapshot, "error", err)
		return
	}
	d.refusals.drop(refused)
	s.table, s.changes, s.contact = t, changes, contact
}

// sweep removes temporary files of processes that were killed.
func (s *saver) sweep() {
	if s.swept {
		return
	}
	s.swept = true
	left, _ := filepath.Glob(s.d.o.Snapshot + ".*.tmp")
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > 10*time.Minute {
			_ = os.Remove(path)
		}
	}
}
