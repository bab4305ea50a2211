package refusals

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// memory is a sink that keeps the highest count of each place, as a store does.
type memory struct {
	mu     sync.Mutex
	counts map[usage.RefusalCount]int64
	rows   map[string]usage.Row
	err    error
	calls  int
}

func newMemory() *memory {
	return &memory{counts: map[usage.RefusalCount]int64{}, rows: map[string]usage.Row{}}
}

func (m *memory) AppendRefusals(_ context.Context, b usage.Refusals) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.err != nil {
		return m.err
	}
	for _, c := range b.Counts {
		at := c
		at.Count = 0
		m.counts[at] = max(m.counts[at], c.Count)
	}
	for _, r := range b.Rows {
		m.rows[r.ID] = r
	}
	return nil
}

// total returns the sum of the counts that are selected.
func (m *memory) total(selected func(c usage.RefusalCount) bool) (n int64) {
	for c, count := range m.counts {
		if selected(c) {
			n += count
		}
	}
	return n
}

func all(usage.RefusalCount) bool { return true }

func recorder(t *testing.T, folder string) *Recorder {
	t.Helper()
	return New(Options{Folder: folder, Node: "gw", Log: t.Name()[strings.LastIndex(t.Name(), "/")+1:] + fmt.Sprint(time.Now().UnixNano()), Owner: func(id string) (Owner, bool) {
		return Owner{Org: "acme", Team: "t", Person: ""}, id == "known"
	}})
}

// note returns a refusal of a key.
func note(n int, key string, reason usage.Reason, at time.Time) *Note {
	return &Note{At: at, Row: usage.Row{ID: fmt.Sprint(key, reason, n), Key: key, Org: "acme", Began: at, Status: 429}, Told: usage.Told{Reason: reason, Message: "wait"}}
}

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// TestFlood records 20,000 refusals a second of one key for over a minute, and fewer of others: the counts are exact,
// and no second has more than 20 rows.
func TestFlood(t *testing.T) {
	r, sink := recorder(t, t.TempDir()), newMemory()
	const seconds, each = 75, 20_000
	for second := range seconds {
		at := noon.Add(time.Duration(second) * time.Second)
		for i := range each {
			r.Add(note(second*each+i, "flood", usage.RefusedLimit, at))
		}
		for i := range 3 {
			r.Add(note(second*3+i, "other", usage.RefusedBudget, at))
		}
		r.Flush(t.Context(), sink)
	}
	if n := sink.total(func(c usage.RefusalCount) bool { return c.Key == "flood" && c.Reason == usage.RefusedLimit }); n != seconds*each {
		t.Errorf("%d refusals, want %d", n, seconds*each)
	}
	if n := sink.total(func(c usage.RefusalCount) bool { return c.Key == "other" }); n != seconds*3 {
		t.Errorf("%d refusals, want %d", n, seconds*3)
	}
	if len(sink.counts) != 4 {
		t.Errorf("%d counts of two keys and two minutes", len(sink.counts))
	}
	perSecond, perKey := map[time.Time]int{}, map[string]int{}
	for _, row := range sink.rows {
		perSecond[row.Began]++
		perKey[row.Key]++
		if row.Outcome != usage.Refused || row.Cost == nil || *row.Cost != 0 || row.Node != "gw" || row.Told.Message != "wait" {
			t.Fatalf("%+v", row)
		}
	}
	for at, n := range perSecond {
		if n > rowsSecond {
			t.Errorf("%d rows in the second %s", n, at)
		}
	}
	// The first ten of a minute, then one in each later second.
	if want := 10 + 59 + 10 + 14; perKey["flood"] != want {
		t.Errorf("%d rows of the flood, want %d", perKey["flood"], want)
	}
	if want := 10 + 56 + 10 + 11; perKey["other"] != want { // three in each of three seconds, and the tenth in the fourth
		t.Errorf("%d rows of the other key, want %d", perKey["other"], want)
	}
}

// TestConcurrentAdds records from many goroutines while batches are sent.
func TestConcurrentAdds(t *testing.T) {
	r, sink := recorder(t, t.TempDir()), newMemory()
	var senders sync.WaitGroup
	for g := range 8 {
		senders.Go(func() {
			for i := range 5000 {
				r.Add(note(g*5000+i, "k", usage.RefusedLimit, noon))
			}
		})
	}
	done := make(chan struct{})
	go func() { senders.Wait(); close(done) }()
	for flushing := true; flushing; {
		select {
		case <-done:
			flushing = false
		default:
		}
		r.Flush(t.Context(), sink)
	}
	if n := sink.total(all); n != 40_000 {
		t.Errorf("%d refusals, want 40000", n)
	}
}

// TestManyKeys records refusals of more keys than there is room for: the total is exact, and what has no room is
// counted without a key.
func TestManyKeys(t *testing.T) {
	r, sink := recorder(t, t.TempDir()), newMemory()
	const keys, minutes = 5 * maxPairs, 3
	for minute := range minutes {
		for i := range keys {
			r.Add(note(i, fmt.Sprint("k", i), usage.RefusedLimit, noon.Add(time.Duration(minute)*time.Minute)))
		}
		r.Flush(t.Context(), sink)
	}
	if n := sink.total(all); n != keys*minutes {
		t.Errorf("%d refusals, want %d", n, keys*minutes)
	}
	if n := sink.total(func(c usage.RefusalCount) bool { return c.Key == "" }); n != (keys-maxPairs)*minutes {
		t.Errorf("%d without a key, want %d", n, (keys-maxPairs)*minutes)
	}
	if len(r.tally.counts) > 2*(maxPairs+1) {
		t.Errorf("%d counts are remembered", len(r.tally.counts))
	}
}

// TestSinkAway records for weeks while the sink fails: what is remembered stays bounded, and the total is exact.
func TestSinkAway(t *testing.T) {
	r, sink := recorder(t, t.TempDir()), newMemory()
	sink.err = errors.New("away")
	var want int64
	for minute := range 30_000 {
		for i := range 2 {
			r.Add(note(minute, fmt.Sprint("k", i), usage.RefusedLimit, noon.Add(time.Duration(minute)*time.Minute)))
			want++
		}
	}
	r.Flush(t.Context(), sink)
	if n := len(r.tally.counts); n > 2*maxCounts || len(r.tally.rows) > maxRows {
		t.Errorf("%d counts and %d rows are remembered", n, len(r.tally.rows))
	}
	sink.err, r.next = nil, time.Time{}
	r.Flush(t.Context(), sink)
	if n := sink.total(all); n != want {
		t.Errorf("%d refusals, want %d", n, want)
	}
	if len(sink.rows) == 0 {
		t.Error("no rows")
	}
}

// TestUnknownKeys checks that a key id that does not exist writes nothing, and that an existing one is counted under
// its owner although its secret was wrong.
func TestUnknownKeys(t *testing.T) {
	folder := t.TempDir()
	r, sink := recorder(t, folder), newMemory()
	for i, id := range []string{"unknown", "known", ""} {
		n := note(i, "", usage.RefusedKey, noon)
		n.Row.Org, n.Claimed = "", id
		r.Add(n)
	}
	r.Flush(t.Context(), sink)
	if n := sink.total(func(c usage.RefusalCount) bool { return c.Key == "known" && c.Org == "acme" && c.Team == "t" }); n != 1 || len(sink.counts) != 1 || len(sink.rows) != 1 {
		t.Errorf("%+v %+v", sink.counts, sink.rows)
	}
}

// TestClockSetBack checks that a total never shrinks when the clock is set back to a minute that was left.
func TestClockSetBack(t *testing.T) {
	r, sink := recorder(t, t.TempDir()), newMemory()
	for _, after := range []time.Duration{0, 59 * time.Minute, time.Minute, 0, 30 * time.Second} {
		for i := range 7 {
			r.Add(note(i, "k", usage.RefusedLimit, noon.Add(after)))
		}
		r.Flush(t.Context(), sink)
	}
	if n := sink.total(all); n != 35 {
		t.Errorf("%d refusals, want 35: %+v", n, sink.counts)
	}
}

// TestKilled checks that a process that is killed loses nothing that it has written, whether or not the sink had it.
func TestKilled(t *testing.T) {
	folder, sink := t.TempDir(), newMemory()
	for name, err := range map[string]error{"stored": nil, "away": errors.New("away")} {
		t.Run(name, func(t *testing.T) {
			r := recorder(t, folder)
			sink.err = err
			for i := range 100 {
				r.Add(note(i, name, usage.RefusedLimit, noon))
			}
			r.Flush(t.Context(), sink) // and then it is killed
		})
	}
	if err := os.WriteFile(filepath.Join(folder, filePrefix+"torn"+fileSuffix), []byte(`{"Counts":[{"Lo`), 0o600); err != nil {
		t.Fatal(err)
	}
	sink.err = nil
	r := recorder(t, folder)
	r.adopt(t.Context(), sink)
	for _, name := range []string{"stored", "away"} {
		if n := sink.total(func(c usage.RefusalCount) bool { return c.Key == name }); n != 100 {
			t.Errorf("%s: %d refusals, want 100", name, n)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestIdle checks that a recorder without refusals calls no sink and leaves no file.
func TestIdle(t *testing.T) {
	folder := t.TempDir()
	r, sink := recorder(t, folder), newMemory()
	r.Add(note(1, "k", usage.RefusedLimit, noon))
	for range 3 {
		r.Flush(t.Context(), sink)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 0 || sink.calls != 1 {
		t.Errorf("%v, %v, %d calls", files, err, sink.calls)
	}
	(*Recorder)(nil).Add(&Note{})
}

// TestRun checks that what was recorded before the end is sent.
func TestRun(t *testing.T) {
	r, sink := recorder(t, t.TempDir()), newMemory()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx, sink) }()
	r.Add(note(1, "k", usage.RefusedLimit, noon))
	stop()
	<-ended
	if n := sink.total(all); n != 1 {
		t.Errorf("%d refusals, want 1", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	r := New(Options{Folder: b.TempDir(), Node: "gw", Log: "log"})
	n := note(1, "k", usage.RefusedLimit, noon)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			r.Add(n)
		}
	})
}
