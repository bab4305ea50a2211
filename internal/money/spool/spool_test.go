package spool

import (
	"cmp"
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
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
	}
	goleak.VerifyTestMain(m)
}

// ledger is a sink that stores rows by ID and detects rows that differ.
type ledger struct {
	mu    sync.Mutex
	rows  map[string]usage.Row
	logs  map[string]int64 // positions
	done  []string         // logs that are finished
	twice []string         // ids of rows that arrived again with different content
	calls int              // with rows
	down  error
	downs int // calls while it was down
	came  chan struct{}
}

func newLedger() *ledger {
	return &ledger{rows: map[string]usage.Row{}, logs: map[string]int64{}, came: make(chan struct{}, 1)}
}

func (l *ledger) Finish(_ context.Context, log string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, log)
	return l.down
}

func (l *ledger) Append(_ context.Context, b usage.Batch) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		l.downs++
		return 0, l.down
	}
	if have := l.logs[b.Log]; have < b.After || have >= b.To {
		return have, nil
	}
	if len(b.Rows) > batchRows {
		return 0, fmt.Errorf("a batch of %d", len(b.Rows))
	}
	l.calls++
	l.logs[b.Log] = b.To
	for _, r := range b.Rows {
		if old, ok := l.rows[r.ID]; ok && fmt.Sprintf("%+v", plain(old)) != fmt.Sprintf("%+v", plain(r)) {
			l.twice = append(l.twice, r.ID)
		}
		l.rows[r.ID] = r
	}
	notify(l.came)
	return b.To, nil
}

// plain is a row without pointers, for comparison.
func plain(r usage.Row) any {
	cost := "unknown"
	if r.Cost != nil {
		cost = r.Cost.String()
	}
	r.Cost, r.Attempts = nil, nil
	return struct {
		usage.Row
		cost string
	}{r, cost}
}

func (l *ledger) setDown(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = err
}

func (l *ledger) all() map[string]usage.Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := make(map[string]usage.Row, len(l.rows))
	for id, r := range l.rows {
		rows[id] = r
	}
	return rows
}

// await waits until the ledger has n rows.
func (l *ledger) await(t testing.TB, n int) map[string]usage.Row {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		if rows := l.all(); len(rows) >= n {
			return rows
		}
		select {
		case <-l.came:
		case <-limit:
			t.Fatalf("%d rows came, want %d", len(l.all()), n)
		}
	}
}

func openSpool(t testing.TB, o Options) *Spool {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.Node, o.Keep = "gw/1", cmp.Or(o.Keep, -1)
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// drain runs Drain until the test ends or stop is called.
func drain(t testing.TB, s *Spool, to Sink, counters Counters) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Drain(ctx, to, counters)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func begin(t testing.TB, s *Spool, id string) *Entry {
	t.Helper()
	e, err := s.Begin(Opening{ID: id, Began: time.Now(), Prompt: 10, Price: &usage.Price{Input: 1e9, Output: 1e10}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func end(t testing.TB, e *Entry, output int64) {
	t.Helper()
	if _, err := e.End(usage.Row{Began: time.Now(), Outcome: usage.Answered, Usage: llm.Usage{Output: output}}); err != nil {
		t.Fatal(err)
	}
}

func folders(t testing.TB, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func segmentsOf(t testing.TB, s *Spool) (names []string) {
	return slices.DeleteFunc(folders(t, s.dir), func(n string) bool { return !strings.HasSuffix(n, segmentSuffix) })
}

func flush(t testing.TB, s *Spool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestRowsReachTheSink(t *testing.T) {
	s, to := openSpool(t, Options{}), newLedger()
	stop := drain(t, s, to, nil)
	e := begin(t, s, "a")
	e.Delivered(3)
	if b := s.Snapshot(); b.Open != 1 || b.Rows != 0 || b.Bytes == 0 {
		t.Errorf("the backlog is %+v", b)
	}
	end(t, e, 5)
	end(t, e, 6) // no effect
	e.Delivered(9)
	flush(t, s)
	if row := to.all()["a"]; row.Usage.Output != 5 || row.Node != "gw/1" || row.ID != "a" {
		t.Errorf("the row is %+v", row)
	}
	if b := s.Snapshot(); b.Open != 0 || b.Rows != 0 || b.Oldest != 0 {
		t.Errorf("the backlog is %+v", b)
	}
	stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := folders(t, s.o.Dir); len(left) != 0 {
		t.Errorf("a spool with nothing in it left %v", left)
	}
	if _, err := s.Begin(Opening{ID: "b"}); !errors.Is(err, ErrClosed) {
		t.Errorf("Begin after Close: %v", err)
	}
	var none *Entry
	none.Delivered(1)
	if _, err := none.End(usage.Row{}); err != nil {
		t.Error(err)
	}
}

func TestManyAtOnce(t *testing.T) {
	s, to := openSpool(t, Options{segmentSize: 64 << 10}), newLedger()
	drain(t, s, to, nil)
	const workers, each = 500, 20
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				e := begin(t, s, fmt.Sprintf("%d-%d", w, i))
				e.Delivered(1)
				end(t, e, int64(i))
			}
		})
	}
	wg.Wait()
	flush(t, s)
	rows := to.all()
	if len(rows) != workers*each || len(to.twice) != 0 {
		t.Fatalf("%d rows, %d in two forms; want %d", len(rows), len(to.twice), workers*each)
	}
	for w := range workers {
		for i := range each {
			if got := rows[fmt.Sprintf("%d-%d", w, i)].Usage.Output; got != int64(i) {
				t.Fatalf("%d-%d has %d tokens", w, i, got)
			}
		}
	}
	if segs := segmentsOf(t, s); len(segs) > 2 {
		t.Errorf("segments that were acknowledged are still there: %v", segs)
	}
	if len(s.slots.pages) != 1 {
		t.Errorf("%d steps of slots for %d requests at a time: they are not used again", len(s.slots.pages), workers)
	}
}

func TestFull(t *testing.T) {
	s := openSpool(t, Options{MaxBytes: 2000})
	var open []*Entry
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		var e *Entry
		if e, err = s.Begin(Opening{ID: fmt.Sprint(i)}); err == nil {
			open = append(open, e)
		}
	}
	if !errors.Is(err, ErrFull) || len(open) < 10 {
		t.Fatalf("%d began, then %v", len(open), err)
	}
	for _, e := range open {
		end(t, e, 1) // an open request may still end
	}
	drain(t, s, newLedger(), nil)
	flush(t, s)
}

// lines counts log records.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	said []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, r.Message)
	return nil
}

func TestDiskFails(t *testing.T) {
	var log lines
	s, to := openSpool(t, Options{Logger: slog.New(&log)}), newLedger()
	e := begin(t, s, "a")
	good := s.segs[0].file
	bad, err := os.Open(filepath.Join(s.dir, segmentName(1))) // opened read-only
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	s.syncMu.Lock()
	s.mu.Lock()
	s.segs[0].file = bad
	s.mu.Unlock()
	s.syncMu.Unlock()
	for range 3 {
		if _, err := s.Begin(Opening{ID: "b"}); err == nil {
			t.Error("Begin did not fail")
		}
		if _, err := e.End(usage.Row{}); err == nil {
			t.Error("End did not fail")
		}
	}
	s.syncMu.Lock()
	s.mu.Lock()
	s.segs[0].file = good
	s.mu.Unlock()
	s.syncMu.Unlock()
	end(t, e, 4)
	drain(t, s, to, nil)
	flush(t, s)
	if rows := to.all(); len(rows) != 1 || rows["a"].Usage.Output != 4 {
		t.Errorf("rows are %+v", rows)
	}
	if b := s.Snapshot(); b.Failed != 6 || b.Open != 0 {
		t.Errorf("the backlog is %+v", b)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if want := []string{"usage spool cannot be written", "usage spool is writable again"}; !slices.Equal(log.said, want) {
		t.Errorf("logged was %q, want %q", log.said, want)
	}
}

func TestSyncEach(t *testing.T) {
	s := openSpool(t, Options{Sync: true})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { end(t, begin(t, s, fmt.Sprint(i)), 1) })
	}
	wg.Wait()
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	if s.synced < s.written {
		t.Errorf("%d of %d bytes are on the disk", s.synced, s.written)
	}
}

// TestCountOf checks that a slot with another tag, or that does not exist, counts nothing.
func TestCountOf(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, Options{Dir: dir})
	e := begin(t, s, "a")
	e.Delivered(5)
	e.Delivered(-3)
	file, err := os.ReadFile(filepath.Join(s.dir, slotsName))
	if err != nil {
		t.Fatal(err)
	}
	tag := e.slot.tag.Load()
	for _, c := range []struct{ n, tag, want int64 }{{e.n, tag, 5}, {e.n, tag + 1, 0}, {e.n + 1, tag, 0}, {-1, tag, 0}, {pageSlots, tag, 0}, {1 << 60, tag, 0}} {
		if got := countOf(file, c.n, c.tag); got != c.want {
			t.Errorf("countOf(%d, %d) = %d, want %d", c.n, c.tag, got, c.want)
		}
	}
	end(t, e, 5)
	drain(t, s, newLedger(), nil)
	flush(t, s)
}

func TestSlotsGrow(t *testing.T) {
	s, to := openSpool(t, Options{}), newLedger()
	var open []*Entry
	for i := range pageSlots + 10 {
		open = append(open, begin(t, s, fmt.Sprint(i)))
	}
	for i, e := range open {
		e.Delivered(int64(i + 1))
	}
	for i, e := range open {
		if got := e.slot.count.Load(); got != int64(i+1) {
			t.Fatalf("slot %d counts %d", i, got)
		}
		end(t, e, 1)
	}
	drain(t, s, to, nil)
	flush(t, s)
}
