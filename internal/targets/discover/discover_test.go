package discover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) {
	if beRegistrar() {
		return
	}
	goleak.VerifyTestMain(m)
}

// script is a source that a test controls.
type script struct {
	name string
	say  chan Change
}

func newScript(name string) script { return script{name, make(chan Change)} }

func (s script) Name() string { return s.name }

func (s script) Watch(ctx context.Context, tell func(Change)) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-s.say:
			tell(c)
		}
	}
}

// audience records the publications.
type audience struct {
	mu    sync.Mutex
	heard []Snapshot
	at    []time.Time
}

func (a *audience) publish(s Snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard, a.at = append(a.heard, s), append(a.at, time.Now())
}

func (a *audience) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.heard)
}

func (a *audience) last() Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.heard) == 0 {
		return Snapshot{}
	}
	return a.heard[len(a.heard)-1]
}

// begin runs a discovery until the test ends.
func begin(t testing.TB, o Options) (*audience, *Discovery, context.CancelFunc) {
	t.Helper()
	if o.Networks == nil {
		o.Networks = networks(t, "10.0.0.0/8", "127.0.0.0/8")
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a, done := &audience{}, make(chan struct{})
	go func() { defer close(done); d.Run(ctx, a.publish) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return a, d, stop
}

// journal is a log that may be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// settle lets time pass in the bubble and waits until all goroutines are idle.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestTheFirstPublicationWaitsForTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newScript("x")
		start := time.Now()
		a, _, stop := begin(t, Options{Sources: []Source{src}})
		defer stop()
		settle(400 * time.Millisecond)
		if a.count() != 0 {
			t.Fatal("it did not wait")
		}
		src.say <- Change{All: true, Put: fleet(3, "m"), Revision: 7, At: start}
		synctest.Wait()
		s := a.last()
		if len(s.Workers) != 3 || s.Stale || s.Revision != 7 || s.Workers[0].ID != "x/m-00000" {
			t.Errorf("published %+v", s)
		}
	})
}

func TestPublishesWithoutASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, stop := begin(t, Options{Sources: []Source{newScript("x")}})
		defer stop()
		settle(headStart + time.Millisecond)
		if a.count() != 1 || !a.last().Stale {
			t.Errorf("published %d times, last %+v", a.count(), a.last())
		}
	})
}

// TestBurstsAreCoalesced checks that the first change of a burst is published at once and
// the rest together.
func TestBurstsAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newScript("x")
		a, _, stop := begin(t, Options{Sources: []Source{src}})
		defer stop()
		src.say <- Change{All: true}
		settle(time.Second)
		start, before := time.Now(), a.count()
		for _, w := range fleet(1000, "m") {
			src.say <- Change{Put: []Worker{w}}
			settle(time.Millisecond)
		}
		settle(time.Second)
		if !a.at[before].Equal(start) || len(a.heard[before].Workers) != 1 {
			t.Errorf("the first was published after %v with %d workers", a.at[before].Sub(start), len(a.heard[before].Workers))
		}
		if n := a.count() - before; n < 9 || n > 11 {
			t.Errorf("a second of changes made %d publications, want about ten", n)
		}
		if len(a.last().Workers) != 1000 {
			t.Errorf("%d are published in the end", len(a.last().Workers))
		}
		quiet := a.count()
		src.say <- Change{All: true, Put: fleet(1000, "m")}
		settle(time.Second)
		if a.count() != quiet {
			t.Error("a list of the same workers is published again")
		}
	})
}

func TestSourcesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := newScript("x"), newScript("y")
		var log journal
		a, d, stop := begin(t, Options{Sources: []Source{x, y}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		defer stop()
		x.say <- Change{All: true, Put: []Worker{worker("1", "b"), worker("2", "a")}}
		y.say <- Change{All: true, Put: []Worker{worker("1", "a"), worker("1", "b"), worker("2", "b")}}
		settle(time.Second)
		if got, want := fmt.Sprint(ids(a.last().Workers)), "[x/2 y/1 x/1 y/2]"; got != want {
			t.Errorf("published %s, want %s", got, want)
		}
		if !strings.Contains(log.String(), "twice") || d.Status().Refused != 1 {
			t.Errorf("the double id was not logged: %s", log.String())
		}
		y.say <- Change{Stale: true}
		settle(time.Second)
		if s := d.Status(); !s.Snapshot.Stale || len(s.Snapshot.Workers) != 4 || !slices.Equal(s.Silent, []string{"y"}) {
			t.Errorf("with one source away: %+v", s)
		}
	})
}

// TestOutagesAreLoggedOnce checks that a source that is lost gives one line, and one when
// it is back.
func TestOutagesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newScript("x")
		var log journal
		_, _, stop := begin(t, Options{Sources: []Source{src}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		defer stop()
		src.say <- Change{All: true, Put: []Worker{worker("1", "m")}}
		if text := log.String(); text != "" {
			t.Errorf("a source that responds: %s", text)
		}
		for range 10 {
			src.say <- Change{Stale: true, Err: errors.New("no leader")}
			settle(time.Second)
		}
		src.say <- Change{All: true, Put: []Worker{worker("1", "m")}}
		src.say <- Change{All: true, Put: []Worker{worker("1", "m")}}
		settle(time.Second)
		for want, n := range map[string]int{
			`level=WARN msg="a source of workers is lost; the workers that are known are kept" source=x workers=1 error="no leader"`: 1,
			`level=INFO msg="a source of workers is back" source=x outage=10s`:                                                       1,
		} {
			if got := strings.Count(log.String(), want); got != n {
				t.Errorf("%d lines have %s\n%s", got, want, log.String())
			}
		}
	})
}

// TestInvalidWorkersAreRejected checks that an invalid worker is counted and not
// published; the others are.
func TestInvalidWorkersAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newScript("x")
		var log journal
		a, d, stop := begin(t, Options{Sources: []Source{src}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		defer stop()
		evil := worker("evil", "m")
		evil.URL = "http://169.254.169.254/"
		for range 100 {
			src.say <- Change{All: true, Put: []Worker{evil, worker("a", "m"), worker("b", "m")}, Bad: map[string]error{"c": errors.New("not JSON")}}
		}
		settle(time.Second)
		if got := fmt.Sprint(ids(a.last().Workers)); got != "[x/a x/b]" {
			t.Errorf("published %s", got)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || d.Status().Refused < 100 {
			t.Errorf("%d lines for %d refusals: %s", n, d.Status().Refused, log.String())
		}
		// A worker that becomes invalid is removed.
		evil.ID = "b"
		src.say <- Change{Put: []Worker{evil}}
		settle(time.Second)
		if got := fmt.Sprint(ids(a.last().Workers)); got != "[x/a]" {
			t.Errorf("published %s", got)
		}
	})
}

func TestTooManyWorkers(t *testing.T) {
	src := newScript("x")
	a, d, _ := begin(t, Options{Sources: []Source{src}})
	src.say <- Change{All: true, Put: fleet(maxWorkers+5, "m")}
	eventually(t, "the publication", func() bool { return len(a.last().Workers) > 0 })
	if n := len(a.last().Workers); n != maxWorkers || d.Status().Refused != 5 {
		t.Errorf("%d are published and %d refused", n, d.Status().Refused)
	}
}

// TestStartFromTheDisk checks that the next start uses the last snapshot and that a
// source that is suddenly empty does not remove its workers at once.
func TestStartFromTheDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.snapshot")
	synctest.Test(t, func(t *testing.T) {
		src := newScript("x")
		o := Options{Sources: []Source{src}, Snapshot: path}
		_, _, stop := begin(t, o)
		src.say <- Change{All: true, Put: fleet(4, "m"), At: time.Now()}
		settle(2 * time.Second)
		src.say <- Change{Put: fleet(5, "m")}
		synctest.Wait()
		stop() // the last report is saved, too
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("the file: %v, %v", info, err)
		}

		start := time.Now()
		a, d, stop := begin(t, o)
		defer stop()
		settle(headStart + time.Millisecond)
		if s := a.last(); !s.Stale || len(s.Workers) != 5 || a.at[0].Sub(start) > headStart {
			t.Fatalf("from the disk: %+v", s)
		}
		src.say <- Change{All: true, At: time.Now()}
		settle(29 * time.Second)
		if s := d.Status(); s.Snapshot.Stale || len(s.Snapshot.Workers) != 5 || s.Kept != 5 {
			t.Fatalf("after an empty answer: %+v", s)
		}
		settle(2 * time.Second)
		if s := d.Status(); len(s.Snapshot.Workers) != 0 {
			t.Errorf("after 31 s: %+v", s)
		}
	})
}

// TestDeparturesAreLoggedOnce checks that ten thousand workers that disappear one by one
// are all kept, with one log line.
func TestDeparturesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newScript("x")
		var log journal
		a, d, stop := begin(t, Options{Sources: []Source{src}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		defer stop()
		all := fleet(10_000, "m")
		src.say <- Change{All: true, Put: all}
		settle(time.Second)
		for i, w := range all {
			if src.say <- (Change{Left: []string{w.ID}}); i%1000 == 999 {
				settle(time.Second) // etcd expires a thousand leases a second
			}
		}
		settle(time.Second)
		if s := d.Status(); len(s.Snapshot.Workers) != 10_000 || s.Kept != 10_000 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%d are published, %d of them kept: %s", len(s.Snapshot.Workers), s.Kept, log.String())
		}
		settle(40 * time.Second)
		if n := len(a.last().Workers); n != 0 {
			t.Errorf("%d are published 40 s later", n)
		}
	})
}

// TestWorkersFromDiskAreChecked checks that workers from the disk are checked by the
// current rules.
func TestWorkersFromDiskAreChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.snapshot")
	disk := newDisk(path, slog.New(slog.DiscardHandler))
	far := worker("x/far", "m")
	far.URL = "http://11.0.0.1"
	if err := disk.save(Snapshot{Workers: []Worker{worker("x/near", "m"), far, worker("gone/a", "m")}}); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a, _, stop := begin(t, Options{Sources: []Source{newScript("x")}, Snapshot: path})
		defer stop()
		settle(time.Second)
		if got := fmt.Sprint(ids(a.last().Workers)); got != "[x/near]" {
			t.Errorf("published %s", got)
		}
	})
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	net := networks(t, "10.0.0.0/8")
	for name, o := range map[string]Options{
		"no networks":  {Sources: []Source{newScript("x")}},
		"double names": {Networks: net, Sources: []Source{newScript("x"), newScript("x")}},
		"slash":        {Networks: net, Sources: []Source{newScript("x/y")}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

// patience is much longer than any step takes on a busy machine. The cluster harness
// measures how soon the workers are correct after an outage.
const patience = testrig.Patience

// eventually waits for a condition and returns how long it took.
func eventually(t testing.TB, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	testrig.Eventually(t, what, ok)
	return time.Since(start)
}
