package quota

import (
	"math"
	"testing"
)

// TestForgedReplies parses replies that a script does not send.
func TestForgedReplies(t *testing.T) {
	state := make([]int64, stateSize)
	for _, values := range [][]int64{
		{}, {granted}, {refused, 1, 1, 0, 0}, {unseeded, 7, 0, 0, 0}, {unseeded, -1, 0, 0, 0},
		append([]int64{refused, 5, 1, 0, 0}, state...), append([]int64{refused, -1, 1, 0, 0}, state...),
		append([]int64{refused, 0, 9, 0, 0}, state...), append([]int64{refused, 0, -1, 0, 0}, state...), append([]int64{granted, 3, 0, 0, 0}, state...),
	} {
		if got, err := parse(values, 1); err == nil {
			t.Errorf("%v is read as %+v", values, got)
		}
	}
	for i := range state {
		state[i] = math.MinInt64
	}
	got, err := parse(append([]int64{refused, 0, 4, math.MaxInt64, 0}, state...), 1)
	if err != nil {
		t.Fatal(err)
	}
	if r := got.refusal(&Request{Accounts: []Account{{}}}); r.RetryAfter < 0 || r.Reason != Budget {
		t.Errorf("the refusal is %+v", r)
	}
	if got.state(0)[stateSpent] != 0 {
		t.Error("a negative sum is believed: it raises the budget")
	}
	for i := range state {
		state[i] = math.MaxInt64
	}
	if got, err = parse(append([]int64{granted, 0, 0, 0, 0}, state...), 1); err != nil || got.state(0)[stateSpent]+got.state(0)[stateReserved] < 0 {
		t.Errorf("sums overflow: %+v, %v", got, err)
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
