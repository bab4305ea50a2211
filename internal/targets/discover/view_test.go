package discover

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestViewIsTheSortedList checks that after any sequence of changes the view is the
// sorted list of workers, and earlier lists are unchanged.
func TestViewIsTheSortedList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	v, have := view{models: map[string]string{}}, map[string]Worker{}
	lookup := func(id string) (Worker, bool) { w, ok := have[id]; return w, ok }
	for range 2000 {
		before := v.list
		copied := slices.Clone(before)
		changed := map[string]struct{}{}
		for range rnd.IntN(6) {
			id := fmt.Sprint("w", rnd.IntN(40))
			if changed[id] = struct{}{}; rnd.IntN(3) == 0 {
				delete(have, id)
			} else {
				w := worker(id, fmt.Sprint("m", rnd.IntN(4)))
				w.Weight = rnd.IntN(3)
				have[id] = w
			}
		}
		different := v.apply(changed, lookup)
		want := make([]Worker, 0, len(have))
		for _, w := range have {
			want = append(want, w)
		}
		slices.SortFunc(want, byModel)
		if !slices.Equal(v.list, want) {
			t.Fatalf("the view is %v, want %v", v.list, want)
		}
		if !slices.Equal(before, copied) {
			t.Fatal("a list that was handed out has changed")
		}
		if different == slices.Equal(before, v.list) {
			t.Fatalf("different is %v", different)
		}
	}
}

// BenchmarkUpdate measures a change of one of 10,000 workers of 1,000 models.
func BenchmarkUpdate(b *testing.B) {
	v, have, changed := view{models: map[string]string{}}, map[string]Worker{}, map[string]struct{}{}
	for i := range 10_000 {
		w := worker(fmt.Sprintf("etcd/w-%05d", i), fmt.Sprintf("model-%04d", i%1000))
		have[w.ID], changed[w.ID] = w, struct{}{}
	}
	lookup := func(id string) (Worker, bool) { w, ok := have[id]; return w, ok }
	v.apply(changed, lookup)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		id := fmt.Sprintf("etcd/w-%05d", i%10_000)
		w := have[id]
		w.Weight = i
		have[id] = w
		if !v.apply(map[string]struct{}{id: {}}, lookup) {
			b.Fatal("nothing has changed")
		}
	}
}
