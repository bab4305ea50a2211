package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// TestStampede sends requests with five thousand unseen keys, three for each, at the same time.
func TestStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, each = 5000, 3
		s, p := newSource(), peppers(t)
		s.takes = 500 * time.Microsecond
		_, keys := s.stored(p, n)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		took := make([]time.Duration, n*each)
		answers := make([]string, n*each)
		var wg sync.WaitGroup
		for i := range took {
			wg.Go(func() {
				began := time.Now()
				answers[i] = says(d, keys[i%n])
				took[i] = time.Since(began)
			})
		}
		wg.Wait()
		for _, a := range answers {
			if a != "200" {
				t.Fatalf("a good key got %s", a)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.asked) != n || s.mostNow != maxLookups {
			t.Errorf("%d keys were asked for, %d at once", len(s.asked), s.mostNow)
		}
		for id, times := range s.asked {
			if times != 1 {
				t.Fatalf("%s was asked for %d times", id, times)
			}
		}
		slices.Sort(took)
		p99 := took[len(took)*99/100]
		t.Logf("%d requests for %d cold keys, %v a question: p50 %v, p99 %v, at most %d questions at once", len(took), n, s.takes, took[len(took)/2], p99, s.mostNow)
		if p99 > 250*time.Millisecond {
			t.Errorf("p99 is %v", p99)
		}
	})
}

// TestStampedeOnASlowStore checks that requests get 503 when the store is too slow for a stampede,
// and that no valid key gets 401. In the end all keys are known.
func TestStampedeOnASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		s.takes = 100 * time.Millisecond
		_, keys := s.stored(p, 400)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		for round, left := 0, keys; len(left) > 0; round++ {
			if round > 10 {
				t.Fatalf("%d keys are still not known", len(left))
			}
			var mu sync.Mutex
			var again []string
			var wg sync.WaitGroup
			for _, key := range left {
				wg.Go(func() {
					began := time.Now()
					_, err := d.Check(request(key))
					if err == nil {
						return
					}
					if err.HTTPStatus() != http.StatusServiceUnavailable || err.RetryAfter != time.Second || time.Since(began) > lookupWait {
						t.Errorf("%v after %v", err, time.Since(began))
					}
					mu.Lock()
					again = append(again, key)
					mu.Unlock()
				})
			}
			wg.Wait()
			left = again
		}
		if s.mostNow > maxLookups {
			t.Errorf("%d questions at once", s.mostNow)
		}
	})
}

func TestKnownKeysAskNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		_, keys := s.stored(p, 20)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.set(func(s *source) { s.frozen = true })
		began := time.Now()
		for range 100 {
			for _, key := range keys {
				wants(t, d, key, "200")
			}
		}
		if asked, _ := s.questions(); asked != 0 || time.Since(began) != 0 {
			t.Errorf("the store was asked %d times, in %v", asked, time.Since(began))
		}
	})
}

// TestStoreAway checks that known keys are accepted until they are stale while the store is down,
// and that unknown keys get 503, never 401.
func TestStoreAway(t *testing.T) {
	for name, lose := range map[string]func(*source){
		"dead":   func(s *source) { s.err = errAway },
		"frozen": func(s *source) { s.frozen = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := newSource(), peppers(t)
				ids, keys := s.stored(p, 1)
				d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, Stale: time.Hour})
				defer follow(t, d)()
				time.Sleep(time.Second)
				cold, coldKey := minted(p)
				s.put(cold)
				s.set(lose)
				began := time.Now()
				wants(t, d, keys[0], "200")
				wants(t, d, coldKey, "503 keys_unavailable")
				if waited := time.Since(began); waited > lookupWait {
					t.Errorf("it waited %v", waited)
				}
				wants(t, d, otherSecret(keys[0], 0), "401 invalid_api_key")
				time.Sleep(59 * time.Minute)
				wants(t, d, keys[0], "200")
				if st := d.Snapshot(); st.Stale || st.Age < 59*time.Minute || d.Ready() != nil {
					t.Errorf("%+v, %v", st, d.Ready())
				}
				time.Sleep(2 * time.Minute)
				wants(t, d, keys[0], "503 keys_unavailable")
				if st := d.Snapshot(); !st.Stale || d.Ready() == nil || !strings.Contains(d.Ready().Error(), "start the store") {
					t.Errorf("%+v, %v", st, d.Ready())
				}
				s.set(func(s *source) { s.err, s.frozen = nil, false })
				time.Sleep(4 * time.Second) // a query to a frozen store times out after two seconds
				wants(t, d, keys[0], "200")
				wants(t, d, coldKey, "200")
				if d.table.Load().find(ids[0]) == nil || d.Ready() != nil {
					t.Error(d.Ready())
				}
			})
		})
	}
}

func TestAbsentKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		r, key := minted(p)
		for range 5 {
			wants(t, d, key, "401 invalid_api_key")
		}
		if asked, _ := s.questions(); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		s.put(r)
		wants(t, d, key, "401 invalid_api_key") // cached for a second
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		wants(t, d, key, "200") // the feed has the key now

		other, otherKey := minted(p)
		wants(t, d, otherKey, "401 invalid_api_key")
		s.put(other)
		time.Sleep(lookupTTL)
		wants(t, d, otherKey, "200")
	})
}

// TestRotatedAMomentAgo checks that a secret that another node has just created is accepted: the
// store is queried, at most once a second per key.
func TestRotatedAMomentAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		ids, keys := s.stored(p, 1)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := otherSecret(keys[0], 0)
		_, sec, _ := Parse(next)
		s.change(ids[0], func(r *Record) { r.Digests = []Digest{p.Digest(r.ID, sec)} })
		wants(t, d, next, "200")
		wants(t, d, keys[0], "401 invalid_api_key")
		before, _ := s.questions()
		for range 5 {
			wants(t, d, otherSecret(next, 40), "401 invalid_api_key")
		}
		if after, _ := s.questions(); after != before {
			t.Errorf("the store was asked %d times in a second", 1+after-before)
		}
		wants(t, d, next, "200")

		// While the store is down a wrong secret stays wrong, and the second request does
		// not wait.
		time.Sleep(2 * lookupTTL)
		s.set(func(s *source) { s.frozen = true })
		began := time.Now()
		for range 3 {
			wants(t, d, otherSecret(next, 40), "401 invalid_api_key")
		}
		if waited := time.Since(began); waited != lookupWait {
			t.Errorf("it waited %v", waited)
		}
		time.Sleep(lookupTimeout) // until the query times out
	})
}

// TestClientLeavesALookup checks that a client that disconnects stops waiting, and that others
// still get the result.
func TestClientLeavesALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		s.takes = 100 * time.Millisecond
		_, keys := s.stored(p, 1)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			began := time.Now()
			if _, err := d.Check(request(keys[0]).WithContext(ctx)); err == nil || err.Kind != llm.Cancelled || time.Since(began) != time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
		wg.Go(func() {
			if got := says(d, keys[0]); got != "200" {
				t.Error(got)
			}
		})
		time.Sleep(time.Millisecond)
		if st := d.Snapshot(); st.Lookups != 1 {
			t.Errorf("%+v", st)
		}
		cancel()
		wg.Wait()
		if asked, _ := s.questions(); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestOldAnswerDoesNotUndoAChange checks that a query result from before a revocation does not undo
// it.
func TestOldAnswerDoesNotUndoAChange(t *testing.T) {
	for _, most := range []int{0, 1} { // 1: the change is evicted before the result arrives
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := newSource(), peppers(t)
				ids, keys := s.stored(p, 2)
				s.takes = 100 * time.Millisecond
				d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, MaxKeys: most})
				var wg sync.WaitGroup
				wg.Go(func() { says(d, keys[0]) })
				time.Sleep(time.Millisecond)
				s.set(func(s *source) { s.takes = 0 })
				s.change(ids[0], func(r *Record) { r.Revoked = time.Now() })
				s.change(ids[1], func(*Record) {})
				if err := d.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				wg.Wait()
				wants(t, d, keys[0], "401 revoked_api_key")
			})
		})
	}
}

// TestMoreKeysThanFit checks that all keys are accepted when there are more than fit, and that used
// keys stay in memory.
func TestMoreKeysThanFit(t *testing.T) {
	s, p := newSource(), peppers(t)
	_, keys := s.stored(p, 2500)
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, MaxKeys: 100})
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		wants(t, d, key, "200")
		if got := d.Snapshot().Known; got > 100 {
			t.Fatalf("%d keys in memory", got)
		}
	}
	if st := d.Snapshot(); st.Known != 100 || st.Revision != 2500 {
		t.Errorf("%+v", st)
	}
}

// TestAnswerThatIsThereIsUsed checks that a request does not query the store when the result has
// arrived meanwhile.
func TestAnswerThatIsThereIsUsed(t *testing.T) {
	s, p := newSource(), peppers(t)
	ids, _ := s.stored(p, 1)
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
	for range 3 {
		if e, err := d.querySource(ids[0], noRevision); err != nil || e.record.ID != ids[0] {
			t.Fatal(err)
		}
		if _, err := d.querySource("nobody's", noRevision); !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
	}
	if asked, _ := s.questions(); asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// wrongSource returns the record of another key.
type wrongSource struct {
	*source
	other Record
}

func (s wrongSource) Key(context.Context, string) (Record, error) { return s.other, nil }

func TestAnswerAboutAnotherKey(t *testing.T) {
	s, p := newSource(), peppers(t)
	other, _ := minted(p)
	_, key := minted(p)
	wants(t, NewDirectory(DirectoryOptions{Source: wrongSource{s, other}, Peppers: p}), key, "503 keys_unavailable")
}

func BenchmarkDirectory(b *testing.B) {
	s, p := newSource(), peppers(b)
	_, keys := s.stored(p, 1000)
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
	if err := d.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	good, wrongSecret := request(keys[500]), request(otherSecret(keys[500], 0))
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Check(good); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("known-parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := d.Check(good); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("wrong", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Check(wrongSecret); err == nil {
				b.Fatal("admitted")
			}
		}
	})
}

// TestUnusedKeysAreEvictedFirst checks that a key that was not used since the last search goes, and keys that were stay.
func TestUnusedKeysAreEvictedFirst(t *testing.T) {
	tab := newTable(100)
	for _, id := range []string{"used", "unused", "used too"} {
		tab.put(newEntry(Record{ID: id}), Cursor{}).recentlyUsed.Store(id != "unused")
	}
	tab.evict()
	if n := tab.size.Load(); n != 2 || tab.find("unused") != nil || tab.find("used") == nil || tab.find("used too") == nil {
		t.Errorf("%d keys are left", n)
	}
}

// TestLargeKeys checks that keys with long lists are evicted by their size.
func TestLargeKeys(t *testing.T) {
	tab, long := newTable(100_000), []string{strings.Repeat("x", 64<<10)}
	for i := range 6000 {
		tab.apply(Changes{Records: []Record{{ID: fmt.Sprint(i % 5000), Models: long, Revision: int64(i + 1)}}, Next: Cursor{Revision: int64(i + 1)}})
	}
	n := 0
	tab.entries.Range(func(any, any) bool { n++; return true })
	if most := maxBytes / (64 << 10); n > most || n < most/2 || int64(n) != tab.size.Load() || tab.bytes > maxBytes || tab.bytes < int64(n)<<16 {
		t.Errorf("%d keys, size %d, %d bytes", n, tab.size.Load(), tab.bytes)
	}
}
