package balance

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

func TestHistoryCountsTokens(t *testing.T) {
	h := &History{}
	h.Seen("b", Session{}, 100, 80)
	h.Seen("a", Session{}, 50, 0)
	h.Seen("b", Session{}, 100, 20)
	h.Seen("b", Session{}, 0, 0)     // no usage reported
	h.Seen("c", Session{}, 10, 4711) // capped at the input tokens
	h.Seen("c", Session{}, 10, -1)
	want := []Tokens{{"a", 50, 0}, {"b", 200, 100}, {"c", 20, 10}}
	if got := h.Targets(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if s := h.Targets()[1].Share(); s != 0.5 {
		t.Error(s)
	}
	if s := (Tokens{}).Share(); s != 0 {
		t.Error(s)
	}
	h.Forget(func(id string) bool { return id != "a" })
	if got := h.Targets(); !slices.Equal(got, want[:1]) {
		t.Error(got)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	h := &History{}
	for i := range 3 * window {
		h.Seen(fmt.Sprint(i), Session{Prefixes: []uint64{uint64(i), 1}}, 1, 1)
	}
	if len(h.seen) > window || len(h.tokens) > maxTargets {
		t.Errorf("%d prefixes, %d targets", len(h.seen), len(h.tokens))
	}
	sum := 0
	for _, n := range h.seen {
		sum += n
	}
	if sum != h.counted {
		t.Errorf("counted %d, there are %d", h.counted, sum)
	}
}

// TestHistoryForgets checks that a common prefix that is no longer used becomes uncommon.
func TestHistoryForgets(t *testing.T) {
	h := &History{}
	see := func(prefix uint64, n int) {
		for range n {
			h.Seen("a", Session{Prefixes: []uint64{prefix, 0}}, 0, 0)
		}
	}
	see(1, window/2)
	if !h.common(1, 8) {
		t.Error("half of all requests are not common")
	}
	see(2, 4*window)
	if h.common(1, 8) || !h.common(2, 8) {
		t.Error("the past is not forgotten")
	}
}

func TestHistoryConcurrentUse(t *testing.T) {
	h := &History{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				s := Session{Prefixes: []uint64{uint64(i % 5), uint64(i)}, History: h}
				Order(CacheAware, fleet(3), s)
				h.Seen("a", s, 2, 1)
				h.Targets()
			}
		})
	}
	wg.Wait()
	if got := h.Targets()[0]; got.Prompt != 8000 || got.Cached != 4000 {
		t.Error(got)
	}
}
