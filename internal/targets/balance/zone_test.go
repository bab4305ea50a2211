package balance

import (
	"slices"
	"testing"
	"time"
)

// TestOwnZoneFirst checks that choices of the own zone, and those without a zone, come
// before those of other zones, under every policy but "order".
func TestOwnZoneFirst(t *testing.T) {
	choices := fleet(9)
	for i := range choices {
		choices[i].Zone = []Zone{OtherZone, OwnZone, NoZone}[i%3]
		choices[i].Load = load{1, time.Second}
	}
	firsts := map[Policy]map[int]bool{}
	for _, p := range policies() {
		firsts[p] = map[int]bool{}
		for seed := range uint64(500) {
			order := Order(p, choices, Session{Prefixes: []uint64{seed, seed * 7}, Random: seeded(seed)})
			firsts[p][order[0]] = true
			for i, at := range order {
				if p != InOrder && (choices[at].Zone == OtherZone) != (i >= 6) {
					t.Fatalf("%s: the order is %v", p, order)
				}
			}
		}
	}
	if got := Order(InOrder, choices, Session{}); !slices.IsSorted(got) {
		t.Errorf("order: %v", got)
	}
	for _, p := range []Policy{Weighted, CacheAware} {
		if len(firsts[p]) != 6 {
			t.Errorf("%s: first are %v, want all of the zone", p, firsts[p])
		}
	}
}

// TestZonesAmongThemselves checks that zones do not matter if none of the choices is of
// the own zone, and that within the own zone the policy decides.
func TestZonesAmongThemselves(t *testing.T) {
	const n = 200
	plain, other := fleet(4), fleet(4)
	for i := range other[:3] {
		other[i].Zone = OtherZone
	}
	for _, p := range policies() {
		for seed := range uint64(n) {
			s := func() Session { return Session{Prefixes: []uint64{seed, seed * 7}, Random: seeded(seed)} }
			if a, b := Order(p, plain, s()), Order(p, other, s()); !slices.Equal(a, b) {
				t.Fatalf("%s: %v, without zones %v", p, b, a)
			}
		}
	}
	two := fleet(3)
	two[0].Zone, two[0].Load = OwnZone, load{9, time.Second}
	two[1].Zone, two[1].Load = OwnZone, load{1, time.Second}
	two[2].Zone = OtherZone
	for seed := range uint64(n) {
		if got := Order(LeastBusy, two, Session{Random: seeded(seed)}); !slices.Equal(got, []int{1, 0, 2}) {
			t.Fatalf("the less busy of the zone is not first: %v", got)
		}
	}
	// A conversation with sealed reasoning stays at its target.
	if got := Order(LeastBusy, two, Session{Pin: two[2].ID}); got[0] != 2 {
		t.Errorf("the pinned choice is not first: %v", got)
	}
}

// TestSaturatedLast checks that least-busy puts saturated choices after others, also of
// other zones, that other policies ignore it, and that it does not matter if all are.
func TestSaturatedLast(t *testing.T) {
	choices := fleet(4)
	choices[0].Zone, choices[0].Saturated = OwnZone, true
	choices[1].Zone, choices[1].Load = OwnZone, load{5, time.Second}
	choices[2].Zone = OtherZone
	choices[3].Zone, choices[3].Saturated = OtherZone, true
	all := fleet(4)
	for i := range all {
		all[i].Saturated = true
	}
	for seed := range uint64(200) {
		if got := Order(LeastBusy, choices, Session{Random: seeded(seed)}); !slices.Equal(got, []int{1, 2, 0, 3}) {
			t.Fatal(got)
		}
		for _, p := range policies() {
			s := func() Session { return Session{Prefixes: []uint64{seed, seed * 7}, Random: seeded(seed)} }
			if a, b := Order(p, fleet(4), s()), Order(p, all, s()); !slices.Equal(a, b) {
				t.Fatalf("%s: %v if all are saturated, else %v", p, b, a)
			}
			if p == LeastBusy {
				continue
			}
			calm := slices.Clone(choices)
			calm[0].Saturated, calm[3].Saturated = false, false
			if a, b := Order(p, calm, s()), Order(p, choices, s()); !slices.Equal(a, b) {
				t.Fatalf("%s: %v, want %v", p, b, a)
			}
		}
	}
}
