package balance

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func homeOf(choices []Choice, key uint64) string {
	return choices[Order(CacheAware, choices, Session{Prefixes: []uint64{key}})[0]].ID
}

// TestHomesMoveOnlyWithTheirTarget checks that the home of a conversation depends neither
// on the order of the configuration nor on the other targets.
func TestHomesMoveOnlyWithTheirTarget(t *testing.T) {
	const n = 5000
	before := fleet(8)
	without := slices.Delete(fleet(8), 3, 4)
	with := append(fleet(8), Choice{ID: "pool/new"})
	slices.Reverse(without)
	slices.Reverse(with)
	left, joined := 0, 0
	for key := range uint64(n) {
		home := homeOf(before, key)
		if home == before[3].ID {
			left++
			order := Order(CacheAware, before, Session{Prefixes: []uint64{key}})
			if next := before[order[1]].ID; next != homeOf(without, key) {
				t.Fatalf("key %d fell back on %s before the target went and is at %s after it", key, next, homeOf(without, key))
			}
		} else if now := homeOf(without, key); now != home {
			t.Fatalf("key %d moved from %s to %s, which have nothing to do with the target that went", key, home, now)
		}
		if now := homeOf(with, key); now == "pool/new" {
			joined++
		} else if now != home {
			t.Fatalf("key %d moved from %s to %s, neither of which is new", key, home, now)
		}
	}
	expect(t, "moved when one of eight went", left, n, 1.0/8)
	expect(t, "moved when a ninth came", joined, n, 1.0/9)
}

// TestHomesStayAcrossReleases checks the homes against fixed values, so that a change of
// the hash is noticed: in a rolling update old and new gateways would choose different
// targets.
func TestHomesStayAcrossReleases(t *testing.T) {
	choices := fleet(8)
	var got []int
	for key := range uint64(8) {
		got = append(got, Order(CacheAware, choices, Session{Prefixes: []uint64{key}})[0])
	}
	if want := []int{0, 2, 7, 4, 3, 7, 7, 3}; !slices.Equal(got, want) {
		t.Errorf("homes are %v, were %v", got, want)
	}
}

func TestRarePrefixHasTwoHomes(t *testing.T) {
	choices := fleet(8)
	h := &History{}
	r := rand.New(rand.NewPCG(6, 6))
	firsts := func(shared uint64) map[int]int {
		count := map[int]int{}
		for range 1000 {
			count[Order(CacheAware, choices, Session{Prefixes: []uint64{shared, r.Uint64()}, History: h})[0]]++
		}
		return count
	}
	if got := firsts(1); len(got) > homes {
		t.Errorf("a prefix that was never seen is spread over %v", got)
	}
	for i := range 1000 {
		shared := uint64(1)
		if i%4 > 0 {
			shared = r.Uint64()
		}
		h.Seen("pool/engine-0", Session{Prefixes: []uint64{shared, r.Uint64()}}, 0, 0)
	}
	if got := firsts(1); len(got) != len(choices) {
		t.Errorf("a prefix that a quarter of the requests have is spread over %v", got)
	}
	if got := firsts(2); len(got) > homes {
		t.Errorf("another prefix is spread over %v", got)
	}
}

// TestPickHasRoom checks that under any load the choice is the first target in the order
// that has free capacity.
func TestPickHasRoom(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 1000 {
		choices := fleet(1 + r.IntN(20))
		total, weights := 1, 0
		scale := 1 + r.IntN(60)
		for i := range choices {
			l := load{busy: r.IntN(scale)}
			choices[i].Load, choices[i].Weight = l, 1+r.IntN(4)
			total += l.busy
			weights += choices[i].Weight
		}
		hasRoom := func(i int) bool {
			share := float64(total) * float64(choices[i].Weight) / float64(weights)
			after := float64(choices[i].inFlight() + 1)
			return after <= math.Ceil(1.25*share) || after <= math.Ceil(share+math.Sqrt(share))
		}
		key := []uint64{r.Uint64()}
		got := Order(CacheAware, choices, Session{Prefixes: key})
		idle := slices.Clone(choices)
		for i := range idle {
			idle[i].Load = nil
		}
		var want, full []int
		for _, i := range Order(CacheAware, idle, Session{Prefixes: key}) {
			if hasRoom(i) {
				want = append(want, i)
			} else {
				full = append(full, i)
			}
		}
		if len(want) == 0 {
			t.Fatal("nobody has room, but the bound is above the mean")
		}
		if want = append(want, full...); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", ids(choices, got), ids(choices, want))
		}
	}
}

func TestBoundIsStrictWhereItMatters(t *testing.T) {
	for share, want := range map[float64]float64{1: 2, 4: 6, 9: 12, 16: 20, 100: 125, 1000: 1250} {
		if got := room(share); got != want {
			t.Errorf("room(%v) is %v, want %v", share, got, want)
		}
	}
}

// TestCacheWithoutPrefixesIsLeastBusy checks that without prefixes no target is
// preferred.
func TestCacheWithoutPrefixesIsLeastBusy(t *testing.T) {
	choices := fleet(3)
	choices[1].Load = load{busy: 5}
	a := Order(CacheAware, choices, Session{Random: seeded(9)})
	b := Order(LeastBusy, choices, Session{Random: seeded(9)})
	if !slices.Equal(a, b) {
		t.Errorf("%v, %v", a, b)
	}
}
