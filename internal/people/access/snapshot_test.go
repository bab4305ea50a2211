package access

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// full returns a record in which every field is set.
func full(p Peppers) (Record, string) {
	r, key := minted(p)
	at := time.Date(2026, 11, 15, 12, 0, 0, 123, time.UTC)
	r.Name, r.Team, r.Role, r.Created, r.Expires, r.Revoked = "n", "t", Auditor, at, at.Add(1), at.Add(2)
	r.Invalid, r.TeamBlocked, r.OrgBlocked = true, true, true
	r.Digests[0].Until = at.Add(3)
	r.Endpoints, r.Networks = []string{"e"}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	r.Criticality = "critical"
	l := quota.Limit{Requests: 1, Tokens: 2, Concurrency: 3, Budget: 4, Window: 5, More: "6/7"}
	r.Limit, r.TeamLimit, r.OrgLimit = l, l, l
	r.Revision = 9
	r.SCIMName, r.SCIMRequired, r.Removed, r.Owner = "s", true, at.Add(4), "person_x"
	return r, key
}

func TestSnapshotHoldsAllOfARecord(t *testing.T) {
	p := peppers(t)
	r, _ := full(p)
	for i, v := 0, reflect.ValueOf(r); i < v.NumField(); i++ { // fails if a new field is not set above
		if v.Field(i).IsZero() {
			t.Errorf("%s is not set", v.Type().Field(i).Name)
		}
	}
	path := filepath.Join(t.TempDir(), "s")
	write(t, path, p, r.Created, 12, []Record{r})
	img, err := readSnapshot(path, p.list[0].snapshotKey)
	if err != nil || !img.Contact.Equal(r.Created) || img.Cursor != (Cursor{12, "m"}) {
		t.Fatalf("%v, %+v", err, img)
	}
	keys, err := img.table(10)
	if err != nil || !reflect.DeepEqual(keys.records(), []Record{r}) {
		t.Errorf("%v\n%+v\n%+v", err, keys.records(), r)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func write(t testing.TB, path string, p Peppers, contact time.Time, cursor int64, records []Record) {
	t.Helper()
	img, err := newImage(contact, Cursor{cursor, "m"}, records)
	if err == nil {
		err = writeSnapshot(path, p.list[0].snapshotKey, img)
	}
	if err != nil {
		t.Error(err)
	}
}

// snapshotOf runs a directory until it has written its snapshot.
func snapshotOf(t *testing.T, s *source, p Peppers, path string) {
	t.Helper()
	stop := follow(t, NewDirectory(DirectoryOptions{Source: s, Peppers: p, Snapshot: path}))
	time.Sleep(time.Second)
	stop()
}

// TestColdStart starts while the store is down: known keys are accepted until they are stale,
// counted from the last sync.
func TestColdStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		_, keys := s.stored(p, 3)
		path := filepath.Join(t.TempDir(), "keys.snapshot")
		snapshotOf(t, s, p, path)
		time.Sleep(time.Hour)
		s.set(func(s *source) { s.err = errAway })
		o := DirectoryOptions{Source: s, Peppers: p, Snapshot: path, Stale: 2 * time.Hour}
		d := NewDirectory(o)
		if err := d.Ready(); err != nil {
			t.Fatal(err)
		}
		wants(t, d, keys[1], "200")
		if st := d.Snapshot(); st.Known != 3 || st.Revision != 3 || st.Age < time.Hour || st.Age > time.Hour+2*time.Second || st.Stale {
			t.Errorf("%+v", st)
		}
		stop := follow(t, d)
		time.Sleep(50 * time.Minute)
		stop()
		d = NewDirectory(o) // another start in between has no effect
		wants(t, d, keys[1], "200")
		time.Sleep(11 * time.Minute)
		wants(t, d, keys[1], "503 keys_unavailable")
		if d := NewDirectory(o); d.Ready() == nil || !d.Snapshot().Stale {
			t.Error("a snapshot that is too old was taken")
		}

		o.Snapshot = filepath.Join(t.TempDir(), "none")
		d = NewDirectory(o)
		_ = d.Refresh(t.Context())
		err := d.Ready()
		for _, word := range []string{errAway.Error(), o.Snapshot, "start the store"} {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%v does not say %q", err, word)
			}
		}
		o.Snapshot = ""
		if err := NewDirectory(o).Ready(); err == nil || strings.Contains(err.Error(), "snapshot") {
			t.Error(err)
		}
	})
}

// TestSnapshotFromTheFuture checks that a clock that was ahead does not extend the snapshot's
// validity.
func TestSnapshotFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := peppers(t)
		r, key := minted(p)
		path := filepath.Join(t.TempDir(), "s")
		write(t, path, p, time.Now().Add(1000*time.Hour), 0, []Record{r})
		d := NewDirectory(DirectoryOptions{Source: newSource(), Peppers: p, Snapshot: path, Stale: time.Hour})
		wants(t, d, key, "200")
		time.Sleep(time.Hour + 1)
		wants(t, d, key, "503 keys_unavailable")
	})
}

// TestSnapshotThatCannotBeTrusted checks that a modified snapshot is ignored and logged.
func TestSnapshotThatCannotBeTrusted(t *testing.T) {
	p := peppers(t)
	r, key := minted(p)
	path := filepath.Join(t.TempDir(), "s")
	write(t, path, p, time.Now(), 1, []Record{r})
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(name string, text []byte, p Peppers, usable bool) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		d := NewDirectory(DirectoryOptions{Source: newSource(), Peppers: p, Snapshot: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if got := d.Ready() == nil; got != usable || strings.Contains(log.String(), "ignored") == usable {
			t.Errorf("%s: %v, %s", name, d.Ready(), log.String())
		}
		if want := map[bool]string{true: "200", false: "401 invalid_api_key"}[usable]; says(d, key) != want {
			t.Errorf("%s: %s", name, says(d, key))
		}
	}
	try("as it was", good, p, true)
	try("an older pepper", good, peppers(t, pepperOne, pepperTwo), false)
	try("another pepper", good, peppers(t, pepperTwo), false)
	try("empty", nil, p, false)
	try("an older format", bytes.Replace(good, []byte("keys 2"), []byte("keys 0"), 1), p, false)
	for i := 0; i < len(good); i += 7 {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		try(fmt.Sprintf("byte %d", i), bad, p, false)
		try(fmt.Sprintf("cut at %d", i), good[:i], p, false)
	}
}

// TestSnapshotIsWrittenSeldom checks that the snapshot is written after changes, at most every ten
// seconds, rarely without changes, and at the end.
func TestSnapshotIsWrittenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		ids, _ := s.stored(p, 1)
		path := filepath.Join(t.TempDir(), "s")
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, Snapshot: path})
		stop := follow(t, d)
		cursor := func() int64 {
			img, err := readSnapshot(path, d.snapshotKey())
			if err != nil {
				return 0
			}
			return img.Cursor.Revision
		}
		time.Sleep(saveInterval + time.Second)
		if cursor() != 1 {
			t.Fatalf("it has %d", cursor())
		}
		writes, last := 0, cursor()
		for range 60 { // a change in every second of a minute
			s.change(ids[0], func(r *Record) { r.Name += "x" })
			time.Sleep(time.Second)
			if now := cursor(); now != last {
				writes, last = writes+1, now
			}
		}
		if writes < 5 || writes > 6 {
			t.Errorf("it was written %d times in a minute", writes)
		}
		time.Sleep(time.Minute)
		before, _ := os.Stat(path)
		time.Sleep(30 * time.Minute)
		if after, _ := os.Stat(path); !os.SameFile(before, after) {
			t.Error("it was written though nothing changed")
		}
		time.Sleep(40 * time.Minute)
		if after, _ := os.Stat(path); os.SameFile(before, after) {
			t.Error("the time of the contact was not written for an hour")
		}
		s.change(ids[0], func(r *Record) { r.Name = "last" })
		time.Sleep(2 * time.Second)
		stop()
		if cursor() != 62 {
			t.Errorf("the last change is not in it: %d", cursor())
		}
	})
}

// TestSnapshotOfTwoProcesses checks that readers always see a complete snapshot while several
// processes write.
func TestSnapshotOfTwoProcesses(t *testing.T) {
	p := peppers(t)
	path := filepath.Join(t.TempDir(), "s")
	key := p.list[0].snapshotKey
	var records []Record
	for range 200 {
		r, _ := minted(p)
		records = append(records, r)
	}
	save := func(n int) { write(t, path, p, time.Now(), int64(n), records[:n]) }
	save(1)
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 20 {
				save(1 + (w*67+i*31)%200)
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			img, err := readSnapshot(path, key)
			if err != nil {
				t.Error(err)
				return
			}
			if keys, err := img.table(1000); err != nil || keys.size.Load() != img.Cursor.Revision {
				t.Errorf("%v, %d of %d", err, keys.size.Load(), img.Cursor.Revision)
			}
		}
	})
	wg.Wait()
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestFailedSnapshotLeavesNoFile checks that a snapshot that cannot take its name leaves no temporary file.
func TestFailedSnapshotLeavesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeSnapshot(path, []byte("key"), &snapshotImage{}); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLeftovers checks that old temporary files are removed, and current ones are not.
func TestLeftovers(t *testing.T) {
	s, p := newSource(), peppers(t)
	path := filepath.Join(t.TempDir(), "s")
	for name, age := range map[string]time.Duration{"old": time.Hour, "new": 0} {
		f := path + "." + name + ".tmp"
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f, time.Now(), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: p, Snapshot: path})
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	(&saver{d: d}).save()
	if left, _ := filepath.Glob(path + ".*"); len(left) != 1 || left[0] != path+".new.tmp" {
		t.Errorf("%v", left)
	}
}

// TestSnapshotOfAnotherStore checks that the store wins over a snapshot of another store or of a
// state that was rolled back.
func TestSnapshotOfAnotherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := peppers(t)
		first, second := newSource(), newSource()
		second.history = 1
		_, gone := first.stored(p, 30)
		_, keys := second.stored(p, 10) // its revisions are lower
		path := filepath.Join(t.TempDir(), "s")
		snapshotOf(t, first, p, path)
		d := NewDirectory(DirectoryOptions{Source: second, Peppers: p, Snapshot: path})
		wants(t, d, gone[0], "200")
		defer follow(t, d)()
		time.Sleep(2 * time.Second)
		wants(t, d, gone[0], "401 invalid_api_key")
		wants(t, d, keys[0], "200")
		if st := d.Snapshot(); st.Revision != 10 || st.Known != 10+0 {
			t.Errorf("%+v", st)
		}
	})
}

func BenchmarkSnapshot(b *testing.B) {
	p := peppers(b)
	path := filepath.Join(b.TempDir(), "s")
	var records []Record
	for i := range 100_000 {
		r, _ := full(p)
		r.Revision = int64(i)
		records = append(records, r)
	}
	write(b, path, p, time.Now(), 1, records)
	b.Run("write-100000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			write(b, path, p, time.Now(), 1, records)
		}
		if info, err := os.Stat(path); err == nil {
			b.ReportMetric(float64(info.Size()), "file-bytes")
		}
	})
	b.Run("start-100000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d := NewDirectory(DirectoryOptions{Source: newSource(), Peppers: p, Snapshot: path}); d.Snapshot().Known != 100_000 {
				b.Fatal("keys are missing")
			}
		}
	})
}

// BenchmarkRestore measures a start from a snapshot, as CPU time: a busy machine does not change it much.
func BenchmarkRestore(b *testing.B) {
	for _, n := range []int{100_000, 300_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, path := peppers(b), filepath.Join(b.TempDir(), "s")
			records, at := make([]Record, n), time.Now()
			for i := range records {
				l := quota.Limit{Requests: 1000, Budget: 5_000_000_000, Window: 24 * time.Hour}
				records[i] = Record{
					ID: fmt.Sprintf("%022d", i), Name: fmt.Sprint("key ", i), Org: fmt.Sprint("org-", i%100), Team: fmt.Sprint("team-", i%1000), Created: at, Revision: int64(i + 1),
					Digests: []Digest{{Sum: sha256.Sum256([]byte{byte(i)})}}, Models: []string{"gpt-5", "claude-*"}, Criticality: "normal", Limit: l, TeamLimit: l, OrgLimit: l,
				}
			}
			write(b, path, p, at, int64(n), records)
			b.ReportAllocs()
			cpu := testrig.ProcessorTime(b)
			for b.Loop() {
				if d := NewDirectory(DirectoryOptions{Source: newSource(), Peppers: p, Snapshot: path, MaxKeys: n}); d.Snapshot().Known < 100_000 {
					b.Fatal(d.Snapshot())
				}
			}
			b.ReportMetric(float64((testrig.ProcessorTime(b)-cpu).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}
