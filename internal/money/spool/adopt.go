package spool

import (
	"cmp"
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// adopter takes over the spool folders of dead processes.
type adopter struct {
	s       *Spool
	to      Sink
	follows Follower // the sink, if it is a Follower
	work    sync.WaitGroup
	sending chan struct{}   // limits sending to one folder at a time
	refused map[string]bool // folders that maySend has refused
}

func (a *adopter) run(ctx context.Context) {
	tick := time.NewTicker(a.s.o.adoptInterval)
	defer tick.Stop()
	for {
		a.adoptAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// adoptAll adopts every folder whose process is dead. The budgets are settled immediately; the rows
// are sent one folder after the other.
func (a *adopter) adoptAll(ctx context.Context) {
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
			a.removeUnfinished(name)
		case strings.HasPrefix(name, oldPrefix):
			_ = os.RemoveAll(filepath.Join(a.s.o.Dir, name))
		}
		if !strings.HasPrefix(name, runPrefix) || name == filepath.Base(a.s.dir) {
			continue
		}
		if o := lockOrphan(filepath.Join(a.s.o.Dir, name)); o != nil && a.maySend(o) {
			a.adopt(ctx, o)
		}
	}
}

// removeUnfinished removes the folder of a process that died before its spool was open.
func (a *adopter) removeUnfinished(name string) {
	dir := filepath.Join(a.s.o.Dir, name)
	info, err := os.Stat(dir)
	if err != nil || time.Since(info.ModTime()) < time.Hour {
		return
	}
	if o := lockOrphan(dir); o != nil {
		_ = os.RemoveAll(dir)
		_ = o.lock.Close()
	}
}

// adopt counts what a dead process has spent, and sends its rows in the background.
func (a *adopter) adopt(ctx context.Context, o *orphan) {
	o.scan()
	a.s.reportCorrupt(filepath.Base(o.dir), o.corrupt)
	a.s.orphaned.Add(o.bytes)
	a.s.lost.Add(int64(len(o.lost)))
	a.s.o.Logger.Info("usage spool of a dead process was adopted", "folder", filepath.Base(o.dir), "bytes", o.bytes, "lost", len(o.lost))
	a.s.others.adopted(o)
	if c := a.s.counters; c != nil && (!o.counted || len(o.lost) > 0) {
		for _, t := range o.totals.list(o.name) {
			c.SetTotal(t)
		}
	}
	countedAt := time.Now()
	a.work.Go(func() {
		defer o.lock.Close()
		crash.Do(a.s.o.Logger, func() {
			if a.send(ctx, o) && a.awaitStored(ctx, o) {
				a.s.orphaned.Add(-o.bytes)
				a.keep(ctx, o, countedAt)
			}
		})
	})
}

// keep removes a folder when the sink has had its rows for long enough and the counters have them.
func (a *adopter) keep(ctx context.Context, o *orphan, countedAt time.Time) {
	pause := min(max(a.s.o.Keep/10, 50*time.Millisecond), 10*time.Second)
	for time.Since(o.lastWrite) < a.s.o.Keep || !a.s.counted().After(countedAt) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !a.send(ctx, o) {
			return
		}
	}
	if err := a.to.Finish(ctx, o.name); err != nil && ctx.Err() == nil {
		a.s.o.Logger.Warn("the store does not know yet that a log is complete", "log", o.name, "error", err)
	}
	o.remove()
}

// send sends the rows of ended requests, then those of lost requests. It reports false if ctx ended.
func (a *adopter) send(ctx context.Context, o *orphan) bool {
	select {
	case <-ctx.Done():
		return false
	case a.sending <- struct{}{}:
		defer func() { <-a.sending }()
	}
	at, acked := loadPosition(o.dir)
	return a.sendFrom(ctx, o, at, acked)
}

func (a *adopter) sendFrom(ctx context.Context, o *orphan, at position, acked int64) bool {
	for {
		have, ok := a.sendAfter(ctx, o, at, acked)
		if !ok || have >= o.rows+int64(len(o.lost)) {
			return ok
		}
		a.s.o.Logger.Warn("the store has lost usage rows; they are sent again", "log", o.name, "rows", o.rows+int64(len(o.lost))-have)
		at, acked = position{}, have
	}
}

// sendAfter sends the rows after a position, and returns the position that the sink has. It returns early if
// the sink has less than it had acknowledged.
func (a *adopter) sendAfter(ctx context.Context, o *orphan, at position, acked int64) (have int64, ok bool) {
	b := usage.Batch{Log: o.name, After: acked, To: acked}
	flush := func() bool {
		if have, ok = a.s.send(ctx, a.to, b); !ok || have < b.After {
			return false
		}
		if a.follows == nil {
			savePosition(o.dir, at, b.To)
		}
		b = usage.Batch{Log: o.name, After: b.To, To: b.To}
		return true
	}
	add := func(row usage.Row, place int64) bool {
		if place <= acked {
			return true
		}
		b.Rows, b.Positions, b.To = append(b.Rows, row), append(b.Positions, place), place
		return len(b.Rows) < batchRows || flush()
	}
	if acked < o.rows+int64(len(o.lost)) {
		for row, end := range o.endedRows(at) {
			at = end
			if !add(row.Row, row.position) {
				return have, ok
			}
		}
		b.To = max(b.To, o.rows) // rows that cannot be read are skipped
		for i, row := range o.lost {
			if !add(row, o.rows+int64(i)+1) {
				return have, ok
			}
		}
	}
	flush() // without rows it compares what the sink has
	return have, ok
}

// endedRows yields the rows of ended requests behind a position in the files, each with the position of its end.
func (o *orphan) endedRows(at position) iter.Seq2[ended, position] {
	return func(yield func(ended, position) bool) {
		n := int64(0) // number of a row from a release that did not write numbers
		for _, id := range o.segs {
			if id < at.seg {
				continue
			}
			f, _ := o.read(id)
			if id == at.seg {
				f.skip(int(min(max(at.off, 0), int64(len(f.rest)))))
			}
			for body, end, more := f.next(); more; body, end, more = f.next() {
				row, isRow := endedRow(body)
				if !isRow {
					continue
				}
				n++
				row.position = cmp.Or(row.position, n)
				if !yield(row, position{seg: id, off: end}) {
					return
				}
			}
		}
	}
}

func endedRow(body []byte) (ended, bool) {
	if len(body) == 0 || kind(body[0]) != kindEnded {
		return ended{}, false
	}
	row, err := decodeRow(body[1:])
	return row, err == nil
}

// orphan is the spool folder of a dead process. Its lock keeps other processes away.
type orphan struct {
	dir        string
	name       string // of the log
	lock       *os.File
	segs       []uint64
	bytes      int64
	corrupt    int         // corrupt places
	unreadable bool        // a file could not be read
	lastWrite  time.Time   // when the process wrote last
	rows       int64       // position of the last row
	lost       []usage.Row // rows of requests that had not ended; they follow the others
	totals     totals      // at the end of the log, with lost
	counted    bool        // the counters have everything but lost
}

// lockOrphan locks a folder. It returns nil if the process is alive or another process was faster.
func lockOrphan(dir string) *orphan {
	path := filepath.Join(dir, lockName)
	held, err := lock(path)
	if err != nil {
		return nil
	}
	// Another process may have removed the folder after we opened its lock file.
	mine, err1 := held.Stat()
	there, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
		_ = held.Close()
		return nil
	}
	return &orphan{dir: dir, name: strings.TrimPrefix(filepath.Base(dir), runPrefix), lock: held, totals: totals{}}
}

// scan finds the requests that had not ended. The same folder always gives the same rows, so that
// sending them twice is harmless.
func (o *orphan) scan() {
	list, err := os.ReadDir(o.dir)
	o.unreadable = err != nil
	for _, entry := range list {
		id, ok := segmentID(entry.Name())
		info, err := entry.Info()
		if !ok || err != nil {
			continue
		}
		o.segs = append(o.segs, id)
		o.bytes += info.Size()
		if info.ModTime().After(o.lastWrite) {
			o.lastWrite = info.ModTime()
		}
	}
	slices.Sort(o.segs)
	open := make(map[string]begun)
	for i, id := range o.segs {
		f, err := o.read(id)
		if err != nil {
			o.unreadable = true
			o.corrupt++
		}
		o.scanSegment(f, open)
		o.corrupt += f.corrupt
		// A kill can cut off the last record of the last segment; anywhere else it is corruption.
		if f.torn && i < len(o.segs)-1 {
			o.corrupt++
		}
	}
	counts, _ := os.ReadFile(filepath.Join(o.dir, slotsName))
	for _, b := range open {
		o.lost = append(o.lost, b.lostRow(countOf(counts, b.slot, b.tag), o.lastWrite))
	}
	slices.SortFunc(o.lost, func(a, b usage.Row) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
	for i := range o.lost {
		o.totals.add(&o.lost[i], o.lost[i].Charged())
	}
	_, err = os.Stat(filepath.Join(o.dir, countedName))
	o.counted = err == nil
}

func (o *orphan) scanSegment(f *frames, open map[string]begun) {
	for body, _, ok := f.next(); ok; body, _, ok = f.next() {
		if len(body) == 0 {
			o.corrupt++
			continue
		}
		var err error
		switch kind(body[0]) {
		case kindBegun:
			var b begun
			if b, err = decodeBegun(body[1:]); err == nil {
				open[b.ID] = b
			}
		case kindEnded:
			var r ended
			if r, err = decodeRow(body[1:]); err == nil {
				delete(open, r.ID)
				o.rows = max(o.rows+1, r.position)
				o.totals.raise(&r)
			}
		}
		if err != nil {
			o.corrupt++
		}
	}
}

func (o *orphan) read(id uint64) (*frames, error) {
	b, err := os.ReadFile(filepath.Join(o.dir, segmentName(id)))
	return &frames{rest: b}, err
}

// remove deletes the folder after its rows were sent. A folder with an unreadable file is renamed
// and kept for the operator.
func (o *orphan) remove() {
	if o.unreadable {
		_ = os.Rename(o.dir, filepath.Join(filepath.Dir(o.dir), "unread-"+filepath.Base(o.dir)))
		return
	}
	_ = removeFolder(o.dir)
}

// lostRow returns the row of a request that had not ended when its process died.
func (b *begun) lostRow(delivered int64, died time.Time) usage.Row {
	r := usage.Row{ID: b.ID, Node: b.Node, Key: b.Key, Team: b.Team, Org: b.Org, Began: b.Began, Took: max(0, died.Sub(b.Began)),
		Endpoint: b.Endpoint, Dialect: b.Dialect, Model: b.Model, Target: b.Target, Stream: b.Stream, Outcome: usage.Lost, Client: b.Client, Labels: b.Labels}
	r.Usage, r.Estimated, r.Cost = usage.Charge(usage.Facts{Outcome: usage.Lost, Prompt: b.Prompt, Delivered: delivered, Price: b.Price})
	return r
}
