package spool

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// spend serves a request of the key k in the organisation o.
func spend(t testing.TB, s *Spool, id string, cost usage.Money) usage.Totals {
	t.Helper()
	e, err := s.Begin(Opening{ID: id, Key: "k", Org: "o", Began: time.Now(), Reserved: 2 * cost})
	if err != nil {
		t.Fatal(err)
	}
	totals, err := e.End(usage.Row{Key: "k", Org: "o", Began: time.Now(), Outcome: usage.Answered, Cost: &cost})
	if err != nil {
		t.Fatal(err)
	}
	return totals
}

func TestTotals(t *testing.T) {
	s := openSpool(t, Options{})
	spend(t, s, "a", 5)
	if got := spend(t, s, "b", 7); got != (usage.Totals{Key: 12, Org: 12}) {
		t.Errorf("the totals are %+v", got)
	}
	cost := usage.Money(3)
	if got := s.Unrecorded(usage.Row{Key: "other", Team: "t", Org: "o", Cost: &cost}); got != (usage.Totals{Key: 3, Team: 3, Org: 15}) {
		t.Errorf("the totals are %+v", got)
	}
	for account, want := range map[string]usage.Money{"key:k": 12, "key:other": 3, "team:o/t": 3, "org:o": 15} {
		if logs, _ := s.Spent(account); len(logs) != 1 || logs[0].Spent != want || logs[0].Log != s.Name() || logs[0].Org != "o" {
			t.Errorf("%s has spent %+v, want %d", account, logs, want)
		}
	}
	if logs, _ := s.Spent("key:none"); logs != nil {
		t.Errorf("a key without requests has spent %+v", logs)
	}
}

// TestSinkGoesBack sets the sink back to an older state, as a standby that was promoted. The rows that
// it lost are sent again.
func TestSinkGoesBack(t *testing.T) {
	s, to := openSpool(t, Options{Keep: time.Hour, segmentSize: 4 << 10}), newLedger()
	drain(t, s, to, nil)
	for i := range 1500 {
		spend(t, s, fmt.Sprint(i), 1)
	}
	flush(t, s)
	to.mu.Lock()
	to.logs[s.Name()] = 600
	for i := 600; i < 1500; i++ {
		delete(to.rows, fmt.Sprint(i))
	}
	to.mu.Unlock()
	spend(t, s, "next", 1)
	if rows := to.await(t, 1501); len(rows) != 1501 {
		t.Errorf("%d rows, want 1501", len(rows))
	}
	flush(t, s)
	if b := s.Snapshot(); b.Rows != 0 {
		t.Errorf("the backlog is %+v", b)
	}
}

// TestSinkGoesBackAfterRestart sets the sink back to an older state after the process has ended. The next process
// sends the lost rows again.
func TestSinkGoesBackAfterRestart(t *testing.T) {
	dir := t.TempDir()
	s, to := openSpool(t, Options{Dir: dir, Keep: time.Hour}), newLedger()
	stop := drain(t, s, to, nil)
	for i := range 100 {
		spend(t, s, fmt.Sprint(i), 1)
	}
	flush(t, s)
	stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	old := newLedger()
	old.logs[s.Name()] = 40
	next := openSpool(t, Options{Dir: dir, Keep: time.Hour})
	var c counters
	stop = drain(t, next, old, &c)
	old.await(t, 60)
	stop()
	if got := c.of(s.Name(), "key:k"); got != 0 {
		t.Errorf("the counters had everything when the process ended, and %d is counted again", got)
	}
	if names := folders(t, dir); len(names) != 2 {
		t.Errorf("there are %v, want two folders: the rows stay for an hour", names)
	}
	if logs, _ := next.Spent("key:k"); len(logs) != 1 || logs[0].Spent != 100 || logs[0].Log != s.Name() {
		t.Errorf("the key has spent %+v in the logs", logs)
	}
}

// TestCountersAreBehind ends a process before the counters have everything. The next one counts it.
func TestCountersAreBehind(t *testing.T) {
	dir := t.TempDir()
	s, to := openSpool(t, Options{Dir: dir}), newLedger()
	behind := counters{until: time.Now().Add(-time.Minute)}
	stop := drain(t, s, to, &behind)
	spend(t, s, "a", 5)
	spend(t, s, "b", 6)
	flush(t, s)
	stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	next := openSpool(t, Options{Dir: dir})
	var c counters
	stop = drain(t, next, to, &c)
	wait(t, "the total is counted", func() bool { return c.of(s.Name(), "key:k") == 11 && c.of(s.Name(), "org:o") == 11 })
	wait(t, "the log is finished", func() bool {
		to.mu.Lock()
		defer to.mu.Unlock()
		return len(to.done) == 1 && to.done[0] == s.Name()
	})
	stop()
	if rows := to.all(); len(rows) != 2 {
		t.Errorf("%d rows, want 2", len(rows))
	}
}

// TestOtherProcess checks that a process knows what another one with the same folder spends and
// reserves, while both serve.
func TestOtherProcess(t *testing.T) {
	dir := t.TempDir()
	old := openSpool(t, Options{Dir: dir, segmentSize: 4 << 10})
	spend(t, old, "a", 5)
	stream, err := old.Begin(Opening{ID: "stream", Key: "k", Org: "o", Began: time.Now(), Reserved: 20})
	if err != nil {
		t.Fatal(err)
	}
	young := openSpool(t, Options{Dir: dir})
	if !young.Shared() {
		t.Fatal("the new process does not see the old one")
	}
	check := func(spent, reserved usage.Money) {
		t.Helper()
		for _, account := range []string{"key:k", "org:o"} {
			logs, held := young.Spent(account)
			if len(logs) != 1 || logs[0].Spent != spent || logs[0].Log != old.Name() || held != reserved {
				t.Errorf("%s has spent %+v and reserved %d in the other process, want %d and %d", account, logs, held, spent, reserved)
			}
		}
	}
	check(5, 20)
	stream.Reserve(30)
	check(5, 30)
	for i := range 50 { // several segments
		spend(t, old, fmt.Sprint(i), 1)
	}
	check(55, 30)
	cost := usage.Money(17)
	if _, err := stream.End(usage.Row{Key: "k", Org: "o", Cost: &cost}); err != nil {
		t.Fatal(err)
	}
	check(72, 0)
	wait(t, "the old process sees the new one", func() bool { return old.Shared() })
}

// TestLongCounterOutage checks that segments stay until the counters have them.
func TestLongCounterOutage(t *testing.T) {
	s, to := openSpool(t, Options{segmentSize: 4 << 10}), newLedger()
	c := counters{until: time.Now().Add(-time.Minute)}
	drain(t, s, to, &c)
	for i := range 200 {
		spend(t, s, fmt.Sprint(i), 1)
	}
	flush(t, s)
	many := len(segmentsOf(t, s))
	c.mu.Lock()
	c.until = time.Time{}
	c.mu.Unlock()
	spend(t, s, "last", 1)
	flush(t, s)
	wait(t, "the segments are removed", func() bool { return len(segmentsOf(t, s)) <= 2 })
	if many < 5 {
		t.Errorf("%d segments were kept for the counters", many)
	}
	if _, err := s.Begin(Opening{}); err == nil || errors.Is(err, ErrClosed) {
		t.Errorf("a request without an id: %v", err)
	}
}
