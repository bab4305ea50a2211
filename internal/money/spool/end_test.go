package spool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// TestLongTexts ends a request with texts that are longer than a record.
func TestLongTexts(t *testing.T) {
	s, to := openSpool(t, Options{}), newLedger()
	drain(t, s, to, nil)
	long := strings.Repeat("ü", 1<<20)
	e, err := s.Begin(Opening{ID: "a", Model: long, Target: long})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.End(usage.Row{Outcome: usage.Answered, Target: long, Attempts: []usage.Attempt{{Fault: long, Target: long}}}); err != nil {
		t.Fatal(err)
	}
	flush(t, s)
	row := to.all()["a"]
	if len(row.Attempts) != 1 || row.Attempts[0].Fault != long[:maxText] || row.Target != long[:maxText] {
		t.Errorf("the row has %d attempts and a target of %d bytes", len(row.Attempts), len(row.Target))
	}
}

// TestManyAttempts ends a request whose attempts are too large for a record.
func TestManyAttempts(t *testing.T) {
	s, to := openSpool(t, Options{}), newLedger()
	drain(t, s, to, nil)
	e := begin(t, s, "a")
	if _, err := e.End(usage.Row{Outcome: usage.Answered, Attempts: make([]usage.Attempt, maxBody)}); err != nil {
		t.Fatal(err)
	}
	flush(t, s)
	if row := to.all()["a"]; row.Outcome != usage.Answered || row.Attempts != nil {
		t.Errorf("the row is %s with %d attempts", row.Outcome, len(row.Attempts))
	}
}

// TestEndLater ends a request while its file cannot be written.
func TestEndLater(t *testing.T) {
	s, to := openSpool(t, Options{}), newLedger()
	drain(t, s, to, nil)
	e := begin(t, s, "a")
	broken, err := os.Open(filepath.Join(s.dir, segmentsOf(t, s)[0])) // only for reading
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	seg := s.segs[0]
	file := seg.file
	seg.file = broken
	s.mu.Unlock()
	cost := usage.Money(7)
	row := usage.Row{Key: "k", Outcome: usage.Answered, Cost: &cost}
	if sums, err := e.End(row); err == nil || sums.Key != 7 {
		t.Errorf("End returns %v and totals of %+v", err, sums)
	}
	e.EndLater(row)
	if _, err := e.End(usage.Row{Outcome: usage.Failed}); err != nil { // no effect
		t.Error(err)
	}
	s.mu.Lock()
	seg.file = file
	s.mu.Unlock()
	_ = broken.Close()
	if row = to.await(t, 1)["a"]; row.Outcome != usage.Answered || row.Cost == nil || *row.Cost != 7 {
		t.Errorf("the row is %+v", row)
	}
	if logs, _ := s.Spent("key:k"); len(logs) != 1 || logs[0].Spent != 7 {
		t.Errorf("the key has spent %+v", logs)
	}
	if b := s.Snapshot(); b.Open != 0 {
		t.Errorf("the backlog is %+v", b)
	}
}
