package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

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

// What is neither a spool nor whole is left, put aside or cleared, and holds up nothing.
func TestOddFolders(t *testing.T) {
	dir := t.TempDir()
	dead := openSpool(t, SpoolOptions{Dir: dir})
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
	if rows := to.all(); len(rows) != 1 || rows["a"].Outcome != Lost {
		t.Errorf("rows are %+v", rows)
	}
	want := []string{".new-just-now", "somebody's", "unread-" + filepath.Base(dead.dir)}
	if got := folders(t, dir); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

// adoptFolders takes over what is there, once.
func adoptFolders(t *testing.T, dir string, to Sink) Backlog {
	t.Helper()
	s, err := OpenSpool(SpoolOptions{Dir: dir, Node: "parent"})
	if err != nil {
		t.Fatal(err)
	}
	a := adopter{s: s, to: to, turn: make(chan struct{}, 1)}
	a.look(t.Context())
	a.work.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.Snapshot()
}
