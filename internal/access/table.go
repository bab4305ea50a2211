package access

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// entry is a key as the directory holds it, made ready so that a check makes
// nothing. It is never changed; a changed record is another entry.
type entry struct {
	record   Record
	caller   Caller
	networks []netip.Prefix
	used     atomic.Bool // since the last search for one to give up
}

func newEntry(r Record) *entry {
	e := &entry{record: r}
	e.caller = newCaller(&e.record)
	for _, n := range r.Networks {
		e.networks = append(e.networks, plain(n))
	}
	return e
}

// plain is a network of IPv4 also where it was written in the form of IPv6.
func plain(n netip.Prefix) netip.Prefix {
	if a := n.Addr(); a.Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), n.Bits()-96)
	}
	return n
}

// allows reports whether the key may be used from an address.
func (e *entry) allows(from netip.Addr) bool {
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

// table is the keys in memory. Reads take no lock.
type table struct {
	most    int
	entries sync.Map // id to *entry
	cursor  atomic.Int64
	size    atomic.Int64
	changes atomic.Int64 // of entries, so that a snapshot is written when there were some

	mu      sync.Mutex // held by whoever writes
	givenUp int64
}

func newTable(most int) *table { return &table{most: most} }

func (t *table) find(id string) *entry {
	v, ok := t.entries.Load(id)
	if !ok {
		return nil
	}
	e, _ := v.(*entry)
	return e
}

// mark is a point in the table's history.
type mark struct{ cursor, givenUp int64 }

func (t *table) mark() mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return mark{t.cursor.Load(), t.givenUp}
}

// apply takes a page of changes, and with them the cursor.
func (t *table) apply(records []Record, next int64) {
	entries := make([]*entry, len(records))
	for i := range records {
		entries[i] = newEntry(records[i])
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		t.put(e)
	}
	t.cursor.Store(next)
}

// learn takes the answer to a lookup that began at a mark, and returns what is to be
// used. A change may have come and been given up again in the meantime; the answer is
// older then, and kept it would stay wrong, so it serves this once.
func (t *table) learn(r Record, began mark) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := newEntry(r)
	if t.find(r.ID) == nil && began.cursor != t.cursor.Load() && began.givenUp != t.givenUp {
		return e
	}
	return t.put(e)
}

// put keeps an entry unless a newer one is there, and returns the one that is kept.
func (t *table) put(e *entry) *entry {
	old := t.find(e.record.ID)
	if old != nil && old.record.Revision >= e.record.Revision {
		return old
	}
	if old == nil {
		if t.size.Load() >= int64(t.most) {
			t.giveUp()
		}
		t.size.Add(1)
	}
	t.entries.Store(e.record.ID, e)
	t.changes.Add(1)
	return e
}

// giveUp makes room: the first key goes that was not used since the last time it was
// asked. After some that were, one of them goes, so that the search is short.
func (t *table) giveUp() {
	tries := 0
	t.entries.Range(func(id, v any) bool {
		tries++
		if e, ok := v.(*entry); ok && e.used.Swap(false) && tries < 64 {
			return true
		}
		t.entries.Delete(id)
		t.size.Add(-1)
		t.givenUp++
		return false
	})
}

// records are all that is known. They may be newer than a cursor read before.
func (t *table) records() []Record {
	out := make([]Record, 0, t.size.Load())
	t.entries.Range(func(_, v any) bool {
		if e, ok := v.(*entry); ok {
			out = append(out, e.record)
		}
		return true
	})
	return out
}
