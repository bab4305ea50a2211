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
)

// A snapshot is a line that names the format, an image, and a MAC over both. Without
// the pepper nobody can add a key to it. Who may write to the folder can put an older
// one back, with keys that were revoked since: it serves until the first answer of
// the store, and no longer than Stale after it was written.
const (
	snapshotFormat = "isogloss keys 1\n"
	snapshotMost   = 1 << 30
)

// image is what a snapshot holds. The records are in parts, so that they can be read
// on all cores.
type image struct {
	Contact time.Time // when all changes were known
	Cursor  int64
	Parts   [][]byte // each a list of records
}

const partSize = 4096

func newImage(contact time.Time, cursor int64, records []Record) (*image, error) {
	img := &image{Contact: contact, Cursor: cursor}
	for part := range slices.Chunk(records, partSize) {
		var buf bytes.Buffer
		if err := gob.NewEncoder(&buf).Encode(part); err != nil {
			return nil, err
		}
		img.Parts = append(img.Parts, buf.Bytes())
	}
	return img, nil
}

// table has the image's keys.
func (img *image) table(most int) (*table, error) {
	t := newTable(most)
	var parts errgroup.Group
	parts.SetLimit(runtime.GOMAXPROCS(0))
	for _, part := range img.Parts {
		parts.Go(func() error {
			var records []Record
			if err := gob.NewDecoder(bytes.NewReader(part)).Decode(&records); err != nil {
				return err
			}
			t.apply(records, img.Cursor)
			return nil
		})
	}
	return t, parts.Wait()
}

// restore reads the snapshot. One that cannot be trusted is left alone, and told of.
func (d *Directory) restore() {
	if d.o.Snapshot == "" {
		return
	}
	img, err := readSnapshot(d.o.Snapshot, d.sealing())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var t *table
	if err == nil {
		t, err = img.table(d.o.Most)
	}
	if err != nil {
		d.o.Logger.Warn("the snapshot of keys is not used", "path", d.o.Snapshot, "error", err)
		return
	}
	t.cursor.Store(img.Cursor)
	d.table.Store(t)
	age := max(0, d.began.Sub(img.Contact)) // never from the future, whatever the clocks say
	d.contact.Store(-int64(age))
	d.heard.Store(true)
	d.restored = true
	d.o.Logger.Info("keys were read from the snapshot", "path", d.o.Snapshot, "known", t.size.Load(), "age", age.String())
}

func (d *Directory) sealing() []byte { return d.o.Peppers.list[len(d.o.Peppers.list)-1].sealing }

func readSnapshot(path string, key []byte) (*image, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own path
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > snapshotMost {
		return nil, fmt.Errorf("it is over %d bytes", snapshotMost)
	}
	all := make([]byte, info.Size())
	if _, err := io.ReadFull(f, all); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(all, []byte(snapshotFormat)) || len(all) < len(snapshotFormat)+sha256.Size {
		return nil, errors.New("it is of another format")
	}
	body, sum := all[:len(all)-sha256.Size], all[len(all)-sha256.Size:]
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), sum) {
		return nil, errors.New("it was not written with this pepper, or it was changed since")
	}
	img := &image{}
	if err := gob.NewDecoder(bytes.NewReader(body[len(snapshotFormat):])).Decode(img); err != nil {
		return nil, err
	}
	return img, nil
}

// writeSnapshot writes beside the file and renames, so that whoever reads sees the
// whole of one. Two processes may do it at once; the later one's stays.
func writeSnapshot(path string, key []byte, img *image) (err error) {
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
	return syncFolder(filepath.Dir(path))
}

// saver writes the snapshot when there is something new in it.
type saver struct {
	d       *Directory
	table   *table // as it was saved
	changes int64
	contact int64
	swept   bool
}

func (s *saver) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, saveEvery)
		t := s.d.table.Load()
		// The time of the last contact is part of it: without new keys it is written
		// too, only more seldom, or a quiet day would make the snapshot stale.
		old := time.Duration(s.d.contact.Load()-s.contact) > s.d.o.Stale/24
		if ctx.Err() == nil && (t != s.table || t.changes.Load() != s.changes || old) {
			s.save()
		}
	}
}

// save writes the snapshot, unless the one on disk has all of it.
func (s *saver) save() {
	d := s.d
	if d.o.Snapshot == "" || !d.heard.Load() {
		return
	}
	// The order matters: what is read later may only be newer.
	contact := d.contact.Load()
	t := d.table.Load()
	changes, cursor := t.changes.Load(), t.cursor.Load()
	if t == s.table && changes == s.changes && contact == s.contact {
		return
	}
	s.sweep()
	img, err := newImage(d.began.Add(time.Duration(contact)), cursor, t.records())
	if err == nil {
		err = writeSnapshot(d.o.Snapshot, d.sealing(), img)
	}
	if err != nil {
		d.o.Logger.Warn("the snapshot of keys was not written", "path", d.o.Snapshot, "error", err)
		return
	}
	s.table, s.changes, s.contact = t, changes, contact
}

// sweep removes what processes left that were killed while they wrote.
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
