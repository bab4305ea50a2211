package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestLongStream checks that an open request keeps no old segments on disk, and is not lost when
// its record is moved.
func TestLongStream(t *testing.T) {
	dir := t.TempDir()
	s, to := openSpool(t, Options{Dir: dir, segmentSize: 4 << 10}), newLedger()
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
	if _, err := long.End(usage.Row{}); !errors.Is(err, ErrClosed) {
		t.Errorf("End after Close: %v", err)
	}
	next := openSpool(t, Options{Dir: dir})
	drain(t, next, to, nil)
	row := to.await(t, 2001)["long"]
	if row.Outcome != usage.Lost || row.Usage != (llm.Usage{Input: 10, Output: 42}) || !row.Estimated || row.Cost == nil || *row.Cost != 10*1000+42*10_000 {
		t.Errorf("the row is %+v with a cost of %v", row, row.Cost)
	}
}

func TestSinkIsDown(t *testing.T) {
	dir := t.TempDir()
	s, to := openSpool(t, Options{Dir: dir}), newLedger()
	to.setDown(errors.New("no connection"))
	stop := drain(t, s, to, nil)
	for i := range 1200 {
		end(t, begin(t, s, fmt.Sprint(i)), 1)
	}
	wait(t, "the sink refuses rows", func() bool { return to.refused() > 1 })
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

	// The next process sends the remaining rows, and no others.
	again := newLedger()
	next := openSpool(t, Options{Dir: dir})
	again.logs[s.Name()] = 1200
	stop = drain(t, next, again, nil)
	rows := again.await(t, 2)
	wait(t, "the folder is removed", func() bool { return len(folders(t, dir)) == 1 })
	stop()
	if len(rows) != 2 || rows["last"].Outcome != usage.Answered || rows["open"].Outcome != usage.Lost {
		t.Errorf("%d rows came: %+v", len(rows), rows)
	}
}

// refused returns the number of batches that the ledger has refused.
func (l *ledger) refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.downs
}

// wait waits until a condition holds.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testrig.Eventually(t, what, ok)
}

// counters are counters that tests read.
type counters struct {
	mu    sync.Mutex
	spent map[string]usage.Money // by log and account
	until time.Time              // zero: now
}

func (c *counters) SetTotal(t usage.Total) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spent == nil {
		c.spent = map[string]usage.Money{}
	}
	c.spent[t.Log+" "+t.Account] = t.Spent
}

func (c *counters) CountedUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until.IsZero() {
		return time.Now()
	}
	return c.until
}

func (c *counters) of(log, account string) usage.Money {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spent[log+" "+account]
}

// TestAdoptionCountsWithoutTheSink checks that what dead processes have spent is counted while the
// sink is down, and that folders of live processes are not touched.
func TestAdoptionCountsWithoutTheSink(t *testing.T) {
	dir := t.TempDir()
	living := openSpool(t, Options{Dir: dir})
	alive := begin(t, living, "alive")
	var logs []string
	for i := range 3 {
		dead := openSpool(t, Options{Dir: dir})
		e, err := dead.Begin(Opening{ID: fmt.Sprint("dead-", i), Key: "k", Org: "o", Began: time.Now(), Price: &usage.Price{Output: 1e9}})
		if err != nil {
			t.Fatal(err)
		}
		e.Delivered(7)
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, dead.Name())
	}
	to := newLedger()
	to.setDown(errors.New("no connection"))
	next := openSpool(t, Options{Dir: dir})
	var c counters
	stop := drain(t, next, to, &c)
	for _, log := range logs {
		wait(t, "the lost requests are counted", func() bool { return c.of(log, "key:k") == 7000 && c.of(log, "org:o") == 7000 })
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
	s := openSpool(t, Options{Dir: dir})
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
	b[at-5] ^= 1 // in the row of request 9
	b = append(b, frameMark[:]...)
	if err := os.WriteFile(path, append(b, 99, 0), 0o600); err != nil {
		t.Fatal(err)
	}

	to := newLedger()
	next := openSpool(t, Options{Dir: dir})
	stop := drain(t, next, to, nil)
	rows := to.await(t, 11)
	stop()
	if rows["8"].Outcome != usage.Answered || rows["9"].Outcome != usage.Lost || rows["open"].Usage.Output != 7 {
		t.Errorf("rows are %+v", rows)
	}
	if b := next.Snapshot(); b.Corrupt != 1 || b.Lost != 2 {
		t.Errorf("the backlog is %+v", b)
	}
}

// TestDrainAgain checks that a second Drain continues where the first ended.
func TestDrainAgain(t *testing.T) {
	s, to := openSpool(t, Options{}), newLedger()
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

// TestOwnRowBreaks checks that a row that is corrupted on disk is skipped and counted.
func TestOwnRowBreaks(t *testing.T) {
	s, to := openSpool(t, Options{}), newLedger()
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

// TestCloseEndsDrain checks that Drain ends while the sink blocks.
func TestCloseEndsDrain(t *testing.T) {
	s, to := openSpool(t, Options{}), newLedger()
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

// TestOddFolders checks that unknown and incomplete folders block nothing.
func TestOddFolders(t *testing.T) {
	dir := t.TempDir()
	dead := openSpool(t, Options{Dir: dir})
	begin(t, dead, "a")
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	// A segment that cannot be read as a file.
	if err := os.Mkdir(filepath.Join(dead.dir, segmentName(2)), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".new-long-ago", ".new-just-now", ".old-half-removed", "somebody's", "run-empty"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, ".new-long-ago"), past, past); err != nil {
		t.Fatal(err)
	}
	to := newLedger()
	adoptFolders(t, dir, to)
	if rows := to.all(); len(rows) != 1 || rows["a"].Outcome != usage.Lost {
		t.Errorf("rows are %+v", rows)
	}
	want := []string{".new-just-now", "somebody's", "unread-" + filepath.Base(dead.dir)}
	if got := folders(t, dir); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

// adoptFolders adopts all folders, once.
func adoptFolders(t *testing.T, dir string, to Sink) Backlog {
	t.Helper()
	s, err := Open(Options{Dir: dir, Node: "parent", Keep: -1})
	if err != nil {
		t.Fatal(err)
	}
	a := adopter{s: s, to: to, sending: make(chan struct{}, 1)}
	a.adoptAll(t.Context())
	a.work.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.Snapshot()
}

// TestLabelsSurviveACrash checks that the next process sends the labels of rows that ended and of
// requests that had not.
func TestLabelsSurviveACrash(t *testing.T) {
	dir, want := t.TempDir(), sampleLabels()
	s := openSpool(t, Options{Dir: dir})
	for _, id := range []string{"ended", "open"} {
		o := sampleOpening(id)
		o.Labels = want
		e, err := s.Begin(o)
		if err != nil {
			t.Fatal(err)
		}
		if row := sampleRow(id); id == "ended" {
			row.Labels = want
			if _, err := e.End(row); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	to := newLedger()
	drain(t, openSpool(t, Options{Dir: dir}), to, nil)
	rows := to.await(t, 2)
	if rows["ended"].Outcome != usage.Answered || rows["open"].Outcome != usage.Lost {
		t.Errorf("%+v", rows)
	}
	for id, row := range rows {
		if !reflect.DeepEqual(row.Labels, want) {
			t.Errorf("%s has %+v", id, row.Labels)
		}
	}
}
