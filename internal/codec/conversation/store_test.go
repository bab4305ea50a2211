package conversation

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// checkSize checks that the store has counted its bytes right.
func (s *store) checkSize(t *testing.T) {
	t.Helper()
	total, listed := int64(0), 0
	for _, tenant := range s.tenants {
		own := int64(0)
		for at := tenant.recent.Front(); at != nil; at = at.Next() {
			own += at.Value.(*entry).size()
		}
		if own != tenant.bytes {
			t.Errorf("%d bytes of %s, counted as %d", own, tenant.name, tenant.bytes)
		}
		total, listed = total+own, listed+tenant.recent.Len()
	}
	if total != s.bytes || s.bytes > s.bounds.maxBytes || len(s.entries) != listed || len(s.entries) > s.bounds.maxEntries {
		t.Errorf("%d bytes in %d of %d entries, counted as %d, bounds %+v", total, listed, len(s.entries), s.bytes, s.bounds)
	}
}

func testKey(i int) key { return newKey("a", fmt.Sprint(i)) }

func TestStoreBounds(t *testing.T) {
	s := newStore(bounds{ttl: time.Hour, maxEntries: 100, maxValue: 1 << 10, maxBytes: 1 << 30})
	if s.put("", testKey(0), make([]byte, 1<<10+1)) || s.putOnce("", testKey(0), make([]byte, 1<<10+1)) || !s.isEmpty() {
		t.Error("a value above maxValue is stored")
	}
	for i := range 300 {
		s.put("", testKey(i), []byte("value"))
		s.get(testKey(0))
	}
	if _, ok := s.get(testKey(0)); len(s.entries) != 100 || !ok {
		t.Errorf("%d entries; the most recently used one is found: %v", len(s.entries), ok)
	}
	s.checkSize(t)
	s.setMaxBytes(16 << 10)
	for i := range 300 {
		s.put("", testKey(1000+i), []byte(strings.Repeat("y", 1<<10)))
	}
	s.checkSize(t)
	if s.bytes < 8<<10 {
		t.Errorf("only %d bytes are used", s.bytes)
	}
	s.setMaxBytes(0)
	if !s.isEmpty() || s.put("", testKey(0), []byte("value")) {
		t.Error("something is stored where maxBytes is 0")
	}
	s.checkSize(t)
}

func TestStoreTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(bounds{ttl: time.Hour, maxEntries: 100, maxValue: 1 << 10, maxBytes: 1 << 20})
		s.put("", testKey(1), []byte("used"))
		s.put("", testKey(2), []byte("unused"))
		for range 3 {
			time.Sleep(50 * time.Minute)
			if _, ok := s.get(testKey(1)); !ok {
				t.Fatal("a value that was used expired")
			}
		}
		if _, ok := s.get(testKey(2)); ok {
			t.Error("a value that was not used is found after its TTL")
		}
		s.put("", testKey(3), []byte("new"))
		if len(s.entries) != 2 {
			t.Errorf("%d entries: the expired one is still stored", len(s.entries))
		}
	})
}

func TestStoreAmbiguousKey(t *testing.T) {
	s := newStore(bounds{ttl: time.Hour, maxEntries: 100, maxValue: 1 << 10, maxBytes: 1 << 20})
	k := testKey(1)
	for range 2 {
		if !s.putOnce("", k, []byte("a")) {
			t.Error("the same value twice is ambiguous")
		}
	}
	if s.putOnce("", k, []byte("b")) || s.putOnce("", k, []byte("a")) {
		t.Error("two values are not ambiguous")
	}
	if v, ok := s.get(k); ok {
		t.Errorf("an ambiguous key finds %q", v)
	}
}

// TestStoreCopiesValues checks that a value is a copy: the caller may reuse its buffer.
func TestStoreCopiesValues(t *testing.T) {
	s := newStore(bounds{ttl: time.Hour, maxEntries: 100, maxValue: 1 << 10, maxBytes: 1 << 20})
	buf := []byte("before")
	s.put("", testKey(1), buf)
	copy(buf, "AFTER!")
	if v, _ := s.get(testKey(1)); string(v) != "before" {
		t.Errorf("%q", v)
	}
}

func TestKeysKeepTheirPartsApart(t *testing.T) {
	if newKey("ab", "c") == newKey("a", "bc") {
		t.Error("two ways to split a text have the same key")
	}
}

func TestPins(t *testing.T) {
	p := NewPins()
	alice := Caller{ID: "alice"}
	s := Session{alice, "m", 7}
	p.Set(s, "two/m")
	for other, want := range map[Session]string{s: "two/m", {Caller{ID: "bob"}, "m", 7}: "", {alice, "n", 7}: "", {alice, "m", 8}: ""} {
		if got := p.Target(other); got != want {
			t.Errorf("%+v: %q, want %q", other, got, want)
		}
	}
	p.Set(s, "one/m")
	if got := p.Target(s); got != "one/m" {
		t.Errorf("%q", got)
	}
}

// TestTenantsDoNotEvictEachOther checks that a tenant that never stops storing evicts only
// its own entries, and that a tenant without entries gets its share of a full store.
func TestTenantsDoNotEvictEachOther(t *testing.T) {
	for name, b := range map[string]bounds{
		"bytes":   {ttl: time.Hour, maxEntries: 1 << 20, maxValue: 1 << 10, maxBytes: 100 * (entryOverhead + 10)},
		"entries": {ttl: time.Hour, maxEntries: 100, maxValue: 1 << 10, maxBytes: 1 << 30},
	} {
		s := newStore(b)
		value := []byte("0123456789")
		left := func(first, n int) (found int) {
			for i := range n {
				if _, ok := s.get(testKey(first + i)); ok {
					found++
				}
			}
			return found
		}
		for i := range 30 {
			s.put("quiet", testKey(i), value)
		}
		for i := range 10_000 {
			s.put("loud", testKey(1000+i), value)
		}
		if n := left(0, 30); n != 30 {
			t.Errorf("%s: %d entries of the quiet tenant are left", name, n)
		}
		if n := left(1000, 10_000); n != 70 {
			t.Errorf("%s: %d entries of the loud tenant are left", name, n)
		}
		for i := range 30 {
			s.put("late", testKey(20_000+i), value)
		}
		if a, b, c := left(0, 30), left(1000, 10_000), left(20_000, 30); a != 30 || b != 40 || c != 30 {
			t.Errorf("%s: %d, %d and %d entries are left", name, a, b, c)
		}
		s.setMaxBytes(0)
		if !s.isEmpty() || len(s.tenants) != 0 || len(s.largest[ofBytes].list) != 0 || len(s.largest[ofEntries].list) != 0 || s.bytes != 0 {
			t.Errorf("%s: %d bytes of %d tenants are left", name, s.bytes, len(s.tenants))
		}
	}
}

// TestManySmallEntriesEvictNoLargeOnes checks that a tenant with many small entries evicts no entry of a tenant with few
// large ones, and the other way round.
func TestManySmallEntriesEvictNoLargeOnes(t *testing.T) {
	s := newStore(bounds{ttl: time.Hour, maxEntries: 1000, maxValue: 1 << 20, maxBytes: 8 << 20})
	count := func(first, n int) (found int) {
		for i := range n {
			if _, ok := s.get(testKey(first + i)); ok {
				found++
			}
		}
		return found
	}
	large := make([]byte, 256<<10)
	for i := range 10 { // 2.5 of 8 MiB
		s.put("large", testKey(i), large)
	}
	for i := range 5000 { // five times as many as there may be; 1.2 MiB with entryOverhead
		s.put("small", testKey(1000+i), []byte("x"))
	}
	if a, b := count(0, 10), count(1000, 5000); a != 10 || b != 990 {
		t.Errorf("%d large entries are left of 10, and %d small ones", a, b)
	}
	for i := range 100 {
		s.put("larger", testKey(10_000+i), large)
	}
	if a, b := count(0, 10), count(1000, 5000); a != 10 || b < 900 {
		t.Errorf("%d large entries are left of 10, and %d small ones", a, b)
	}
}

// TestExpiredEntriesOfIdleTenantsAreRemoved checks that expired entries are removed even if
// their tenant sends no further request.
func TestExpiredEntriesOfIdleTenantsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(bounds{ttl: time.Hour, maxEntries: 100, maxValue: 1 << 10, maxBytes: 1 << 20})
		s.put("idle", testKey(1), []byte("value"))
		time.Sleep(2 * time.Hour) // the bubble's clock
		s.put("other", testKey(2), []byte("value"))
		if len(s.entries) != 1 || len(s.tenants) != 1 {
			t.Errorf("%d entries of %d tenants", len(s.entries), len(s.tenants))
		}
	})
}
