package recent

import (
	"testing"
	"time"
)

// TestTwoGenerations checks that an entry is found in both generations, and not afterwards.
func TestTwoGenerations(t *testing.T) {
	m := New[string, int](1)
	for i, k := range []string{"a", "b", "c"} {
		m.Put(k, i)
	}
	for k, want := range map[string]bool{"a": false, "b": true, "c": true} {
		if v, ok := m.Get(k); ok != want || ok && v == 0 {
			t.Errorf("%s: %d, %v", k, v, ok)
		}
	}
	if m.Len() != 2 || m.IsZero() {
		t.Errorf("%d entries", m.Len())
	}
}

// TestSet checks that a member leaves the set after its time.
func TestSet(t *testing.T) {
	s, now := NewSet[string](10, time.Second), time.Now()
	s.Add("a", now)
	for after, want := range map[time.Duration]bool{0: true, 999 * time.Millisecond: true, time.Second: false} {
		if s.Has("a", now.Add(after)) != want {
			t.Errorf("after %v: %v", after, !want)
		}
	}
	if s.Has("b", now) {
		t.Error("b was not added")
	}
	if s.Clear(); s.Has("a", now) {
		t.Error("a was removed")
	}
}
