package usage

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// adopter takes over the folders of dead processes.
type adopter struct {
	s       *Spool
	to      Sink
	settled func(Row)
	work    sync.WaitGroup
	turn    chan struct{} // one folder is sent at a time
}

func (a *adopter) run(ctx context.Context) {
	tick := time.NewTicker(a.s.o.adopt)
	defer tick.Stop()
	for {
		a.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look adopts every folder whose process is dead. Budgets are settled at once for all
// of them, and the rows are sent when the sink has time.
func (a *adopter) look(ctx context.Context) {
	list, err := os.ReadDir(a.s.o.Dir)
	if err != nil {
		a.s.o.Logger.Error("usage spool cannot be searched", "error", err)
		return
	}
	for _, entry := range list {
		name := entry.Name()
		if ctx.Err() != nil {
			return
		}
		switch {
		case strings.HasPrefix(name, newPrefix):
			a.clear(name)
		case strings.HasPrefix(name, oldPrefix):
			_ = os.RemoveAll(filepath.Join(a.s.o.Dir, name))
		}
		if !strings.HasPrefix(name, runPrefix) || name == filepath.Base(a.s.dir) {
			continue
		}
		if o := takeOver(filepath.Join(a.s.o.Dir, name)); o != nil {
			a.adopt(ctx, o)
		}
	}
}

// clear removes what a process left that died before its spool was open.
func (a *adopter) clear(name string) {
	dir := filepath.Join(a.s.o.Dir, name)
	info, err := os.Stat(dir)
	if err != nil || time.Since(info.ModTime()) < time.Hour {
		return
	}
	if o := takeOver(dir); o != nil {
		_ = os.RemoveAll(dir)
		_ = o.lock.Close()
	}
}

func (a *adopter) adopt(ctx context.Context, o *orphan) {
	o.scan()
	a.s.corrupted(filepath.Base(o.dir), o.bad)
	a.s.orphaned.Add(o.bytes)
	a.s.lost.Add(int64(len(o.lost)))
	a.s.o.Logger.Info("usage spool of a dead process was adopted", "folder", filepath.Base(o.dir), "bytes", o.bytes, "lost", len(o.lost))
	for _, row := range o.lost {
		if a.settled != nil {
			a.settled(row)
		}
	}
	a.work.Go(func() {
		defer o.lock.Close()
		defer a.s.orphaned.Add(-o.bytes)
		select {
		case <-ctx.Done():
			return
		case a.turn <- struct{}{}:
			defer func() { <-a.turn }()
		}
		if a.send(ctx, o) {
			o.remove()
		}
	})
}

// send gives the sink the rows that ended, then those that were lost.
func (a *adopter) send(ctx context.Context, o *orphan) bool {
	at := loadPosition(o.dir)
	var batch []Row
	flush := func(to position) bool {
		if len(batch) > 0 && !a.s.send(ctx, a.to, batch) {
			return false
		}
		batch = batch[:0]
		savePosition(o.dir, to)
		return true
	}
	for _, id := range o.segs {
		if id < at.seg {
			continue
		}
		f, _ := o.read(id)
		if id == at.seg {
			f.skip(int(min(max(at.off, 0), int64(len(f.rest)))))
		}
		at = position{seg: id, off: f.off}
		for body, end, ok := f.next(); ok; body, end, ok = f.next() {
			at.off = end
			if row, ended := endedRow(body); ended {
				batch = append(batch, row)
			}
			if len(batch) >= batchRows && !flush(at) {
				return false
			}
		}
	}
	if !flush(at) {
		return false
	}
	for rows := range slices.Chunk(o.lost, batchRows) {
		if !a.s.send(ctx, a.to, rows) {
			return false
		}
	}
	return true
}

func endedRow(body []byte) (Row, bool) {
	if len(body) == 0 || kind(body[0]) != kindEnded {
		return Row{}, false
	}
	row, err := readRow(body[1:])
	return row, err == nil
}

// orphan is the folder of a dead process. While its lock is held, nobody else has it.
type orphan struct {
	dir    string
	lock   *os.File
	segs   []uint64
	bytes  int64
	bad    int       // places that cannot be read
	unread bool      // a file could not be read
	wrote  time.Time // when the process last wrote
	lost   []Row
}

// takeOver locks a folder. It is nil where its process lives, or another was quicker.
func takeOver(dir string) *orphan {
	path := filepath.Join(dir, lockName)
	held, err := lock(path)
	if err != nil {
		return nil
	}
	// Another may have emptied the folder between our opening of the lock and its end.
	mine, err1 := held.Stat()
	there, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
		_ = held.Close()
		return nil
	}
	return &orphan{dir: dir, lock: held}
}

// scan finds out what was open when the process died. The same folder gives the same
// rows every time: a row that was sent twice is one row.
func (o *orphan) scan() {
	list, err := os.ReadDir(o.dir)
	o.unread = err != nil
	for _, entry := range list {
		id, ok := segmentID(entry.Name())
		info, err := entry.Info()
		if !ok || err != nil {
			continue
		}
		o.segs = append(o.segs, id)
		o.bytes += info.Size()
		if info.ModTime().After(o.wrote) {
			o.wrote = info.ModTime()
		}
	}
	slices.Sort(o.segs)
	open := make(map[string]begun)
	for i, id := range o.segs {
		f, err := o.read(id)
		if err != nil {
			o.unread = true
			o.bad++
		}
		o.scanSegment(f, open)
		o.bad += f.bad
		// The last record of the last segment is the one that a kill tears.
		if f.torn && i < len(o.segs)-1 {
			o.bad++
		}
	}
	counts, _ := os.ReadFile(filepath.Join(o.dir, slotsName))
	for _, b := range open {
		o.lost = append(o.lost, b.lost(countOf(counts, b.slot, b.tag), o.wrote))
	}
	slices.SortFunc(o.lost, func(a, b Row) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
}

func (o *orphan) scanSegment(f *frames, open map[string]begun) {
	for body, _, ok := f.next(); ok; body, _, ok = f.next() {
		if len(body) == 0 {
			o.bad++
			continue
		}
		var err error
		switch kind(body[0]) {
		case kindBegun:
			var b begun
			if b, err = readBegun(body[1:]); err == nil {
				open[b.ID] = b
			}
		case kindEnded:
			var r Row
			if r, err = readRow(body[1:]); err == nil {
				delete(open, r.ID)
			}
		}
		if err != nil {
			o.bad++
		}
	}
}

func (o *orphan) read(id uint64) (*frames, error) {
	b, err := os.ReadFile(filepath.Join(o.dir, segmentName(id)))
	return &frames{rest: b}, err
}

// remove deletes the folder when the sink has its rows. One of which a file could not
// be read is put aside for the operator instead.
func (o *orphan) remove() {
	if o.unread {
		_ = os.Rename(o.dir, filepath.Join(filepath.Dir(o.dir), "unread-"+filepath.Base(o.dir)))
		return
	}
	_ = removeFolder(o.dir)
}

// lost is the row of a request that a dead process had begun.
func (b *begun) lost(delivered int64, died time.Time) Row {
	r := Row{ID: b.ID, Node: b.Node, Key: b.Key, Team: b.Team, Org: b.Org, Began: b.Began, Took: max(0, died.Sub(b.Began)),
		Endpoint: b.Endpoint, Dialect: b.Dialect, Model: b.Model, Target: b.Target, Stream: b.Stream, Outcome: Lost}
	r.Usage, r.Estimated, r.Cost = Charge(Facts{Outcome: Lost, Prompt: b.Prompt, Delivered: delivered, Price: b.Price})
	return r
}
