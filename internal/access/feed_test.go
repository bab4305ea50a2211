package access

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A key that is revoked is refused on every node within two seconds, also where the
// store takes its time.
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
			time.Sleep(time.Duration(i) * 37 * time.Millisecond) // at any point of a poll
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

		s.change(ids[0], func(r *Record) { r.Blocked = true })
		time.Sleep(2 * time.Second)
		wants(t, d, rotated, "403 blocked")
		s.change(ids[0], func(r *Record) { r.Blocked, r.Expires = false, time.Now().Add(time.Minute) })
		time.Sleep(2 * time.Second)
		wants(t, d, rotated, "200")
		time.Sleep(time.Minute) // with nothing in the feed
		wants(t, d, rotated, "401 expired_api_key")
	})
}

// All keys are loaded in pages, and the store is asked about once a second after that.
func TestLoadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		_, keys := s.stored(p, 2*pageSize)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		if err := d.Ready(); err == nil || !strings.Contains(err.Error(), "not asked yet") {
			t.Error(err)
		}
		stop := follow(t, d)
		synctest.Wait()
		if _, pages := s.questions(); pages != 3 || d.Snapshot().Known != len(keys) || d.Ready() != nil {
			t.Errorf("%d pages, %+v, %v", pages, d.Snapshot(), d.Ready())
		}
		time.Sleep(100 * time.Second)
		if _, pages := s.questions(); pages < 103 || pages > 130 {
			t.Errorf("%d questions in 100 s", pages-3)
		}
		if asked, _ := s.questions(); asked != 0 {
			t.Errorf("%d keys were asked for", asked)
		}
		stop()
	})
}

// half answers one page and no more.
type half struct{ *source }

func (s half) Changes(ctx context.Context, since int64, limit int) ([]Record, int64, error) {
	if since > 0 {
		return nil, 0, errAway
	}
	return s.source.Changes(ctx, since, limit)
}

// A first load that breaks off leaves keys that are as good as any. After a snapshot
// it is no contact: a revocation may be on the page that did not come.
func TestLoadThatBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		_, keys := s.stored(p, pageSize+1)
		o := DirectoryOptions{Source: half{s}, Peppers: p, Snapshot: t.TempDir() + "/s", Stale: time.Hour}
		d := NewDirectory(o)
		if err := d.Refresh(t.Context()); err == nil || d.Ready() != nil {
			t.Errorf("%v, %v", err, d.Ready())
		}
		wants(t, d, keys[0], "200")

		write(t, o.Snapshot, p, time.Now(), 0, nil)
		time.Sleep(30 * time.Minute)
		d = NewDirectory(o)
		if err := d.Refresh(t.Context()); err == nil || d.Snapshot().Age != 30*time.Minute {
			t.Errorf("%v, %+v", err, d.Snapshot())
		}
	})
}

// The store that is away is told of once, and once when it is back.
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
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "does not answer") || !strings.Contains(got, "answers again") {
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

// stuck is a feed that always has a full page and never goes on.
type stuck struct{ *source }

func (s stuck) Changes(context.Context, int64, int) ([]Record, int64, error) {
	return make([]Record, pageSize), 0, nil
}

func TestFeedThatDoesNotGoOn(t *testing.T) {
	d := NewDirectory(DirectoryOptions{Source: stuck{newSource()}, Peppers: peppers(t)})
	if err := d.Refresh(t.Context()); err == nil || d.Ready() == nil {
		t.Error("it was taken for a list of keys")
	}
}

// While a table from a snapshot is being read again a page at a time, a revocation
// that comes in the middle is not lost.
func TestRevocationWhileReloading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		ids, keys := s.stored(p, 5*pageSize)
		path := t.TempDir() + "/keys.snapshot"
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, Snapshot: path})
		stop := follow(t, d)
		time.Sleep(time.Second)
		stop()

		s.takes = 200 * time.Millisecond
		d = NewDirectory(DirectoryOptions{Source: s, Peppers: p, Snapshot: path})
		defer follow(t, d)()
		before := d.table.Load()
		revoked, refused := map[int]time.Time{}, map[int]bool{}
		for tick := range 500 {
			if i := tick / 10; tick%10 == 0 && i < 30 {
				s.change(ids[i], func(r *Record) { r.Revoked = time.Now() })
				revoked[i] = time.Now()
			}
			time.Sleep(10 * time.Millisecond)
			for i, at := range revoked {
				got := says(d, keys[i])
				if got == "200" && (refused[i] || time.Since(at) > 2*time.Second) {
					t.Fatalf("key %d is served %v after it was revoked; it was refused before: %v", i, time.Since(at), refused[i])
				}
				refused[i] = got != "200"
			}
		}
		if d.table.Load() == before {
			t.Error("the keys were not read again")
		}
		wants(t, d, keys[40], "200")
	})
}

// A new table takes the place of the known one only with all that that one knows.
func TestReplaceCatchesUp(t *testing.T) {
	s, p := newSource(), peppers(t)
	ids, keys := s.stored(p, 2)
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
	fresh := newTable(10)
	if err := d.readAll(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	s.change(ids[0], func(r *Record) { r.Revoked = time.Now() })
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.replace(t.Context(), fresh); err != nil || d.table.Load() != fresh {
		t.Fatal(err)
	}
	wants(t, d, keys[0], "401 revoked_api_key")
	wants(t, d, keys[1], "200")
}
