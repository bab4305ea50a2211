package access

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	maxLookups       = 16              // concurrent queries
	lookupTimeout    = 2 * time.Second // of a query
	lookupWait       = time.Second     // how long a request waits for a query
	lookupTTL        = time.Second     // during which an id is not queried again
	maxRecentLookups = 8192            // ids in each of two generations

	noRevision = -1 // revision of a key that is not in memory
)

// lookup finds a key in memory or, if it was never seen, in the source. It returns nil without an
// error if the key certainly does not exist.
func (d *Directory) lookup(r *http.Request, id string, now time.Time) (*entry, *llm.Error) {
	e := d.table.Load().find(id)
	if e != nil && (!e.isDoubtful() || d.recentLookups.Has(id, now)) {
		if !e.recentlyUsed.Load() { // avoid writing to a shared cache line
			e.recentlyUsed.Store(true)
		}
		return e, nil
	}
	if e != nil {
		again, err := d.lookupAgain(r, e, e.record.Revision)
		if again == e { // nothing new, or no response
			d.recentLookups.Add(e.record.ID, time.Now())
		}
		return again, err
	}
	if d.recentLookups.Has(id, now) {
		return nil, nil
	}
	if previous := d.table.Load().previous.Load(); previous != nil {
		if old := previous.find(id); old != nil {
			return d.lookupAgain(r, old, noRevision)
		}
	}
	// A client that guesses keys must not load the store.
	if wait := d.wrongKeys.wait(address(r), now); wait > 0 {
		return nil, errTooManyWrong(wait)
	}
	return d.waitForLookup(r.Context(), strings.Clone(id), noRevision) // a substring would keep the secret in memory
}

// lookupAgain queries the source for a key that is doubtful or was known before a reset. If the source
// does not respond, it returns the old entry.
func (d *Directory) lookupAgain(r *http.Request, old *entry, known int64) (*entry, *llm.Error) {
	e, err := d.waitForLookup(r.Context(), old.record.ID, known)
	if err != nil && err.Kind != llm.Cancelled {
		return old, nil
	}
	return e, err
}

// lookupNewer queries the source for a newer record of a key whose secret did not match: another
// node may have just rotated it. If the source does not respond, it returns e.
func (d *Directory) lookupNewer(r *http.Request, e *entry, now time.Time) *entry {
	if d.recentLookups.Has(e.record.ID, now) || d.wrongKeys.wait(address(r), now) > 0 {
		return e
	}
	newer, err := d.waitForLookup(r.Context(), e.record.ID, e.record.Revision)
	if err != nil || newer == nil {
		d.recentLookups.Add(e.record.ID, time.Now())
		return e
	}
	return newer
}

// waitForLookup waits for the source. Concurrent requests for a key share a query. known is the
// revision in memory.
func (d *Directory) waitForLookup(ctx context.Context, id string, known int64) (*entry, *llm.Error) {
	answer := d.flights.DoChan(id, func() (any, error) { return d.querySource(id, known) })
	timer := time.NewTimer(lookupWait)
	defer timer.Stop()
	select {
	case got := <-answer:
		e, _ := got.Val.(*entry)
		switch {
		case got.Err == nil:
			return e, nil
		case errors.Is(got.Err, ErrUnknown):
			return nil, nil
		}
		return nil, errUnavailable("the gateway's store of keys is not available; try again", got.Err)
	case <-timer.C:
		return nil, errUnavailable("the gateway's store of keys is slow; try again", errBusy)
	case <-ctx.Done():
		return nil, &llm.Error{Kind: llm.Cancelled, Message: "the client disconnected", Cause: ctx.Err()}
	}
}

// querySource queries the source when a slot is free. It continues after the waiting requests have
// gone, for the benefit of the next one.
func (d *Directory) querySource(id string, known int64) (*entry, error) {
	timer := time.NewTimer(lookupWait)
	defer timer.Stop()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-timer.C:
		return nil, errBusy
	}
	t := d.table.Load()
	e := t.find(id)
	if e != nil && e.record.Revision > known { // another query or the feed was faster
		return e, nil
	}
	if d.recentLookups.Has(id, time.Now()) {
		return entryOrUnknown(e)
	}
	began := t.mark()
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	record, err := d.o.Source.Key(ctx, id)
	switch {
	case errors.Is(err, ErrUnknown):
		t.forget(e)
		d.recentLookups.Add(id, time.Now())
		return nil, ErrUnknown
	case err != nil:
		return nil, err
	case record.ID != id:
		return nil, errors.New("the store returned another key than requested")
	}
	if record.Revision <= known {
		d.recentLookups.Add(id, time.Now())
	}
	defer d.noteRefused(t, record)()
	return t.addLookup(record, began), nil
}

func entryOrUnknown(e *entry) (*entry, error) {
	if e == nil {
		return nil, ErrUnknown
	}
	return e, nil
}
