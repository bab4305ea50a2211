package access

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// entry is a key in memory, prepared so that a check allocates nothing. It is immutable; a changed
// record is a new entry.
type entry struct {
	record       Record
	caller       Caller
	networks     []netip.Prefix
	recentlyUsed atomic.Bool // since the last search for a key to evict
	// unconfirmed is true if the record is newer than the table's cursor. If the store is set back to the cursor,
	// no change follows that removes the record. So it is looked up again until the changes have it.
	unconfirmed bool
}

func newEntry(r Record) *entry {
	e := &entry{record: r}
	e.caller = newCaller(&e.record)
	for _, n := range r.Networks {
		e.networks = append(e.networks, unmapPrefix(n))
	}
	return e
}

// unmapPrefix returns the IPv4 form of an IPv4-mapped IPv6 network.
func unmapPrefix(n netip.Prefix) netip.Prefix {
	if a := n.Addr(); a.Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), n.Bits()-96)
	}
	return n
}

// allowsAddress reports whether the key may be used from an address.
func (e *entry) allowsAddress(from netip.Addr) bool {
	if len(e.record.Networks) == 0 {
		return true
	}
	for _, n := range e.networks {
		if n.Contains(from) {
			return true
		}
	}
	return false
}

// maxBytes is the maximum size of the keys in memory. A key may have lists of up to 64 KiB.
const maxBytes = 256 << 20

// size returns about how many bytes an entry uses.
func (e *entry) size() int64 {
	r := &e.record
	n := 2048 + len(r.ID) + len(r.Name) + len(r.Org) + len(r.Team) + len(r.Role) + len(r.Criticality) + len(r.SCIMName) + 64*len(r.Networks) + 64*len(r.Digests)
	for _, list := range [][]string{r.Models, r.Endpoints} {
		for _, text := range list {
			n += 16 + len(text)
		}
	}
	return int64(n)
}

// table holds the keys in memory. Reads take no lock.
type table struct {
	maxKeys int
	bytes   int64    // of the entries, about
	entries sync.Map // id to *entry
	tenants sync.Map // tenantKey to *Tenant: changes since the table was created
	cursor  atomic.Pointer[Cursor]
	size    atomic.Int64
	// previous has the keys from before a reset until the reset is complete.
	previous atomic.Pointer[table]
	changes  atomic.Int64 // counts changes of entries and tenants, for the snapshot
	changed  atomic.Int64 // revision of the newest of tenants

	mu      sync.Mutex // held by writers
	evicted int64
	org     string      // of the first client key
	several atomic.Bool // client keys of several organisations have been seen
}

func newTable(most int) *table {
	t := &table{maxKeys: most}
	t.cursor.Store(&Cursor{})
	return t
}

// tenantKey identifies a team or, without Team, an organisation.
type tenantKey struct{ Org, Team string }

// find returns a key with the limits that its team and organisation have now.
func (t *table) find(id string) *entry {
	v, ok := t.entries.Load(id)
	if !ok {
		return nil
	}
	e, _ := v.(*entry)
	if t.changed.Load() <= e.record.Revision {
		return e
	}
	return t.update(e)
}

// update applies the newest changes of a key's team and organisation. The key itself has not changed.
func (t *table) update(e *entry) *entry {
	r := e.record
	t.applyTenants(&r)
	newer := newEntry(r)
	newer.recentlyUsed.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.put(newer, *t.cursor.Load())
}

// applyTenants changes a record to the state of its team and organisation, as of the newest change.
func (t *table) applyTenants(r *Record) {
	newest := t.changed.Load()
	for _, k := range [2]tenantKey{{r.Org, ""}, {r.Org, r.Team}} {
		v, _ := t.tenants.Load(k)
		if n, _ := v.(*Tenant); n != nil && n.Revision > r.Revision {
			n.apply(r)
		}
	}
	r.Revision = max(r.Revision, newest)
}

// mark is a point in the table's history.
type mark struct {
	cursor  Cursor
	evicted int64
}

func (t *table) mark() mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return mark{*t.cursor.Load(), t.evicted}
}

// apply adds a page of changes and advances the cursor.
func (t *table) apply(c Changes) {
	entries := make([]*entry, len(c.Records))
	for i := range c.Records {
		entries[i] = newEntry(c.Records[i])
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		t.put(e, c.Next)
	}
	for i := range c.Tenants {
		n := &c.Tenants[i]
		if n.Revision > c.Next.Revision && !n.Blocked { // it comes again
			continue
		}
		v, _ := t.tenants.Load(tenantKey{n.Org, n.Team})
		if old, _ := v.(*Tenant); old != nil && old.Revision > n.Revision { // a part of the history has come again
			continue
		}
		t.tenants.Store(tenantKey{n.Org, n.Team}, n)
		t.changed.Store(max(t.changed.Load(), n.Revision))
		t.changes.Add(1)
	}
	t.cursor.Store(&c.Next)
}

// refuse applies refusals that are newer than a snapshot. A revoked key remains revoked,
// whatever the revision: a restored store may count from a lower one. The cursor stays, so
// that other changes are read from the store.
func (t *table) refuse(c Changes) {
	for i := range c.Records {
		r := &c.Records[i]
		if e := t.find(r.ID); e != nil && !r.Revoked.IsZero() {
			r.Revision = max(r.Revision, e.record.Revision+1)
		}
	}
	c.Next = *t.cursor.Load()
	t.apply(c)
}

// accepts reports whether a key is known and neither revoked nor blocked.
func (t *table) accepts(id string) bool {
	e := t.find(id)
	return e != nil && !e.refused()
}

// refused reports whether the key is revoked or blocked.
func (e *entry) refused() bool { return !e.record.Revoked.IsZero() || e.record.Blocked() }

// isDoubtful reports whether the key is accepted by a record that the store may no longer have.
func (e *entry) isDoubtful() bool { return e.unconfirmed && !e.refused() }

// isFull reports whether another key would evict one.
func (t *table) isFull() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size.Load() >= int64(t.maxKeys) || t.bytes > maxBytes-maxBytes/16
}

// ids returns the ids of all known keys.
func (t *table) ids() []string {
	ids := make([]string, 0, t.size.Load())
	t.entries.Range(func(id, _ any) bool {
		text, _ := id.(string)
		ids = append(ids, text)
		return true
	})
	return ids
}

// addLookup adds the result of a lookup that began at a mark, and returns the entry to use. If a
// change may have arrived and been evicted meanwhile, the result may be outdated: it is used once
// and not kept.
func (t *table) addLookup(r Record, began mark) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := newEntry(r)
	if _, ok := t.entries.Load(r.ID); !ok && began.cursor != *t.cursor.Load() && began.evicted != t.evicted {
		return e
	}
	return t.put(e, *t.cursor.Load())
}

// put stores an entry unless a newer one exists, and returns the stored one. All changes up to the cursor are known.
func (t *table) put(e *entry, known Cursor) *entry {
	e.unconfirmed = e.record.Revision > known.Revision
	v, _ := t.entries.Load(e.record.ID)
	old, _ := v.(*entry)
	confirms := old != nil && !e.unconfirmed && (old.isDoubtful() || old.unconfirmed && old.record.Revision == e.record.Revision)
	if old != nil && old.record.Revision >= e.record.Revision && !confirms {
		return old
	}
	if old == nil {
		t.size.Add(1)
	} else {
		t.bytes -= old.size()
	}
	t.bytes += e.size()
	if r := &e.record; r.Role == "" && t.org == "" {
		t.org = r.Org
	} else if r.Role == "" && t.org != r.Org {
		t.several.Store(true)
	}
	t.entries.Store(e.record.ID, e)
	for t.size.Load() > int64(t.maxKeys) || t.bytes > maxBytes && t.size.Load() > 1 {
		t.evict()
	}
	t.changes.Add(1)
	return e
}

// forget removes a doubtful entry that the store does not have.
func (t *table) forget(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e != nil && e.isDoubtful() && t.entries.CompareAndDelete(e.record.ID, e) {
		t.size.Add(-1)
		t.bytes -= e.size()
		t.changes.Add(1)
	}
}

// evict removes the first key that was not used since the last search, or the 64th.
func (t *table) evict() {
	tries := 0
	t.entries.Range(func(id, v any) bool {
		tries++
		if e, ok := v.(*entry); ok && e.recentlyUsed.Swap(false) && tries < 64 {
			return true
		}
		t.entries.Delete(id)
		t.size.Add(-1)
		t.evicted++
		if e, ok := v.(*entry); ok {
			t.bytes -= e.size()
		}
		return false
	})
}

// records returns all known records. They may be newer than a cursor that was read before.
func (t *table) records() []Record {
	out := make([]Record, 0, t.size.Load())
	t.entries.Range(func(_, v any) bool {
		if e, ok := v.(*entry); ok {
			r := e.record
			t.applyTenants(&r)
			out = append(out, r)
		}
		return true
	})
	return out
}
