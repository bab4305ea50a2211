package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// policies lists all policies.
func policies() []Policy { return []Policy{InOrder, Weighted, LeastBusy, Fastest, CacheAware} }

type load struct {
	busy  int
	first time.Duration
}

// cold is a load of a target that has just come back.
type cold struct{ load }

func (cold) Warmth() float64 { return 0.1 }

func (l load) InFlight() int             { return l.busy }
func (l load) FirstToken() time.Duration { return l.first }
func (load) Warmth() float64             { return 1 }

func seeded(seed uint64) func() uint64 { return rand.New(rand.NewPCG(seed, 2)).Uint64 }

func fleet(n int) []Choice {
	all := make([]Choice, n)
	for i := range all {
		all[i] = Choice{ID: fmt.Sprintf("pool/engine-%d", i), Load: load{}}
	}
	return all
}

func ids(choices []Choice, order []int) []string {
	var out []string
	for _, i := range order {
		out = append(out, choices[i].ID)
	}
	return out
}

func TestOrderIsAPermutation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for round := range 1000 {
		choices := fleet(r.IntN(40))
		for i := range choices {
			choices[i].Weight = r.IntN(5) - 1
			choices[i].Load = load{r.IntN(4), time.Duration(r.IntN(3)) * time.Second}
			if r.IntN(5) == 0 {
				choices[i].Load = nil
			}
			if i > 0 && r.IntN(10) == 0 {
				choices[i].ID = choices[i-1].ID
			}
		}
		s := Session{Prefixes: []uint64{r.Uint64(), r.Uint64()}[:r.IntN(3)], Random: r.Uint64}
		if r.IntN(2) == 0 {
			s.History = &History{}
		}
		pinned := len(choices) > 0 && r.IntN(2) == 0
		if pinned {
			s.Pin = choices[r.IntN(len(choices))].ID
		}
		for _, p := range append(policies(), "unheard of") {
			order := Order(p, choices, s)
			if pinned && choices[order[0]].ID != s.Pin {
				t.Fatalf("round %d, %s: %s is first, pinned is %s", round, p, choices[order[0]].ID, s.Pin)
			}
			slices.Sort(order)
			for i := range order {
				if order[i] != i {
					t.Fatalf("round %d, %s: %v", round, p, order)
				}
			}
			if len(order) != len(choices) {
				t.Fatalf("round %d, %s: %d of %d", round, p, len(order), len(choices))
			}
		}
	}
}

func TestInOrder(t *testing.T) {
	if got := Order(InOrder, fleet(4), Session{}); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Error(got)
	}
	// The other choices keep their order behind the pinned one.
	if got := Order(InOrder, fleet(4), Session{Pin: "pool/engine-2"}); !slices.Equal(got, []int{2, 0, 1, 3}) {
		t.Error(got)
	}
	if got := Order(InOrder, fleet(2), Session{Pin: "gone"}); !slices.Equal(got, []int{0, 1}) {
		t.Error(got)
	}
}

func TestAppendOrderAppends(t *testing.T) {
	if got := AppendOrder([]int{9}, InOrder, fleet(2), Session{}); !slices.Equal(got, []int{9, 0, 1}) {
		t.Error(got)
	}
}

// expect fails if a share differs from the expected one by more than five standard
// deviations.
func expect(t *testing.T, what string, got, n int, want float64) {
	t.Helper()
	diff := float64(got) - want*float64(n)
	if diff*diff > 25*float64(n)*want*(1-want) {
		t.Errorf("%s: %d of %d, want a share of %.3f", what, got, n, want)
	}
}

func TestWeightsAreKept(t *testing.T) {
	const n = 20_000
	choices := []Choice{{ID: "a", Weight: 5}, {ID: "b", Weight: 3}, {ID: "c"}, {ID: "d", Weight: 1}}
	random := seeded(3)
	for _, tc := range []struct {
		name   string
		policy Policy
		s      func() Session
	}{
		{"weight", Weighted, func() Session { return Session{Random: random} }},
		{"least-busy, all idle", LeastBusy, func() Session { return Session{Random: random} }},
		{"cache, own prefix", CacheAware, func() Session { return Session{Prefixes: []uint64{random()}} }},
		{"cache, shared prefix", CacheAware, func() Session {
			return Session{Prefixes: []uint64{random(), random()}, History: &History{}}
		}},
	} {
		var first [4]int
		afterA := 0 // how often b follows a
		for range n {
			order := Order(tc.policy, choices, tc.s())
			first[order[0]]++
			if order[0] == 0 && order[1] == 1 {
				afterA++
			}
		}
		for i, want := range []float64{0.5, 0.3, 0.1, 0.1} {
			expect(t, tc.name+" "+choices[i].ID, first[i], n, want)
		}
		if tc.policy == Weighted { // without a, b has three of five parts
			expect(t, "b after a", afterA, first[0], 0.6)
		}
	}
}

func TestLeastBusy(t *testing.T) {
	choices := fleet(4)
	choices[0].Load = load{busy: 9}
	choices[1].Load, choices[1].Weight = load{busy: 9}, 10 // less load per weight than any but the idle choice
	choices[2].Load = load{busy: 1}
	random := seeded(4)
	var first [4]int
	for range 4000 {
		first[Order(LeastBusy, choices, Session{Random: random})[0]]++
	}
	if first[0] != 0 {
		t.Errorf("the busiest of all was chosen %d times", first[0])
	}
	if first[3] < 800 || first[1] < 800 {
		t.Errorf("first: %v", first)
	}
}

func TestFastest(t *testing.T) {
	second := time.Second
	for _, tc := range []struct {
		name string
		a, b load
		want int // -1: either
	}{
		{"the faster", load{0, second}, load{0, 2 * second}, 0},
		{"the slower, for it is idle", load{3, second}, load{0, 2 * second}, 1},
		{"the unknown is probed", load{0, second}, load{0, 0}, 1},
		{"but by one at a time", load{5, second}, load{1, 0}, 0},
		{"both unknown and probed: the less busy", load{2, 0}, load{1, 0}, 1},
		{"alike", load{1, second}, load{1, second}, -1},
	} {
		choices := fleet(2)
		choices[0].Load, choices[1].Load = tc.a, tc.b
		random := seeded(5)
		var first [2]int
		for range 1000 {
			first[Order(Fastest, choices, Session{Random: random})[0]]++
		}
		if tc.want >= 0 && first[tc.want] != 1000 || tc.want < 0 && min(first[0], first[1]) < 300 {
			t.Errorf("%s: %v", tc.name, first)
		}
	}
}

func TestFastestCountsWeight(t *testing.T) {
	choices := fleet(2)
	choices[0].Load, choices[0].Weight = load{3, time.Second}, 4
	choices[1].Load = load{1, time.Second}
	if got := Order(Fastest, choices, Session{}); got[0] != 0 {
		t.Errorf("%v: four in flight for a weight of four are less than two for one", got)
	}
}

// TestWarmth checks that a target that has just come back gets a part of its share.
func TestWarmth(t *testing.T) {
	for _, p := range []Policy{Weighted, LeastBusy, Fastest, CacheAware} {
		random, first := seeded(1), 0
		busy := [2]int{}
		for range 10_000 {
			choices := []Choice{{ID: "cold", Load: cold{load{busy[0], time.Second}}}, {ID: "warm", Load: load{busy[1], time.Second}}}
			n := Order(p, choices, Session{Random: random})[0]
			if n == 0 {
				first++
			}
			if busy[n]++; busy[0]+busy[1] >= 110 { // most end at the same time
				busy = [2]int{}
			}
		}
		if first < 500 || first > 1500 {
			t.Errorf("%s: a target with a tenth of its share gets %d of 10,000 requests", p, first)
		}
	}
}
