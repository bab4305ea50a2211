package access

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
)

// TestRevocationReachesEveryNode checks that a revoked key is rejected on every node within two
// seconds, also if the store is slow.
func TestRevocationReachesEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		s.takes = 300 * time.Millisecond
		ids, keys := s.stored(p, 50)
		nodes := []*Directory{NewDirectory(DirectoryOptions{Source: s, Peppers: p}), NewDirectory(DirectoryOptions{Source: s, Peppers: p})}
		for _, d := range nodes {
			defer follow(t, d)()
		}
		time.Sleep(5 * time.Second)
		worst := time.Duration(0)
		for i, id := range ids {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond) // at different phases of a poll
			for _, d := range nodes {
				wants(t, d, keys[i], "200")
			}
			began := time.Now()
			s.change(id, func(r *Record) { r.Revoked = time.Now() })
			for _, d := range nodes {
				for says(d, keys[i]) == "200" {
					time.Sleep(10 * time.Millisecond)
				}
				wants(t, d, keys[i], "401 revoked_api_key")
			}
			worst = max(worst, time.Since(began))
		}
		t.Logf("the slowest of %d revocations on two nodes took %v", len(ids), worst)
		if worst > 2*time.Second {
			t.Errorf("a revocation took %v", worst)
		}
	})
}

func TestChangesOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		ids, keys := s.stored(p, 1)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		defer follow(t, d)()
		time.Sleep(2 * time.Second)
		wants(t, d, keys[0], "200")

		_, next, _ := Mint(EnvLive)
		s.change(ids[0], func(r *Record) {
			old := r.Digests[0]
			old.Until = time.Now().Add(time.Minute)
			r.Digests = []Digest{old, p.Digest(r.ID, next)}
		})
		time.Sleep(2 * time.Second)
		head := "gw_live_" + ids[0] + "_" + next.Reveal()
		sum := checksum(head)
		rotated := head + string(sum[:])
		wants(t, d, keys[0], "200")
		wants(t, d, rotated, "200")
		time.Sleep(time.Minute)
		wants(t, d, keys[0], "401 expired_api_key")
		wants(t, d, rotated, "200")

		s.change(ids[0], func(r *Record) { r.OrgBlocked = true })
		time.Sleep(2 * time.Second)
		wants(t, d, rotated, "403 blocked")
		s.change(ids[0], func(r *Record) { r.OrgBlocked, r.Expires = false, time.Now().Add(time.Minute) })
		time.Sleep(2 * time.Second)
		wants(t, d, rotated, "200")
		time.Sleep(time.Minute) // the feed is empty
		wants(t, d, rotated, "401 expired_api_key")
	})
}

// TestLoadInPages checks that all keys are loaded in pages, and that the store is polled about once
// a second afterwards.
func TestLoadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		_, keys := s.stored(p, 2*pageSize)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		if err := d.Ready(); err == nil || !strings.Contains(err.Error(), "not queried yet") {
			t.Error(err)
		}
		stop := follow(t, d)
		synctest.Wait()
		if s.pages != 3 || d.Snapshot().Known != len(keys) || d.Ready() != nil {
			t.Errorf("%d pages, %+v, %v", s.pages, d.Snapshot(), d.Ready())
		}
		_, before := s.questions()
		time.Sleep(100 * time.Second)
		if _, polls := s.questions(); polls-before < 100 || polls-before > 130 {
			t.Errorf("%d questions in 100 s", polls-before)
		}
		if asked, _ := s.questions(); asked != 0 {
			t.Errorf("%d keys were asked for", asked)
		}
		stop()
	})
}

// TestLoadStopsAtTheLimit checks that no more keys are loaded than fit.
func TestLoadStopsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		_, keys := s.stored(p, 5*pageSize)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, MaxKeys: pageSize + 10})
		defer follow(t, d)()
		synctest.Wait()
		if s.pages != 2 || d.Snapshot().Known != pageSize+10 {
			t.Errorf("%d pages, %+v", s.pages, d.Snapshot())
		}
		for _, key := range keys[:20] {
			wants(t, d, key, "200")
		}
	})
}

// TestTenants checks that the change of an organisation or a team reaches its keys, and that it is one
// change however many they are.
func TestTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		ids, keys := s.stored(p, 3)
		s.change(ids[1], func(r *Record) { r.Org, r.Team = "other", "t" })
		s.change(ids[2], func(r *Record) { r.Org = "other" })
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		defer follow(t, d)()
		time.Sleep(2 * time.Second)
		limit := func(n int) quota.Limit {
			e := d.table.Load().find(ids[n])
			return quota.Limit{Requests: e.record.OrgLimit.Requests, Tokens: e.record.TeamLimit.Tokens}
		}
		s.putTenant(Tenant{Org: "other", Limit: quota.Limit{Requests: 5}})
		s.putTenant(Tenant{Org: "other", Team: "t", Limit: quota.Limit{Tokens: 7}})
		time.Sleep(2 * time.Second)
		for n, want := range []quota.Limit{{}, {Requests: 5, Tokens: 7}, {Requests: 5}} {
			if got := limit(n); got != want {
				t.Errorf("key %d has %+v, want %+v", n, got, want)
			}
		}
		s.putTenant(Tenant{Org: "other", Team: "t", Blocked: true})
		s.change(ids[0], func(r *Record) { r.Revoked = time.Now() })
		time.Sleep(2 * time.Second)
		wants(t, d, keys[0], "401 revoked_api_key")
		wants(t, d, keys[1], "403 blocked")
		wants(t, d, keys[2], "200")
		s.putTenant(Tenant{Org: "other", Blocked: true})
		s.putTenant(Tenant{Org: "other", Team: "t"})
		time.Sleep(2 * time.Second)
		wants(t, d, keys[1], "403 blocked")
		wants(t, d, keys[2], "403 blocked")
		s.putTenant(Tenant{Org: "other"})
		time.Sleep(2 * time.Second)
		wants(t, d, keys[1], "200")
		if got := d.table.Load().records(); len(got) != 3 {
			t.Errorf("%d records", len(got))
		}
		allocated := testing.AllocsPerRun(100, func() { d.table.Load().find(ids[1]) })
		if allocated > 0 {
			t.Errorf("%v allocations to find a key after its team has changed", allocated)
		}
	})
}

// TestOlderTenant checks that a part of the history that comes again does not undo a newer change.
func TestOlderTenant(t *testing.T) {
	d := newTable(10)
	d.apply(Changes{Records: []Record{{ID: "k", Org: "o", Team: "t", Revision: 1}}, Tenants: []Tenant{{Org: "o", Team: "t", Blocked: true, Revision: 5}}, Next: Cursor{Revision: 5}})
	d.apply(Changes{Tenants: []Tenant{{Org: "o", Team: "t", Revision: 4}}, Next: Cursor{Revision: 4}})
	if e := d.find("k"); !e.record.TeamBlocked {
		t.Error("an older change of a team has replaced a newer one")
	}
	d.apply(Changes{Tenants: []Tenant{{Org: "o", Team: "t", Revision: 6}}, Next: Cursor{Revision: 6}})
	if e := d.find("k"); e.record.TeamBlocked {
		t.Error("a newer change of a team is ignored")
	}
}

// TestRestoredStore restores the store to an older state under a running gateway, with a revision that
// is lower, the same or higher than that which the gateway knows.
func TestRestoredStore(t *testing.T) {
	for name, ahead := range map[string]int{"lower": 0, "same": 3, "higher": 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := newSource(), peppers(t)
				ids, keys := s.stored(p, 3*pageSize)
				log := locked{&sync.Mutex{}, &bytes.Buffer{}}
				d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				defer follow(t, d)()
				time.Sleep(2 * time.Second)
				backup, revision := maps.Clone(s.records), s.revision
				late, lateKey := minted(p)
				s.put(late)
				s.change(ids[1], func(r *Record) { r.Revoked = time.Now() })
				s.change(ids[2], func(r *Record) { r.Limit.Requests = 5 })
				time.Sleep(2 * time.Second)
				wants(t, d, lateKey, "200")
				wants(t, d, keys[1], "401 revoked_api_key")
				s.set(func(s *source) { s.records, s.revision, s.history = backup, revision, s.history+1 })
				for range ahead {
					s.change(ids[3], func(r *Record) { r.Revoked = time.Now() })
				}
				time.Sleep(2 * time.Second)
				wants(t, d, lateKey, "401 invalid_api_key") // the restored store does not have it
				wants(t, d, keys[1], "200")                 // the restored store has not revoked it
				s.change(ids[0], func(r *Record) { r.Revoked = time.Now() })
				time.Sleep(2 * time.Second)
				wants(t, d, keys[0], "401 revoked_api_key")
				if ahead > 0 {
					wants(t, d, keys[3], "401 revoked_api_key")
				}
				if st := d.Snapshot(); st.Known != 3*pageSize {
					t.Errorf("%+v", st)
				}
				if want := fmt.Sprintf("known=%d gone=1", 3*pageSize); !strings.Contains(log.text(), want) {
					t.Errorf("the log lacks %q: %s", want, log.text())
				}
			})
		})
	}
}

// TestSlowReset restores a store that then responds to lookups of single keys only, and that fails
// altogether. Revoked keys are refused at once in the first case; known ones are accepted in the second.
func TestSlowReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		ids, keys := s.stored(p, 3)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		defer follow(t, d)()
		time.Sleep(2 * time.Second)
		s.change(ids[1], func(r *Record) { r.Revoked = time.Now() })
		s.set(func(s *source) { s.noLists, s.history = true, s.history+1; delete(s.records, ids[0]) })
		time.Sleep(time.Second)
		wants(t, d, keys[0], "401 invalid_api_key")
		wants(t, d, keys[1], "401 revoked_api_key")
		wants(t, d, keys[2], "200")
		s.set(func(s *source) { s.err = errAway })
		time.Sleep(10 * time.Second)
		wants(t, d, keys[2], "200")
		s.set(func(s *source) { s.noLists, s.err = false, nil })
		time.Sleep(4 * time.Second)
		wants(t, d, keys[0], "401 invalid_api_key")
		wants(t, d, keys[1], "401 revoked_api_key")
		wants(t, d, keys[2], "200")
		if st := d.Snapshot(); st.Known != 2 || st.Age > 2*time.Second {
			t.Errorf("%+v", st)
		}
	})
}

// TestOutageIsLoggedOnce checks that an outage and its end are logged once each.
func TestOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var mu sync.Mutex
		s, p := newSource(), peppers(t)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, Logger: slog.New(slog.NewTextHandler(&locked{mu: &mu, to: &log}, nil))})
		stop := follow(t, d)
		time.Sleep(3 * time.Second)
		s.set(func(s *source) { s.err = errAway })
		time.Sleep(time.Minute)
		s.set(func(s *source) { s.err = nil })
		time.Sleep(3 * time.Second)
		stop()
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "store of keys lost") || !strings.Contains(got, "store of keys is back") {
			t.Error(got)
		}
	})
}

type locked struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

func (l *locked) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.String()
}

// stuck is a feed that always has more and never advances.
type stuck struct{ *source }

func (s stuck) Changes(_ context.Context, since Cursor, _ int) (Changes, error) {
	return Changes{Records: make([]Record, pageSize), Next: since, More: true}, nil
}

func TestFeedThatDoesNotGoOn(t *testing.T) {
	d := NewDirectory(DirectoryOptions{Source: stuck{newSource()}, Peppers: peppers(t)})
	if err := d.Refresh(t.Context()); err == nil || d.Ready() == nil {
		t.Error("it was taken for a list of keys")
	}
}

// ahead is a feed that returns changes with the cursor before them, as keyfeed does when the page of
// another node is older.
type ahead struct{ *source }

func (s ahead) Changes(ctx context.Context, since Cursor, limit int) (Changes, error) {
	c, err := s.source.Changes(ctx, since, limit)
	if !c.Reset {
		c.Next = since
	}
	return c, err
}

// TestRestoredToTheCursor restores the store to the state up to which the gateway has read its changes. A key that
// is newer, from a lookup or from changes without their cursor, is refused; also if other changes
// follow, up to its revision.
func TestRestoredToTheCursor(t *testing.T) {
	for name, feed := range map[string]func(*source) Source{
		"lookup":  func(s *source) Source { return s },
		"changes": func(s *source) Source { return ahead{s} },
	} {
		for _, more := range []int{0, 1, 3} {
			t.Run(fmt.Sprint(name, " ", more), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, p := newSource(), peppers(t)
					ids, keys := s.stored(p, 2)
					d := NewDirectory(DirectoryOptions{Source: feed(s), Peppers: p})
					defer follow(t, d)()
					time.Sleep(2 * time.Second)
					late, lateKey := minted(p)
					s.put(late)
					if name == "changes" {
						time.Sleep(2 * time.Second)
					}
					wants(t, d, lateKey, "200")
					s.set(func(s *source) { delete(s.records, late.ID); s.revision-- })
					for range more {
						s.change(ids[1], func(r *Record) { r.Limit.Requests++ })
					}
					time.Sleep(2 * time.Second)
					wants(t, d, lateKey, "401 invalid_api_key")
					wants(t, d, keys[0], "200")
				})
			})
		}
	}
}

// TestDoubtfulKey checks that a key that is newer than the known changes is looked up once a second until they have
// it, and is accepted while the store does not respond.
func TestDoubtfulKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		_, _ = s.stored(p, 1)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		late, key := minted(p)
		s.put(late)
		use := func(want int) {
			t.Helper()
			for range 100 {
				wants(t, d, key, "200")
				time.Sleep(10 * time.Millisecond)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := s.asked[late.ID]; got > want {
				t.Errorf("it was looked up %d times, want at most %d", got, want)
			}
		}
		use(3)
		s.set(func(s *source) { s.err = errAway })
		for range 10 {
			wants(t, d, key, "200")
		}
		s.set(func(s *source) { s.err, s.asked = nil, map[string]int{} })
		if err := d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		use(0)
	})
}
