package main

import (
	"slices"
	"testing"
	"time"
)

// TestShrink shrinks histories that fail because of some of their faults.
func TestShrink(t *testing.T) {
	list := randomHistory(7, 60*time.Second)
	if len(list) < 10 || !slices.Equal(list, randomHistory(7, 60*time.Second)) || slices.Equal(list, randomHistory(8, 60*time.Second)) {
		t.Fatalf("%d events of a seed", len(list))
	}
	for _, needed := range [][]event{list[3:4], {list[1], list[len(list)-1]}, {list[2], list[3], list[9]}, list, nil} {
		played := 0
		fails := func(some []event) bool {
			played++
			return !slices.ContainsFunc(needed, func(e event) bool { return !slices.Contains(some, e) })
		}
		if got := shrink(list, 1000, fails); !slices.Equal(got, needed) {
			t.Errorf("%s\nwant %s", textOf(got), textOf(needed))
		}
		if played > 5*len(list) {
			t.Errorf("%d histories are played for %d events", played, len(list))
		}
		played = 0
		shrink(list, shrinkPlays, fails)
		if played > shrinkPlays {
			t.Errorf("%d histories are played, want at most %d", played, shrinkPlays)
		}
	}
}

// TestHistoriesOfAKey checks that a failing history of one key does not fail that of another.
func TestHistoriesOfAKey(t *testing.T) {
	b := consistent()
	other := consistent()
	other.rows = other.rows[1:]
	for i := range other.exchanges {
		other.exchanges[i].key, other.exchanges[i].tag, other.exchanges[i].id = "other", "other "+other.exchanges[i].tag, "other "+other.exchanges[i].id
	}
	for i := range other.attempts {
		other.attempts[i].tag = "other " + other.attempts[i].tag
	}
	for i := range other.rows {
		other.rows[i].key, other.rows[i].id = "other", "other "+other.rows[i].id
	}
	b.exchanges, b.attempts, b.rows = append(b.exchanges, other.exchanges...), append(b.attempts, other.attempts...), append(b.rows, other.rows...)
	if wrong := b.of("k").compare(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	if wrong := b.of("other").compare(); len(wrong) != 2 { // it is missing, so another row is that of a request without an id
		t.Errorf("%q, want a missing row and what follows", wrong)
	}
}
