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
	"time"
)

// A snapshot is a line that names the format, an image, and a MAC over both. Without
// the pepper nobody can add a key to it. Who may write to the folder can put an older
// one back, with keys that were revoked since: it serves until the first answer of
// the store, and no longer than Stale after it was written.
const (
	snapshotFormat = "isogloss keys 1\n"
	snapshotMost   = 1 << 30
)

// image is what a snapshot holds.
type image struct {
	Contact time.Time // when all changes were known
	Cursor  int64
	Records []Record
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
	if err != nil {
		d.o.Logger.Warn("the snapshot of keys is not used", "path", d.o.Snapshot, "error", err)
		return
	}
	d.table.Load().apply(img.Records, img.Cursor)
	age := max(0, d.began.Sub(img.Contact)) // never from the future, whatever the clocks say
	d.contact.Store(-int64(age))
	d.heard.Store(true)
	d.restored = true
	d.o.Logger.Info("keys were read from the snapshot", "path", d.o.Snapshot, "known", len(img.Records), "age", age)
}

func (d *Directory) sealing() []byte { return d.o.Peppers.list[len(d.o.Peppers.list)-1].sealing }

func readSnapshot(path string, key []byte) (image, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own path
	if err != nil {
		return image{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return image{}, err
	}
	if info.Size() > snapshotMost {
		return image{}, fmt.Errorf("it is over %d bytes", snapshotMost)
	}
	all := make([]byte, info.Size())
	if _, err := io.ReadFull(f, all); err != nil {
		return image{}, err
	}
	if !bytes.HasPrefix(all, []byte(snapshotFormat)) || len(all) < len(snapshotFormat)+sha256.Size {
		return image{}, errors.New("it is of another format")
	}
	body, sum := all[:len(all)-sha256.Size], all[len(all)-sha256.Size:]
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), sum) {
		return image{}, errors.New("it was not written with this pepper, or it was changed since")
	}
	var img image
	if err := gob.NewDecoder(bytes.NewReader(body[len(snapshotFormat):])).Decode(&img); err != nil {
		return image{}, err
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
	img := image{Contact: d.began.Add(time.Duration(contact)), Cursor: cursor, Records: t.records()}
	if err := writeSnapshot(d.o.Snapshot, d.sealing(), &img); err != nil {
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
