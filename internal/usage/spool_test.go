package usage

import (
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

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
	}
	goleak.VerifyTestMain(m)
}

// ledger is a sink that keeps rows by ID, and knows when one came in two forms.
type ledger struct {
	mu    sync.Mutex
	rows  map[string]Row
	twice []string // came again with other content
	calls int
	down  error
	came  chan struct{}
}

func newLedger() *ledger { return &ledger{rows: map[string]Row{}, came: make(chan struct{}, 1)} }

func (l *ledger) Append(_ context.Context, rows []Row) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.down != nil {
		return l.down
	}
	if len(rows) > batchRows {
		return fmt.Errorf("a batch of %d", len(rows))
	}
	for _, r := range rows {
		if old, ok := l.rows[r.ID]; ok && fmt.Sprintf("%+v", plain(old)) != fmt.Sprintf("%+v", plain(r)) {
			l.twice = append(l.twice, r.ID)
		}
		l.rows[r.ID] = r
	}
	poke(l.came)
	return nil
}

// plain is a row without pointers, to be compared.
func plain(r Row) any {
	cost := "unknown"
	if r.Cost != nil {
		cost = r.Cost.String()
	}
	r.Cost, r.Attempts = nil, nil
	return struct {
		Row
		cost string
	}{r, cost}
}

func (l *ledger) setDown(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = err
}

func (l *ledger) all() map[string]Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := make(map[string]Row, len(l.rows))
	for id, r := range l.rows {
		rows[id] = r
	}
	return rows
}

// await waits until the ledger has so many rows.
func (l *ledger) await(t testing.TB, n int) map[string]Row {
	t.Helper()
	limit := time.After(20 * time.Second)
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

func openSpool(t testing.TB, o SpoolOptions) *Spool {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.Node = "gw/1"
	s, err := OpenSpool(o)
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

// drain runs Drain until the test, or stop, ends it.
func drain(t testing.TB, s *Spool, to Sink, settled func(Row)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Drain(ctx, to, settled)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func begin(t testing.TB, s *Spool, id string) *Entry {
	t.Helper()
	e, err := s.Begin(Opening{ID: id, Began: time.Now(), Prompt: 10, Price: &Price{Input: 1e9, Output: 1e10}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func end(t testing.TB, e *Entry, output int64) {
	t.Helper()
	if err := e.End(Row{Began: time.Now(), Outcome: Answered, Usage: llm.Usage{Output: output}}); err != nil {
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestRowsReachTheSink(t *testing.T) {
	s, to := openSpool(t, SpoolOptions{}), newLedger()
	stop := drain(t, s, to, nil)
	e := begin(t, s, "a")
	e.Delivered(3)
	if b := s.Snapshot(); b.Open != 1 || b.Rows != 0 || b.Bytes == 0 {
		t.Errorf("the backlog is %+v", b)
	}
	end(t, e, 5)
	end(t, e, 6) // does nothing
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
	if err := none.End(Row{}); err != nil {
		t.Error(err)
	}
}

func TestManyAtOnce(t *testing.T) {
	s, to := openSpool(t, SpoolOptions{segment: 64 << 10}), newLedger()
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
	if len(s.slots.steps) != 1 {
		t.Errorf("%d steps of slots for %d requests at a time: they are not used again", len(s.slots.steps), workers)
	}
}

// One long stream must not keep everything after it on disk, and must not be lost
// when its opening is carried on.
func TestLongStream(t *testing.T) {
	dir := t.TempDir()
	s, to := openSpool(t, SpoolOptions{Dir: dir, segment: 4 << 10}), newLedger()
	stop := drain(t, s, to, nil)
	long := begin(t, s, "long")
	long.Delivered(40)
	for i := range 2000 {
		end(t, begin(t, s, fmt.Sprint(i)), 1)
	}
	flush(t, s)
	long.Delivered(2)
	stop() // the sweep is over
	if segs := segmentsOf(t, s); len(segs) > 3 {
		t.Errorf("one open stream holds %d segments", len(segs))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := long.End(Row{}); !errors.Is(err, ErrClosed) {
		t.Errorf("End after Close: %v", err)
	}
	next := openSpool(t, SpoolOptions{Dir: dir})
	drain(t, next, to, nil)
	row := to.await(t, 2001)["long"]
	if row.Outcome != Lost || row.Usage != (llm.Usage{Input: 10, Output: 42}) || !row.Estimated || row.Cost == nil || *row.Cost != 10*1000+42*10_000 {
		t.Errorf("the row is %+v with a cost of %v", row, row.Cost)
	}
}

func TestSinkIsDown(t *testing.T) {
	dir := t.TempDir()
	s, to := openSpool(t, SpoolOptions{Dir: dir}), newLedger()
	to.setDown(errors.New("no connection"))
	stop := drain(t, s, to, nil)
	for i := range 1200 {
		end(t, begin(t, s, fmt.Sprint(i)), 1)
	}
	if b := s.Snapshot(); b.Rows != 1200 {
		t.Errorf("the backlog is %+v", b)
	}
	to.setDown(nil)
	flush(t, s)
	to.setDown(errors.New("no connection"))
	end(t, begin(t, s, "last"), 1)
	begin(t, s, "open")
	stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// The next process sends what is left, and no more than that.
	again := newLedger()
	next := openSpool(t, SpoolOptions{Dir: dir})
	var settled []Row
	stop = drain(t, next, again, func(r Row) { settled = append(settled, r) })
	rows := again.await(t, 2)
	stop()
	if len(rows) != 2 || rows["last"].Outcome != Answered || rows["open"].Outcome != Lost {
		t.Errorf("%d rows came: %+v", len(rows), rows)
	}
	if len(settled) != 1 || settled[0].ID != "open" {
		t.Errorf("settled were %+v", settled)
	}
	if got := folders(t, dir); len(got) != 1 {
		t.Errorf("there are %v, want the folder of the living alone", got)
	}
}

// Lost rows are settled at once, even while the sink is down, and the living are left alone.
func TestAdoptionSettlesWithoutTheSink(t *testing.T) {
	dir := t.TempDir()
	living := openSpool(t, SpoolOptions{Dir: dir})
	alive := begin(t, living, "alive")
	for i := range 3 {
		dead := openSpool(t, SpoolOptions{Dir: dir})
		begin(t, dead, fmt.Sprint("dead-", i)).Delivered(1)
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
	}
	to := newLedger()
	to.setDown(errors.New("no connection"))
	next := openSpool(t, SpoolOptions{Dir: dir})
	settled := make(chan Row, 10)
	stop := drain(t, next, to, func(r Row) { settled <- r })
	for range 3 {
		if r := <-settled; r.Outcome != Lost || !strings.HasPrefix(r.ID, "dead-") {
			t.Errorf("settled was %+v", r)
		}
	}
	to.setDown(nil)
	rows := to.await(t, 3)
	stop()
	if _, ok := rows["alive"]; ok || len(rows) != 3 {
		t.Errorf("rows are %v", rows)
	}
	end(t, alive, 1)
	if b := next.Snapshot(); b.Lost != 3 {
		t.Errorf("the backlog is %+v", b)
	}
}

func TestDamagedFolder(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, SpoolOptions{Dir: dir})
	for i := range 10 {
		end(t, begin(t, s, fmt.Sprint(i)), 1)
	}
	open := begin(t, s, "open")
	open.Delivered(7)
	path := filepath.Join(s.dir, segmentsOf(t, s)[0])
	var at int64
	for _, e := range s.open {
		if e == open {
			at = e.off
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at-5] ^= 1 // in the row of 9
	b = append(b, frameMark[:]...)
	if err := os.WriteFile(path, append(b, 99, 0), 0o600); err != nil {
		t.Fatal(err)
	}

	to := newLedger()
	next := openSpool(t, SpoolOptions{Dir: dir})
	stop := drain(t, next, to, nil)
	rows := to.await(t, 11)
	stop()
	if rows["8"].Outcome != Answered || rows["9"].Outcome != Lost || rows["open"].Usage.Output != 7 {
		t.Errorf("rows are %+v", rows)
	}
	if b := next.Snapshot(); b.Corrupt != 1 || b.Lost != 2 {
		t.Errorf("the backlog is %+v", b)
	}
}

func TestFull(t *testing.T) {
	s := openSpool(t, SpoolOptions{MaxBytes: 2000})
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
		end(t, e, 1) // what has begun may end
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
	s, to := openSpool(t, SpoolOptions{Logger: slog.New(&log)}), newLedger()
	e := begin(t, s, "a")
	good := s.segs[0].file
	bad, err := os.Open(filepath.Join(s.dir, segmentName(1))) // cannot be written
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
		if err := e.End(Row{}); err == nil {
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
	if want := []string{"usage spool cannot be written", "usage spool can be written again"}; !slices.Equal(log.said, want) {
		t.Errorf("logged was %q, want %q", log.said, want)
	}
}

func TestSyncEach(t *testing.T) {
	s := openSpool(t, SpoolOptions{Sync: true})
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

// A slot that was given to another since, or is not there, counts for nothing.
func TestCountOf(t *testing.T) {
	dir := t.TempDir()
	s := openSpool(t, SpoolOptions{Dir: dir})
	e := begin(t, s, "a")
	e.Delivered(5)
	e.Delivered(-3)
	file, err := os.ReadFile(filepath.Join(s.dir, slotsName))
	if err != nil {
		t.Fatal(err)
	}
	tag := e.slot.tag.Load()
	for _, c := range []struct{ n, tag, want int64 }{{e.n, tag, 5}, {e.n, tag + 1, 0}, {e.n + 1, tag, 0}, {-1, tag, 0}, {stepSlots, tag, 0}, {1 << 60, tag, 0}} {
		if got := countOf(file, c.n, c.tag); got != c.want {
			t.Errorf("countOf(%d, %d) = %d, want %d", c.n, c.tag, got, c.want)
		}
	}
	end(t, e, 5)
	drain(t, s, newLedger(), nil)
	flush(t, s)
}

func TestSlotsGrow(t *testing.T) {
	s, to := openSpool(t, SpoolOptions{}), newLedger()
	var open []*Entry
	for i := range stepSlots + 10 {
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

// Drain may end and begin again. It goes on where it was.
func TestDrainAgain(t *testing.T) {
	s, to := openSpool(t, SpoolOptions{}), newLedger()
	for i := range 3 {
		stop := drain(t, s, to, nil)
		end(t, begin(t, s, fmt.Sprint(i)), 1)
		flush(t, s)
		stop()
	}
	if rows := to.all(); len(rows) != 3 || to.calls != 3 {
		t.Errorf("%d rows in %d calls, want 3 in 3", len(rows), to.calls)
	}
	if b := s.Snapshot(); b.Rows != 0 {
		t.Errorf("the backlog is %+v", b)
	}
}

// A row that breaks on the disk while the process lives is passed over and counted.
func TestOwnRowBreaks(t *testing.T) {
	s, to := openSpool(t, SpoolOptions{}), newLedger()
	for i := range 5 {
		end(t, begin(t, s, fmt.Sprint(i)), 1)
		if i == 1 || i == 4 {
			seg := s.segs[0]
			if _, err := seg.file.WriteAt([]byte{0xff}, seg.size-1); err != nil {
				t.Fatal(err)
			}
		}
	}
	drain(t, s, to, nil)
	flush(t, s)
	if rows := to.all(); len(rows) != 3 {
		t.Errorf("%d rows came, want 3", len(rows))
	}
	if b := s.Snapshot(); b.Rows != 0 || b.Corrupt != 2 {
		t.Errorf("the backlog is %+v", b)
	}
	end(t, begin(t, s, "next"), 1)
	flush(t, s)
	if rows := to.all(); len(rows) != 4 {
		t.Errorf("%d rows came, want 4", len(rows))
	}
}

// A stalled sink is left when Drain has to end.
func TestCloseEndsDrain(t *testing.T) {
	s, to := openSpool(t, SpoolOptions{}), newLedger()
	to.setDown(errors.New("no connection"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Drain(context.Background(), to, nil)
	}()
	end(t, begin(t, s, "a"), 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := s.Flush(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Flush after Close: %v", err)
	}
	if names := folders(t, s.o.Dir); len(names) != 1 {
		t.Errorf("left are %v, want the folder with the row", names)
	}
}
