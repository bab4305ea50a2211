package allowance

import (
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// TestUnusable checks that an allowance is not used after its reservation may have ended in Redis.
func TestUnusable(t *testing.T) {
	var a Allowance
	a.Grant(0, 100, 1000)
	if !a.Take(999, 10) || a.Take(1000, 10) {
		t.Error("an allowance is used after its time, or not before it")
	}
	a.Renew(2000)
	if !a.Take(1000, 10) {
		t.Error("a renewed allowance is not used")
	}
	if a.Lose(); a.Take(1001, 1) {
		t.Error("a lost allowance is used")
	}
}

// TestSpentMore checks that a request that spends more than it has reserved does not return more than was reserved.
func TestSpentMore(t *testing.T) {
	var a Allowance
	a.Grant(0, 10, 1000)
	a.Take(1, 10)
	a.Settle(10, 25, 25, time.Time{})
	if r := a.End(); r != (Report{10, 25}) || !a.IsEmpty() {
		t.Errorf("the report is %+v", r)
	}
}

// TestReport checks that a report has what was spent and what is not needed.
func TestReport(t *testing.T) {
	var a Allowance
	for now := range int64(2000) { // a thousand requests a second
		a.Count(now, 1)
	}
	if got := a.Refill(2000, 1, 1_000_000, 1); got < 1900 || got > 2100 {
		t.Errorf("a refill of %d, want two seconds", got)
	}
	if got := a.Refill(2000, 1, 800, 10); got != 10 {
		t.Errorf("a refill of %d, want an eightieth of what is left", got)
	}
	a.Grant(2000, 5000, 100_000)
	a.Take(2000, 1000)
	a.Settle(1000, 300, 300, time.Time{})
	if _, due := a.Report(2100, 1_000_000, 1); due {
		t.Error("a report is due after 100 ms")
	}
	r, due := a.Report(3000, 1_000_000, 1)
	if kept := a.Free(); !due || r.Total != 300 || r.Reserved+kept != 5000 || kept < 1900 || kept > 2100 {
		t.Errorf("the report is %+v, %d are kept", r, kept)
	}
	if r, due := a.Report(9000, 1_000_000, 1); !due || r.Reserved == 0 || a.Free() != 0 {
		t.Errorf("without requests the report is %+v, %d are kept", r, a.Free())
	}
}

// TestRefused checks that a refusal applies for a moment to requests that cost as much or more.
func TestRefused(t *testing.T) {
	var a Allowance
	a.Refuse(0, 100, 1000)
	if !a.Refused(249, 100) || a.Refused(250, 100) || a.Refused(1, usage.Money(99)) {
		t.Error("a refusal of 100 with 1,000 nodes counts for another time, or for less")
	}
}
