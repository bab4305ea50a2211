package quota

import (
	"math"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
)

// TestForgedReplies parses replies that a script does not send.
func TestForgedReplies(t *testing.T) {
	state := make([]int64, script.StateSize)
	for _, values := range [][]int64{
		{}, {script.Granted}, {script.Refused, 1, 1, 0, 0}, {script.Unseeded, 7, 0, 0, 0}, {script.Unseeded, -1, 0, 0, 0},
		append([]int64{script.Refused, 5, 1, 0, 0}, state...), append([]int64{script.Refused, -1, 1, 0, 0}, state...),
		append([]int64{script.Refused, 0, 9, 0, 0}, state...), append([]int64{script.Refused, 0, -1, 0, 0}, state...), append([]int64{script.Granted, 3, 0, 0, 0}, state...),
	} {
		if got, err := script.Parse(values, 1); err == nil {
			t.Errorf("%v is read as %+v", values, got)
		}
	}
	for i := range state {
		state[i] = math.MinInt64
	}
	got, err := script.Parse(append([]int64{script.Refused, 0, 4, math.MaxInt64, 0}, state...), 1)
	if err != nil {
		t.Fatal(err)
	}
	if r := refusalOf(&Request{Accounts: []Account{{}}}, got); r.RetryAfter < 0 || r.Reason != Budget {
		t.Errorf("the refusal is %+v", r)
	}
	if got.State(0)[script.StateSpent] != 0 {
		t.Error("a negative sum is believed: it raises the budget")
	}
	for i := range state {
		state[i] = math.MaxInt64
	}
	if got, err = script.Parse(append([]int64{script.Granted, 0, 0, 0, 0}, state...), 1); err != nil || got.State(0)[script.StateSpent]+got.State(0)[script.StateReserved] < 0 {
		t.Errorf("sums overflow: %+v, %v", got, err)
	}
}

// TestForgedAccount checks that a record of another length is not read.
func TestForgedAccount(t *testing.T) {
	for _, n := range []int{0, 8, 8 * 14} {
		if got, err := script.Unpack(make([]byte, n)); err == nil {
			t.Errorf("%d bytes are read as %+v", n, got)
		}
	}
}

// TestForgedLeases checks that a Redis that names another lease for every reservation does
// not let the list of leases grow.
func TestForgedLeases(t *testing.T) {
	k := &mirrorAccount{}
	for id := range int64(1000) {
		l, _ := k.leaseFor(id + 1)
		l.add(1, 1)
		l.add(-1, -1)
	}
	if len(k.leases) > 2 {
		t.Errorf("%d leases", len(k.leases))
	}
}

// TestUndosAreBounded checks that reservations without a reply do not fill the memory.
func TestUndosAreBounded(t *testing.T) {
	q := newQueue(10)
	for range 1000 {
		q.put(undo(&Request{}, "x", amounts{}))
	}
	if items, _ := q.size(); items > 20 {
		t.Errorf("%d undos wait", items)
	}
}
