package access

import (
	"context"
	"errors"
	"fmt"
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
	absentTime    = time.Second     // that an id is taken not to exist
	absentMost    = 8192            // such ids, twice over
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
	if d.missing.has(id, now) {
		return nil, nil
	}
	// Who tries keys does not get to keep the store busy.
	if wait := d.wrong.wait(address(r), now); wait > 0 {
		return nil, errTooManyWrong(wait)
	}
	return d.await(r.Context(), strings.Clone(id)) // or the id would hold the secret beside it in memory
}

// await waits for the source's answer, together with all others who ask for the
// same key.
func (d *Directory) await(ctx context.Context, id string) (*entry, *llm.Error) {
	answer := d.flights.DoChan(id, func() (any, error) { return d.ask(id) })
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
func (d *Directory) ask(id string) (*entry, error) {
	timer := time.NewTimer(lookupWait)
	defer timer.Stop()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-timer.C:
		return nil, errBusy
	}
	t := d.table.Load()
	if e := t.find(id); e != nil { // another flight has just landed
		return e, nil
	}
	if d.missing.has(id, time.Now()) {
		return nil, ErrUnknown
	}
	began := t.mark()
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	record, err := d.o.Source.Key(ctx, id)
	switch {
	case errors.Is(err, ErrUnknown):
		d.missing.add(id, time.Now())
		return nil, ErrUnknown
	case err != nil:
		return nil, err
	case record.ID != id:
		return nil, fmt.Errorf("the store was asked for one key and answered with another")
	}
	return t.learn(record, began), nil
}

// absent are the ids that the source has just said it does not have. They need not
// be removed when the feed brings one: keys in memory are looked at first.
type absent struct {
	mu    sync.Mutex
	until recent[string, time.Time]
}

func newAbsent() absent { return absent{until: newRecent[string, time.Time](absentMost)} }

func (a *absent) has(id string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.until.get(id)
	return ok && now.Before(until)
}

func (a *absent) add(id string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until.put(id, now.Add(absentTime))
}
