package access

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
)

const (
	pollInterval = time.Second // minus up to a fifth, so that nodes do not poll at the same time
	pageSize     = 1000
	saveInterval = 10 * time.Second
)

// Run follows the store's changes and saves the snapshot until ctx ends. A change is known after at
// most a second and the time of two queries.
func (d *Directory) Run(ctx context.Context) {
	var others sync.WaitGroup
	s := &saver{d: d}
	others.Go(func() { crash.Keep(ctx, d.o.Logger, func() { s.run(ctx) }) })
	others.Go(func() { crash.Keep(ctx, d.o.Logger, func() { d.loadLoop(ctx) }) })
	down := false
	for ctx.Err() == nil {
		err := crash.Try(d.o.Logger, func() error { return d.Refresh(ctx) })
		down = d.logOutage(ctx, err, down)
		sleep(ctx, pollInterval-rand.N(pollInterval/5)) //nolint:gosec // jitter
	}
	others.Wait()
	s.save()
}

// logOutage logs once when the store goes down and once when it is back.
func (d *Directory) logOutage(ctx context.Context, err error, down bool) bool {
	switch {
	case ctx.Err() != nil:
		return down
	case err != nil && !down:
		d.o.Logger.Warn("store of keys lost; known keys are accepted", "error", err, "age", d.age(time.Now()).String(), "stale", d.o.Stale.String())
	case err == nil && down:
		d.o.Logger.Info("store of keys is back", "known", d.Snapshot().Known)
	}
	return err != nil
}

// Refresh reads all pending changes. Run calls it every second. At a start without a snapshot, call
// it and then Ready.
func (d *Directory) Refresh(ctx context.Context) error {
	d.feedMu.Lock()
	defer d.feedMu.Unlock()
	for {
		began := time.Now()
		more, err := d.readChanges(ctx)
		if err != nil {
			text := err.Error()
			d.lastError.Store(&text)
			return err
		}
		if !more {
			d.lastSync.Store(int64(began.Sub(d.startedAt)))
			d.synced.Store(true)
			return nil
		}
	}
}

// readChanges reads one page of changes.
func (d *Directory) readChanges(ctx context.Context) (more bool, err error) {
	short, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	t := d.table.Load()
	since := *t.cursor.Load()
	c, err := d.o.Source.Changes(short, since, pageSize)
	switch {
	case err != nil:
		return false, err
	case c.Reset:
		d.groups.epoch.Add(1)
		return false, d.reset(ctx, c.Next)
	case c.More && c.Next.Revision <= since.Revision:
		return false, errors.New("the store's list of changes does not advance")
	}
	if c.Groups {
		d.groups.epoch.Add(1)
	}
	applied := d.refusals.add(c) // before a request can be refused
	t.apply(c)
	applied()
	return c.More, nil
}

// reset starts with an empty table: the store is another one, or was restored or set back. Its revisions
// mean nothing for what is known. Requests look up their keys until loadLoop has read all known keys
// again. Keys of the old table are used only if such a lookup fails.
func (d *Directory) reset(ctx context.Context, at Cursor) error {
	old, fresh := d.table.Load(), newTable(d.o.MaxKeys)
	if previous := old.previous.Load(); previous != nil { // the last reset is not complete
		old = previous
	}
	fresh.cursor.Store(&at)
	fresh.several.Store(old.several.Load())
	after := ""
	if old.size.Load() > 0 {
		fresh.previous.Store(old)
	} else { // the first keys now, the others in the background
		records, err := d.load(ctx, fresh, d.after(""))
		if err != nil {
			return err
		}
		if len(records) < pageSize {
			d.table.Store(fresh)
			return nil
		}
		after = records[len(records)-1].ID
	}
	d.table.Store(fresh)
	d.recentLookups.Clear()
	select {
	case <-d.loading: // for a table that is gone
	default:
	}
	d.loading <- loadJob{fresh, after}
	return nil
}

// loadJob is a table that is not complete and the last key that it has.
type loadJob struct {
	table *table
	after string
}

// loadLoop completes tables after a reset.
func (d *Directory) loadLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-d.loading:
			d.complete(ctx, job.table, job.after)
		}
	}
}

// resetSize is the number of keys per query of a reset.
const resetSize = 1000

// complete reads the keys that were known before a reset and then others, so that they work while the
// store is down.
func (d *Directory) complete(ctx context.Context, t *table, after string) {
	if old := t.previous.Load(); old != nil {
		ids := old.ids()
		gone := len(ids)
		for page := range slices.Chunk(ids, resetSize) {
			records, ok := d.loadAgain(ctx, t, func(ctx context.Context) ([]Record, error) { return d.o.Source.KeysByID(ctx, page) })
			if !ok {
				return
			}
			gone -= len(records)
		}
		t.previous.Store(nil)
		d.o.Logger.Warn("the store of keys was restored or replaced; all keys were read again", "known", t.size.Load(), "gone", gone)
	}
	for !t.isFull() {
		records, ok := d.loadAgain(ctx, t, d.after(after))
		if !ok || len(records) < pageSize {
			return
		}
		after = records[len(records)-1].ID
	}
}

// after reads a page of keys.
func (d *Directory) after(id string) func(context.Context) ([]Record, error) {
	return func(ctx context.Context) ([]Record, error) { return d.o.Source.KeysAfter(ctx, id, pageSize) }
}

// loadAgain loads keys and tries again after an error. It reports false if the table is not used any
// more.
func (d *Directory) loadAgain(ctx context.Context, t *table, read func(context.Context) ([]Record, error)) ([]Record, bool) {
	for ctx.Err() == nil && d.table.Load() == t {
		if records, err := d.load(ctx, t, read); err == nil {
			return records, true
		}
		sleep(ctx, pollInterval)
	}
	return nil, false
}

// load adds keys to a table until it is full, and returns those that were read.
func (d *Directory) load(ctx context.Context, t *table, read func(context.Context) ([]Record, error)) ([]Record, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	began := t.mark()
	records, err := read(ctx)
	if err != nil {
		return nil, err
	}
	applied := d.noteRefused(t, records...)
	for _, r := range records {
		if t.isFull() {
			break
		}
		t.addLookup(r, began)
	}
	applied()
	return records, nil
}

// noteRefused writes to the disk which records of a lookup are refused. It writes only those
// that the table, or the table before a reset, still accepts: the snapshot may, too.
func (d *Directory) noteRefused(t *table, records ...Record) (applied func()) {
	before := t.previous.Load()
	var c Changes
	for _, r := range records {
		if t.accepts(r.ID) || before != nil && before.accepts(r.ID) {
			c.Records = append(c.Records, r)
		}
	}
	return d.refusals.add(c)
}

func sleep(ctx context.Context, long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
