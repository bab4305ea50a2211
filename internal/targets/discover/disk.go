package discover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	saveEvery   = time.Second
	maxSnapshot = 256 << 20 // bytes
	diskVersion = "isogloss workers 1 "
)

// disk stores the latest snapshot in a file, for a start without the sources. It
// replaces the whole file, at most once a second. Several processes may share the file:
// the last write wins, and all are valid.
type disk struct {
	path   string
	logger *slog.Logger
	newest chan Snapshot // at most one; a newer one replaces it
}

func newDisk(path string, logger *slog.Logger) *disk {
	return &disk{path: path, logger: logger, newest: make(chan Snapshot, 1)}
}

// offer hands over a snapshot without blocking. Only one goroutine may call it.
func (d *disk) offer(s Snapshot) {
	select {
	case <-d.newest:
	default:
	}
	d.newest <- s
}

// run saves the offered snapshots until the context ends; saveNewest then saves the
// last one.
func (d *disk) run(ctx context.Context) {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.saveNewest()
		}
	}
}

func (d *disk) saveNewest() {
	select {
	case s := <-d.newest:
		if d.path == "" {
			return
		}
		if err := d.save(s); err != nil {
			d.logger.Error("the snapshot of workers cannot be written; a start without the sources would not have it", "file", d.path, "error", err.Error())
		}
	default:
	}
}

// saved is the content of the file after the line with its checksum.
type saved struct {
	At       time.Time `json:"at"`
	Revision int64     `json:"revision"`
	Gateways int       `json:"gateways,omitzero"`
	Rank     int       `json:"rank,omitzero"`
	Workers  []Worker  `json:"workers"`
}

func (d *disk) save(s Snapshot) error {
	body, err := json.Marshal(saved{At: s.At, Revision: s.Revision, Gateways: s.Share.Gateways, Rank: s.Share.Rank, Workers: s.Workers})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(d.path), filepath.Base(d.path)+".*.tmp") // readable only by its owner
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s%x\n%s", diskVersion, sha256.Sum256(body), body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is reported
	}
	return err
}

// load reads the snapshot. It returns an empty one if the file does not exist or is
// corrupt.
func (d *disk) load() Snapshot {
	if d.path == "" {
		return Snapshot{}
	}
	d.sweep()
	s, err := read(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.logger.Error("the snapshot of workers is not used", "file", d.path, "error", err.Error())
	}
	return s
}

// sweep removes temporary files of a process that was killed while writing.
func (d *disk) sweep() {
	left, _ := filepath.Glob(d.path + ".*.tmp")
	for _, name := range left {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(name) // another process may have removed it
		}
	}
}

func read(path string) (Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Snapshot{}, err
	}
	if info.Size() > maxSnapshot {
		return Snapshot{}, errors.New("it is too large")
	}
	text, err := os.ReadFile(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return Snapshot{}, err
	}
	head, body, _ := bytes.Cut(text, []byte("\n"))
	if string(head) != fmt.Sprintf("%s%x", diskVersion, sha256.Sum256(body)) {
		return Snapshot{}, errors.New("its checksum is wrong")
	}
	var s saved
	if err := json.Unmarshal(body, &s); err != nil {
		return Snapshot{}, err
	}
	share := Share{Gateways: s.Gateways, Rank: s.Rank}
	if !share.valid() {
		share = Share{}
	}
	return Snapshot{Workers: s.Workers, Revision: s.Revision, At: s.At, Stale: true, Share: share}, nil
}
