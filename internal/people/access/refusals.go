package access

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/people/pepperfile"
)

// refusals is a file beside the snapshot with the keys, teams and organisations that were
// revoked or blocked since the snapshot was written. A node that is killed and starts
// without the store refuses them. It is a list of frames: the size of a gob, its MAC and
// the gob.
type refusals struct {
	path   string // empty: there is no snapshot
	key    []byte
	logger *slog.Logger
	full   chan struct{} // asks for a snapshot, with which the file becomes empty

	mu     sync.Mutex
	frames []*frame // of the file
	bytes  int
}

// frame is one entry of the file.
type frame struct {
	text    []byte
	applied bool // the table has it, so that the next snapshot has it
}

const (
	fullRefusals = 1 << 20  // bytes after which a snapshot is written at once
	maxRefusals  = 64 << 20 // bytes of the file
	frameHead    = 4 + sha256.Size
)

func newRefusals(o *DirectoryOptions) *refusals {
	r := &refusals{logger: o.Logger, full: make(chan struct{}, 1)}
	if o.Snapshot != "" {
		r.path, r.key = o.Snapshot+".refused", o.Peppers.list[len(o.Peppers.list)-1].snapshotKey
	}
	return r
}

// add writes the refusals among changes to the disk. The changes are applied to the table
// afterwards; then the caller calls applied.
func (f *refusals) add(c Changes) (applied func()) {
	c = Changes{
		Records: slices.DeleteFunc(slices.Clone(c.Records), func(r Record) bool { return r.Revoked.IsZero() && !r.Blocked() }),
		Tenants: slices.DeleteFunc(slices.Clone(c.Tenants), func(t Tenant) bool { return !t.Blocked }),
	}
	if f.path == "" || len(c.Records)+len(c.Tenants) == 0 {
		return func() {}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one, err := f.encode(c)
	if err == nil {
		err = f.write(one.text)
	}
	if err != nil {
		f.logger.Warn("a revoked key is not on the disk until the next snapshot", "path", f.path, "error", err)
		return func() {}
	}
	f.frames = append(f.frames, one)
	if f.bytes += len(one.text); f.bytes > fullRefusals {
		select {
		case f.full <- struct{}{}:
		default:
		}
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		one.applied = true
	}
}

func (f *refusals) encode(c Changes) (*frame, error) {
	buf := bytes.NewBuffer(make([]byte, frameHead))
	if err := gob.NewEncoder(buf).Encode(c); err != nil {
		return nil, err
	}
	text := buf.Bytes()
	if f.bytes+len(text) > maxRefusals {
		return nil, fmt.Errorf("the file would have over %d bytes", maxRefusals)
	}
	binary.BigEndian.PutUint32(text, uint32(len(text)-frameHead))
	copy(text[4:], f.mac(text[frameHead:]))
	return &frame{text: text}, nil
}

func (f *refusals) mac(text []byte) []byte {
	mac := hmac.New(sha256.New, f.key)
	_, _ = mac.Write([]byte("isogloss refusals 1\n"))
	_, _ = mac.Write(text)
	return mac.Sum(nil)
}

// write appends to the file. It opens the file each time: another process of this node may
// have replaced it.
func (f *refusals) write(text []byte) error {
	_, missing := os.Stat(f.path)
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil && missing != nil {
		err = pepperfile.SyncFolder(filepath.Dir(f.path))
	}
	return err
}

// count returns how many frames, from the beginning, a snapshot has that is written now.
func (f *refusals) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := slices.IndexFunc(f.frames, func(one *frame) bool { return !one.applied })
	if n < 0 {
		n = len(f.frames)
	}
	return n
}

// drop removes frames that a written snapshot has.
func (f *refusals) drop(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n == 0 {
		return
	}
	f.frames = slices.Clone(f.frames[n:])
	var rest []byte
	for _, one := range f.frames {
		rest = append(rest, one.text...)
	}
	f.bytes = len(rest)
	if err := replaceFile(f.path, rest); err != nil { // the old file only refuses what is refused anyway
		f.logger.Warn("the file of revoked keys was not shortened", "path", f.path, "error", err)
	}
}

// replaceFile writes a file, or removes it if it would be empty. Readers see the old or the
// new content.
func replaceFile(path string, text []byte) error {
	if len(text) == 0 {
		return os.Remove(path)
	}
	if err := writeSynced(path+".tmp", text); err != nil {
		return err
	}
	return errors.Join(os.Rename(path+".tmp", path), pepperfile.SyncFolder(filepath.Dir(path)))
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // the operator's own path
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// restore applies the file to a table that was read from the snapshot. It ends at the first
// frame that is incomplete: the process was killed while it wrote it.
func (f *refusals) restore(t *table) {
	text, err := readRefusals(f.path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.logger.Warn("the file of revoked keys is ignored", "path", f.path, "error", err)
		}
		return
	}
	for len(text) >= frameHead {
		n := uint64(frameHead) + uint64(binary.BigEndian.Uint32(text))
		if n > uint64(len(text)) || !hmac.Equal(text[4:frameHead], f.mac(text[frameHead:n])) {
			break
		}
		var c Changes
		if err := gob.NewDecoder(bytes.NewReader(text[frameHead:n])).Decode(&c); err != nil {
			break
		}
		t.refuse(c)
		f.frames = append(f.frames, &frame{text: text[:n:n], applied: true})
		f.bytes += int(n)
		text = text[n:]
	}
	if len(text) > 0 {
		f.logger.Warn("the file of revoked keys ends in an incomplete entry or was changed", "path", f.path, "bytes", len(text))
		f.frames = append(f.frames, &frame{applied: true}) // the next snapshot removes it
	}
}

func readRefusals(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > 2*maxRefusals { // two processes may have written it
		return nil, fmt.Errorf("it is over %d bytes", 2*maxRefusals)
	}
	return os.ReadFile(path) //nolint:gosec // the operator's own path
}
