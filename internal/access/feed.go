package access

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	pollEvery = time.Second // and up to a fifth less, so that nodes do not ask together
	pageSize  = 1000
	saveEvery = 10 * time.Second
)

// Run follows the store's changes until ctx ends, and keeps the snapshot. A change is
// known here within a second and the time that two questions take.
func (d *Directory) Run(ctx context.Context) {
	var others sync.WaitGroup
	s := &saver{d: d}
	others.Go(func() { s.run(ctx) })
	down, checked := false, !d.restored
	for ctx.Err() == nil {
		err := d.Refresh(ctx)
		down = d.note(ctx, err, down)
		if err == nil && !checked {
			checked = true
			others.Go(func() { d.reload(ctx) })
		}
		pause(ctx, pollEvery-rand.N(pollEvery/5)) //nolint:gosec // not for secrets
	}
	others.Wait()
	s.save()
}

// note logs when the store goes away and when it comes back, once each.
func (d *Directory) note(ctx context.Context, err error, down bool) bool {
	switch {
	case ctx.Err() != nil:
		return down
	case err != nil && !down:
		d.o.Logger.Warn("the store of keys does not answer; known keys are served", "error", err, "age", d.age(time.Now()).String(), "stale", d.o.Stale.String())
	case err == nil && down:
		d.o.Logger.Info("the store of keys answers again", "known", d.Snapshot().Known)
	}
	return err != nil
}

// Refresh reads all changes that there are. Run does so every second; at a start
// without a snapshot call it first and then ask Ready.
func (d *Directory) Refresh(ctx context.Context) error {
	d.feed.Lock()
	defer d.feed.Unlock()
	t := d.table.Load()
	for {
		began := time.Now()
		more, err := d.page(ctx, t)
		if err != nil {
			text := err.Error()
			d.trouble.Store(&text)
			return err
		}
		// In the middle of a first load all that is known is from this store and this
		// process, so that is a contact too. In the middle of any other it is not:
		// a revocation may be on the next page.
		if !more || !d.heard.Load() {
			d.contact.Store(int64(began.Sub(d.began)))
			d.heard.Store(true)
		}
		if !more {
			return nil
		}
	}
}

// page reads one page of changes into a table.
func (d *Directory) page(ctx context.Context, t *table) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	since := t.cursor.Load()
	records, next, err := d.o.Source.Changes(ctx, since, pageSize)
	switch {
	case err != nil:
		return false, err
	case len(records) >= pageSize && next <= since:
		return false, errors.New("the store's list of changes does not go on")
	}
	t.apply(records, max(next, since))
	return len(records) >= pageSize, nil
}

// reload reads all keys afresh, once after a start from a snapshot. The snapshot may
// be of another store, or of a later state of this one than was restored: then its
// revision is worth nothing, and keys are in it that should not be.
func (d *Directory) reload(ctx context.Context) {
	fresh := newTable(d.o.Most)
	for ctx.Err() == nil {
		err := d.readAll(ctx, fresh)
		if err == nil {
			err = d.replace(ctx, fresh)
		}
		if err == nil {
			return
		}
		pause(ctx, pollEvery)
	}
}

// replace puts a table in the place of the known one. What that one has learnt since
// must be in the new one first.
func (d *Directory) replace(ctx context.Context, fresh *table) error {
	d.feed.Lock()
	defer d.feed.Unlock()
	if err := d.readAll(ctx, fresh); err != nil {
		return err
	}
	if gone := d.table.Load().size.Load() - fresh.size.Load(); gone > 0 {
		d.o.Logger.Warn("the store has fewer keys than the snapshot had; the others are not served any more", "gone", gone, "known", fresh.size.Load())
	}
	d.table.Store(fresh)
	return nil
}

func (d *Directory) readAll(ctx context.Context, t *table) error {
	for {
		if more, err := d.page(ctx, t); err != nil || !more {
			return err
		}
	}
}

func pause(ctx context.Context, long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
