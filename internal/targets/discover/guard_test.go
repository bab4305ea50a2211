package discover

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// worker returns a valid worker.
func worker(id, model string) Worker {
	return Worker{ID: id, Model: model, Protocol: "openai-chat", URL: "http://10.0.0.1:8000/v1"}
}

func fleet(n int, model string) []Worker {
	var list []Worker
	for i := range n {
		list = append(list, worker(fmt.Sprintf("%s-%05d", model, i), model))
	}
	return list
}

func ids(workers []Worker) []string {
	var list []string
	for _, w := range workers {
		list = append(list, w.ID)
	}
	return list
}

func guarded(workers ...[]Worker) *guard {
	g := newGuard(30*time.Second, 10*time.Second)
	for _, list := range workers {
		for _, w := range list {
			g.put(w)
		}
	}
	return g
}

func (g *guard) size() int { return len(g.live) + len(g.kept) }

func TestGuard(t *testing.T) {
	a, b := fleet(10, "a"), fleet(1, "b")
	for _, c := range []struct {
		name  string
		have  [][]Worker
		leave []Worker // removed one by one
		lose  []Worker // removed at once
		want  int      // workers published right afterwards
	}{
		{name: "one of many leaves", have: [][]Worker{a}, leave: a[:1], want: 9},
		{name: "half leave one by one", have: [][]Worker{a}, leave: a[:5], want: 5},
		{name: "more than half leave one by one, and all come back", have: [][]Worker{a}, leave: a[:6], want: 10},
		{name: "the only one leaves", have: [][]Worker{b}, leave: b, want: 0},
		{name: "two of two leave", have: [][]Worker{a[:2]}, leave: a[:2], want: 0},
		{name: "three of three leave", have: [][]Worker{a[:3]}, leave: a[:3], want: 3},
		{name: "the last of a model leaves by itself", have: [][]Worker{a, b}, leave: b, want: 10},
		{name: "the last of a model is lost", have: [][]Worker{a, b}, lose: b, want: 11},
		{name: "the only one is lost", have: [][]Worker{b}, lose: b, want: 1},
		{name: "one of two is lost", have: [][]Worker{a[:2]}, lose: a[:1], want: 1},
		{name: "two of three are lost", have: [][]Worker{a[:3]}, lose: a[:2], want: 3},
		{name: "half are lost", have: [][]Worker{a}, lose: a[:5], want: 5},
		{name: "more than half are lost", have: [][]Worker{a}, lose: a[:6], want: 10},
		{name: "all are lost", have: [][]Worker{a, b}, lose: slices.Concat(a, b), want: 11},
		{name: "some leave and some are lost", have: [][]Worker{a}, leave: a[:3], lose: a[3:6], want: 10},
		{name: "who was not there is lost", have: [][]Worker{a}, lose: b, want: 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, now := guarded(c.have...), time.Now()
			for _, w := range c.leave {
				g.leave([]string{w.ID}, now)
				now = now.Add(time.Second)
			}
			g.lose(ids(c.lose), now)
			if g.size() != c.want {
				t.Errorf("%d are published, want %d", g.size(), c.want)
			}
			live := len(g.live)
			g.expire(now.Add(29 * time.Second))
			if len(g.kept) > 0 && g.size() < c.want-len(c.leave) {
				t.Errorf("after 29 s %d are published", g.size())
			}
			g.expire(now.Add(31 * time.Second))
			if g.size() != live || len(g.kept) != 0 || !g.next().IsZero() {
				t.Errorf("after 31 s %d are published, want the %d that are there", g.size(), live)
			}
		})
	}
}

// TestGuardForgetsDepartures checks that unrelated departures are not added up.
func TestGuardForgetsDepartures(t *testing.T) {
	a := fleet(10, "a")
	g, now := guarded(a), time.Now()
	for i, w := range a {
		g.leave([]string{w.ID}, now)
		if want := 9 - i; g.size() != want {
			t.Fatalf("%d are published, want %d", g.size(), want)
		}
		now = now.Add(6 * time.Second)
	}
}

// TestGuardAcceptsAReplacement checks that a rolling update replaces all workers and
// keeps none of the old ones, because as many workers join as leave.
func TestGuardAcceptsAReplacement(t *testing.T) {
	old, fresh := fleet(10, "m"), fleet(20, "m")[10:]
	g, now := guarded(old), time.Now()
	for i := range old {
		g.put(fresh[i])
		g.leave([]string{old[i].ID}, now)
	}
	if g.size() != 10 || len(g.kept) != 0 {
		t.Errorf("%d are published, %d of them kept", g.size(), len(g.kept))
	}
}

// TestGuardRestoresWorkers checks that a kept worker that returns is treated as if it had
// never left.
func TestGuardRestoresWorkers(t *testing.T) {
	a := fleet(10, "a")
	g, now := guarded(a), time.Now()
	g.lose(ids(a), now)
	for _, w := range a[:4] {
		g.put(w)
	}
	g.expire(now.Add(time.Minute))
	if g.size() != 4 {
		t.Errorf("%d are published, want the 4 that came back", g.size())
	}
}

// TestGuardWaitsForTheSource checks that a source that does not respond confirms no
// departure, and that the delay starts again when it is back.
func TestGuardWaitsForTheSource(t *testing.T) {
	a := fleet(10, "a")
	g, now := guarded(a), time.Now()
	g.lose(ids(a), now)
	g.answer(true, now)
	now = now.Add(time.Hour)
	g.expire(now)
	if g.size() != 10 || !g.next().IsZero() {
		t.Fatalf("%d are published while the source is away", g.size())
	}
	g.answer(false, now)
	if g.expire(now.Add(29 * time.Second)); g.size() != 10 {
		t.Errorf("%d are published 29 s after it came back", g.size())
	}
	if g.expire(now.Add(30 * time.Second)); g.size() != 0 {
		t.Errorf("%d are published 30 s after it came back", g.size())
	}
}

// BenchmarkGuardLeave measures departures one by one, which must not take quadratic time.
func BenchmarkGuardLeave(b *testing.B) {
	all := fleet(10_000, "a")
	b.ReportAllocs()
	for b.Loop() {
		g, now := guarded(all), time.Now()
		for _, w := range all {
			g.leave([]string{w.ID}, now)
		}
	}
}

// TestGuardDoubts checks that a worker that disappears while its source fails is kept,
// even a single one.
func TestGuardDoubts(t *testing.T) {
	g, now := newGuard(30*time.Second, 10*time.Second), time.Now()
	for _, w := range fleet(5, "m") {
		g.put(w)
	}
	first := fleet(5, "m")[0]
	g.doubt([]string{first.ID, "nobody"}, now)
	if _, ok := g.published(first.ID); !ok || len(g.kept) != 1 {
		t.Errorf("kept %v", g.kept)
	}
	g.expire(now.Add(29 * time.Second))
	if _, ok := g.published(first.ID); !ok {
		t.Error("it is let go too soon")
	}
	g.expire(now.Add(30 * time.Second))
	if _, ok := g.published(first.ID); ok {
		t.Error("it is never let go")
	}
}
