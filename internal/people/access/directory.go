package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/isogloss-gateway/isogloss/internal/base/recent"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Source is the store of keys. Records include the limits of team and organisation.
type Source interface {
	// Key returns the record of an id, or ErrUnknown if it certainly does not exist.
	Key(ctx context.Context, id string) (Record, error)
	// KeysByID returns the records of the ids that exist.
	KeysByID(ctx context.Context, ids []string) ([]Record, error)
	// KeysAfter returns up to limit records with higher ids, ordered by id.
	KeysAfter(ctx context.Context, id string, limit int) ([]Record, error)
	// Changes returns what has changed since a cursor, oldest change first.
	Changes(ctx context.Context, since Cursor, limit int) (Changes, error)
	// SavePerson creates or changes the account of a person and returns it. A revoked account
	// stays revoked.
	SavePerson(ctx context.Context, r Record) (Record, error)
	// SCIMGroups returns the groups of the SCIM users with a name.
	SCIMGroups(ctx context.Context, name string) ([]SCIMGroup, error)
}

// Cursor is a point in the history of a store. The zero Cursor is in no history.
type Cursor struct {
	Revision int64
	Mark     string // tells histories apart: a restored store has other marks from then on
}

// Changes is a part of a store's history.
type Changes struct {
	Records []Record // keys; a key may have changed again since
	Tenants []Tenant // teams and organisations
	Groups  bool     // users or groups of SCIM have changed
	Next    Cursor   // where the next part begins
	More    bool     // there are more changes now
	Reset   bool     // the store's history is not that of the cursor: everything may have changed
}

// DirectoryOptions configure a Directory.
type DirectoryOptions struct {
	Source   Source
	Peppers  Peppers
	Snapshot string        // file with known keys, for a start without the store; empty: none
	Stale    time.Duration // how long known keys are accepted while the store is down; default: 24 h
	MaxKeys  int           // max keys in memory; default: 100,000; others are looked up again
	Logger   *slog.Logger  // nil: none
}

// Directory holds the keys of a store. Checking a known key takes no lock and makes no query.
type Directory struct {
	o         DirectoryOptions
	table     atomic.Pointer[table]
	refusals  *refusals
	decoy     *entry // compared with the secret if the id does not exist
	wrongKeys *Failures

	flights       singleflight.Group
	slots         chan struct{}       // limits concurrent queries
	recentLookups *recent.Set[string] // ids for which the source had nothing new; memory is checked first, so they need not be removed when a change comes
	newest        newestTokens
	groups        groupCache

	feedMu    sync.Mutex // held while changes are read
	loading   chan loadJob
	startedAt time.Time
	lastSync  atomic.Int64 // when all changes were known, as time since startedAt
	synced    atomic.Bool  // all changes were known once, in this process or in the snapshot's
	lastError atomic.Pointer[string]
}

// NewDirectory returns a directory with the keys of the snapshot. Run follows the store.
func NewDirectory(o DirectoryOptions) *Directory {
	if o.Stale == 0 {
		o.Stale = 24 * time.Hour
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = 100_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Directory{o: o, wrongKeys: NewFailures(), slots: make(chan struct{}, maxLookups), recentLookups: recent.NewSet[string](maxRecentLookups, lookupTTL), loading: make(chan loadJob, 1), startedAt: time.Now()}
	decoy := Digest{Pepper: o.Peppers.Newest()}
	_, _ = rand.Read(decoy.Sum[:]) // never fails
	d.decoy = newEntry(Record{Digests: []Digest{decoy}})
	d.table.Store(newTable(o.MaxKeys))
	d.refusals = newRefusals(&d.o)
	d.restore()
	return d
}

// Shared reports whether several organisations have keys.
func (d *Directory) Shared() bool { return d.table.Load().several.Load() }

// Check authenticates a client.
func (d *Directory) Check(r *http.Request) (Caller, *llm.Error) {
	text := agents.Key(r)
	id, sec, minted := Parse(text)
	if !minted {
		return Caller{}, d.wrongKeys.reject(r, text, time.Now())
	}
	e, err := d.authenticate(r, id, sec)
	if err == nil {
		var c Caller
		if c, err = d.callerOf(r, e, time.Now()); err == nil {
			return c, nil
		}
	}
	return Caller{Claimed: strings.Clone(id)}, err // a substring would keep the secret in memory
}

// Owner returns the record of a key that is in memory, and whether there is one.
func (d *Directory) Owner(id string) (r Record, known bool) {
	if id == "" {
		return r, false
	}
	if e := d.table.Load().find(id); e != nil {
		return e.record, true
	}
	return r, false
}

// Operator authenticates an operator of the admin API. Keys of the configuration file are not
// operators'.
func (d *Directory) Operator(r *http.Request) (Record, *llm.Error) {
	text := agents.Key(r)
	id, sec, minted := Parse(text)
	if !minted {
		return Record{}, d.wrongKeys.reject(r, text, time.Now())
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

// authenticate finds the key of a request and checks it. It checks the secret first, so that nobody
// without it learns anything about the key.
func (d *Directory) authenticate(r *http.Request, id string, sec secret.String) (*entry, *llm.Error) {
	now := time.Now()
	if age := d.age(now); age > d.o.Stale {
		return nil, errUnavailable("the gateway cannot reach its store of keys, and the keys it knows are too old; try again later", nil)
	}
	e, err := d.lookup(r, id, now)
	against := e
	if e == nil {
		against = d.decoy
	}
	found := d.o.Peppers.check(id, sec, against.record.Digests, now)
	if e != nil && found == noMatch {
		if newer := d.lookupNewer(r, e, now); newer != e {
			e, found = newer, d.o.Peppers.check(id, sec, newer.record.Digests, now)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case e == nil || found == noMatch:
		return nil, d.wrongKeys.reject(r, id, now)
	case found == matchExpired:
		return nil, errRotated()
	}
	return e, e.check(r, now)
}

// check returns why a key with the correct secret is rejected, nil if it is not.
func (e *entry) check(r *http.Request, now time.Time) *llm.Error {
	switch {
	case !e.record.Revoked.IsZero(): // even with a future time: nodes' clocks differ
		return errRevoked()
	case isPast(e.record.Expires, now):
		return errExpired()
	case e.record.Blocked():
		return errBlocked()
	case len(e.record.Networks) > 0 && !e.allowsAddress(address(r)):
		return errAddress()
	}
	return nil
}

// Peer returns the client's address without the port, as text.
func Peer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// address returns the client's address: the peer of the connection, or what a trusted proxy says of it,
// which the ingress has written into the request. If it is not an IP address, the result is the zero Addr, which is in no network.
func address(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}

func (d *Directory) age(now time.Time) time.Duration {
	return now.Sub(d.startedAt) - time.Duration(d.lastSync.Load())
}

// Ready returns nil if the directory can distinguish valid from invalid keys, or else the reason.
func (d *Directory) Ready() error {
	if !d.synced.Load() {
		why := "not queried yet"
		if t := d.lastError.Load(); t != nil {
			why = *t
		}
		if d.o.Snapshot == "" {
			return fmt.Errorf("no key is known: the store of keys does not respond (%s); start it or fix its address", why)
		}
		return fmt.Errorf("no key is known: the store of keys does not respond (%s), and there is no snapshot in %s; start the store or fix its address", why, d.o.Snapshot)
	}
	if age := d.age(time.Now()); age > d.o.Stale {
		return fmt.Errorf("the store of keys was last reached %s ago, and known keys are accepted for %s; start the store or fix its address", age.Round(time.Second), d.o.Stale)
	}
	return nil
}

// State is the state of a directory, for metrics.
type State struct {
	Known    int           // keys in memory
	Lookups  int           // queries in flight
	Revision int64         // up to which changes are known
	Age      time.Duration // since all changes were known
	Stale    bool          // Age is too high: keys of the store are rejected
}

// Snapshot returns the current state.
func (d *Directory) Snapshot() State {
	t, age := d.table.Load(), d.age(time.Now())
	return State{Known: int(t.size.Load()), Lookups: len(d.slots), Revision: t.cursor.Load().Revision, Age: age, Stale: age > d.o.Stale}
}

// errBusy reports a query that took too long to start.
var errBusy = errors.New("too many keys are being looked up")
