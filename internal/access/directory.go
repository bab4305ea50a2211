package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/isogloss-gateway/isogloss/internal/secret"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Source is the store that keys are in. Its answers are joined records.
type Source interface {
	// Key is the record of an id, or ErrUnknown where it is certain that there is none.
	Key(ctx context.Context, id string) (Record, error)
	// Changes are the records that changed after a revision, oldest change first, and
	// the revision to ask from the next time. Fewer than limit: there are no more now.
	Changes(ctx context.Context, since int64, limit int) (records []Record, next int64, err error)
}

// DirectoryOptions are what a directory works with.
type DirectoryOptions struct {
	Source   Source
	Peppers  Peppers
	Snapshot string        // file that keys are kept in for a start without the store; empty: none
	Stale    time.Duration // how long known keys are served with the store away; 0 is 24 hours
	Most     int           // keys in memory; 0 is 100,000. What is over that is asked for again
	Logger   *slog.Logger  // nil: nothing is logged
}

// Directory knows the keys of a store. Checks of keys that it has seen take no lock
// and ask nobody.
type Directory struct {
	o      DirectoryOptions
	table  atomic.Pointer[table]
	nobody *entry // what an id that does not exist is compared with
	wrong  *wrongKeys

	flights singleflight.Group
	slots   chan struct{} // one for each question to the source
	asked   asked

	feed     sync.Mutex // held while changes are read
	restored bool       // the table came from the snapshot
	began    time.Time
	contact  atomic.Int64 // when all changes were last known, as time since began
	heard    atomic.Bool  // there was such a time, here or in the snapshot's process
	trouble  atomic.Pointer[string]
}

// NewDirectory returns a directory that knows what the snapshot knows. Call Run to
// follow the store.
func NewDirectory(o DirectoryOptions) *Directory {
	if o.Stale == 0 {
		o.Stale = 24 * time.Hour
	}
	if o.Most == 0 {
		o.Most = 100_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Directory{o: o, wrong: newWrongKeys(), slots: make(chan struct{}, lookupsAtOnce), asked: newAsked(), began: time.Now()}
	decoy := Digest{Pepper: o.Peppers.Newest()}
	_, _ = rand.Read(decoy.Sum[:]) // it never fails: it ends the process instead
	d.nobody = newEntry(Record{Digests: []Digest{decoy}})
	d.table.Store(newTable(o.Most))
	d.restore()
	return d
}

// Check says which client sends a request, or why it is not admitted.
func (d *Directory) Check(r *http.Request) (Caller, *llm.Error) {
	text := presented(r)
	id, sec, minted := Parse(text)
	if !minted {
		return Caller{}, d.refuse(r, text, time.Now())
	}
	e, err := d.authenticate(r, id, sec)
	if err != nil {
		return Caller{}, err
	}
	if e.record.Role != "" {
		return Caller{}, errOperatorKey()
	}
	return e.caller, nil
}

// Operator says which operator sends a request to the admin API, or why it is not
// admitted. Keys of the configuration file are clients'.
func (d *Directory) Operator(r *http.Request) (Record, *llm.Error) {
	text := presented(r)
	id, sec, minted := Parse(text)
	if !minted {
		return Record{}, d.refuse(r, text, time.Now())
	}
	e, err := d.authenticate(r, id, sec)
	if err != nil {
		return Record{}, err
	}
	if !e.record.Role.valid() {
		return Record{}, errClientKey()
	}
	return e.record, nil
}

// authenticate finds the key of a request and holds it against what the request
// shows. The secret comes first: who does not have it learns nothing of the key.
func (d *Directory) authenticate(r *http.Request, id string, sec secret.String) (*entry, *llm.Error) {
	now := time.Now()
	if age := d.age(now); age > d.o.Stale {
		return nil, errUnsure("the gateway cannot reach its store of keys, and what it knows is too old; try again later", nil)
	}
	e, err := d.lookup(r, id, now)
	against := e
	if e == nil {
		against = d.nobody
	}
	found := d.o.Peppers.check(id, sec, against.record.Digests, now)
	if e != nil && found == wrong {
		if newer := d.again(r, e, now); newer != e {
			e, found = newer, d.o.Peppers.check(id, sec, newer.record.Digests, now)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case e == nil || found == wrong:
		return nil, d.refuse(r, id, now)
	case found == outworn:
		return nil, errRotated()
	}
	return e, e.refusal(r, now)
}

// refusal is why a key is not admitted though its secret is right.
func (e *entry) refusal(r *http.Request, now time.Time) *llm.Error {
	switch {
	case !e.record.Revoked.IsZero(): // also with a time to come: nodes' clocks differ
		return errRevoked()
	case past(e.record.Expires, now):
		return errExpired()
	case e.record.Blocked:
		return errBlocked()
	case len(e.record.Networks) > 0 && !e.allows(address(r)):
		return errAddress()
	}
	return nil
}

// refuse answers a wrong key, and counts it. One that was not sent is not wrong.
func (d *Directory) refuse(r *http.Request, sent string, now time.Time) *llm.Error {
	if sent == "" {
		return errNoKey()
	}
	if wait := d.wrong.add(address(r), now); wait > 0 {
		return errTooManyWrong(wait)
	}
	return errWrongKey()
}

// address is where a request comes from: the other end of the connection, and never
// what a header says. It is the zero Addr where that is no IP address, which is in no
// network.
func address(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}

func (d *Directory) age(now time.Time) time.Duration {
	return now.Sub(d.began) - time.Duration(d.contact.Load())
}

// Ready says why the directory cannot tell good keys from bad ones; nil is that it
// can.
func (d *Directory) Ready() error {
	if !d.heard.Load() {
		why := "it was not asked yet"
		if t := d.trouble.Load(); t != nil {
			why = *t
		}
		if d.o.Snapshot == "" {
			return fmt.Errorf("no key is known: the store of keys did not answer (%s); start it or mend its address", why)
		}
		return fmt.Errorf("no key is known: the store of keys did not answer (%s), and there is no snapshot to go on with in %s; start the store or mend its address", why, d.o.Snapshot)
	}
	if age := d.age(time.Now()); age > d.o.Stale {
		return fmt.Errorf("the store of keys was last reached %s ago, and what is known serves for %s; start the store or mend its address", age.Round(time.Second), d.o.Stale)
	}
	return nil
}

// State is a directory at one moment, for metrics.
type State struct {
	Known    int           // keys in memory
	Lookups  int           // questions to the store that are open
	Revision int64         // up to which changes are known
	Age      time.Duration // since all changes were known
	Stale    bool          // that is too long: no key of the store is served
}

// Snapshot is the directory as it is now.
func (d *Directory) Snapshot() State {
	t, age := d.table.Load(), d.age(time.Now())
	return State{Known: int(t.size.Load()), Lookups: len(d.slots), Revision: t.cursor.Load(), Age: age, Stale: age > d.o.Stale}
}

// errBusy is an answer that did not come in time.
var errBusy = errors.New("too many keys are being looked up")
