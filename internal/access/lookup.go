package access

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	lookupsAtOnce = 16              // questions to the source, all keys together
	lookupTime    = 2 * time.Second // for one of them
	lookupWait    = time.Second     // that a request waits for it
	askedTime     = time.Second     // that the source is not asked for an id again
	askedMost     = 8192            // such ids, twice over

	unseen = -1 // the revision of a key that is not in memory
)

// lookup finds a key: in memory, or at the source if it was never seen. It is nil
// with no error where there is certainly none.
func (d *Directory) lookup(r *http.Request, id string, now time.Time) (*entry, *llm.Error) {
	if e := d.table.Load().find(id); e != nil {
		if !e.used.Load() { // most often it is, and a store would move the line between cores
			e.used.Store(true)
		}
		return e, nil
	}
	if d.asked.lately(id, now) {
		return nil, nil
	}
	// Who tries keys does not get to keep the store busy.
	if wait := d.wrong.wait(address(r), now); wait > 0 {
		return nil, errTooManyWrong(wait)
	}
	return d.await(r.Context(), strings.Clone(id), unseen) // or the id would hold the secret beside it in memory
}

// Record is what is kept of a key: as it is in memory, or else as the source has it.
func (d *Directory) Record(ctx context.Context, id string) (Record, error) {
	if e := d.table.Load().find(id); e != nil {
		return e.record, nil
	}
	return d.o.Source.Key(ctx, id)
}

// again looks whether the source has a newer record of a key that came with a wrong
// secret: it may have been rotated a moment ago, by way of another node. Where the
// source cannot say, what is known holds.
func (d *Directory) again(r *http.Request, e *entry, now time.Time) *entry {
	if d.asked.lately(e.record.ID, now) || d.wrong.wait(address(r), now) > 0 {
		return e
	}
	newer, err := d.await(r.Context(), e.record.ID, e.record.Revision)
	if err != nil || newer == nil {
		d.asked.add(e.record.ID, time.Now())
		return e
	}
	return newer
}

// await waits for the source's answer, together with all others who ask for the
// same key. The revision is the one that is known and not enough.
func (d *Directory) await(ctx context.Context, id string, known int64) (*entry, *llm.Error) {
	answer := d.flights.DoChan(id, func() (any, error) { return d.ask(id, known) })
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
		return nil, errUnsure("the gateway cannot ask its store about this API key now; try again", got.Err)
	case <-timer.C:
		return nil, errUnsure("the gateway's store of keys is slow, and this API key is not known yet; try again", errBusy)
	case <-ctx.Done():
		return nil, &llm.Error{Kind: llm.Cancelled, Message: "the client went away", Cause: ctx.Err()}
	}
}

// ask asks the source, once it is this key's turn. It outlives the requests that wait
// for it, but not by much: what it learns is of use to the next.
func (d *Directory) ask(id string, known int64) (*entry, error) {
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
	if e != nil && e.record.Revision > known { // another flight has just landed, or the feed was faster
		return e, nil
	}
	if d.asked.lately(id, time.Now()) {
		return answerOf(e)
	}
	began := t.mark()
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	record, err := d.o.Source.Key(ctx, id)
	switch {
	case errors.Is(err, ErrUnknown):
		d.asked.add(id, time.Now())
		return nil, ErrUnknown
	case err != nil:
		return nil, err
	case record.ID != id:
		return nil, errors.New("the store was asked for one key and answered with another")
	}
	if record.Revision <= known {
		d.asked.add(id, time.Now())
	}
	return t.learn(record, began), nil
}

func answerOf(e *entry) (*entry, error) {
	if e == nil {
		return nil, ErrUnknown
	}
	return e, nil
}

// asked are the ids that the source was just asked for and had nothing new about: no
// key, or the one that is known. They need not be removed when the feed brings
// something, because keys in memory are looked at first.
type asked struct {
	mu    sync.Mutex
	until recent[string, time.Time]
}

func newAsked() asked { return asked{until: newRecent[string, time.Time](askedMost)} }

func (a *asked) lately(id string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.until.get(id)
	return ok && now.Before(until)
}

func (a *asked) add(id string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until.put(id, now.Add(askedTime))
}
