package discover

import "time"

// few is how many workers may leave one by one before the guard asks whether
// they are more than half: two of two that say good-bye are believed, or a fleet
// of two could never be taken down at once.
const few = 2

// guard stands between one source and what is published. A store that was
// emptied, restored or thawed looks just like a fleet that went away; the guard
// keeps such workers published until the source has said the same for a while.
type guard struct {
	confirm time.Duration // how long who vanished is kept
	window  time.Duration // departures within it are taken together

	live   map[string]Worker    // what the source says
	kept   map[string]departure // gone at the source, still published
	left   map[string]departure // gone lately and believed
	models map[string]int       // how many of live serve each model

	changed map[string]struct{} // ids whose published worker may be another now
	stale   bool
	soonest time.Time // no kept one is let go before; zero: none is kept
	pruned  time.Time // when left was last freed of what is older than the window
}

type departure struct {
	Worker
	at time.Time // of leaving; for kept ones, when they are let go
}

func newGuard(confirm, window time.Duration) *guard {
	return &guard{
		confirm: confirm, window: window,
		live: map[string]Worker{}, kept: map[string]departure{}, left: map[string]departure{}, models: map[string]int{},
		changed: map[string]struct{}{},
	}
}

// published is the worker that others see by this id.
func (g *guard) published(id string) (Worker, bool) {
	if w, ok := g.live[id]; ok {
		return w, true
	}
	k, ok := g.kept[id]
	return k.Worker, ok
}

func (g *guard) put(w Worker) {
	old, known := g.live[w.ID]
	if known && old == w {
		return
	}
	if known {
		g.count(old.Model, -1)
	}
	g.live[w.ID] = w
	g.count(w.Model, +1)
	delete(g.kept, w.ID)
	delete(g.left, w.ID)
	g.changed[w.ID] = struct{}{}
}

func (g *guard) count(model string, by int) {
	if g.models[model] += by; g.models[model] == 0 {
		delete(g.models, model)
	}
}

// leave takes workers away of which the source saw each one go. They are gone at
// once, unless with them more than half went within the window.
func (g *guard) leave(ids []string, now time.Time) {
	for _, id := range ids {
		g.take(id, now)
	}
	g.weigh(few, now)
}

// lose takes workers away that went in any other way. Those that were the last of
// their model are kept for sure, and all are if they are more than half.
func (g *guard) lose(ids []string, now time.Time) {
	if len(ids) == 0 {
		return
	}
	for _, id := range ids {
		g.take(id, now)
	}
	for _, id := range ids {
		if d, ok := g.left[id]; ok && g.models[d.Model] == 0 {
			g.keep(id, now)
		}
	}
	g.weigh(0, now)
}

// doubt takes workers away that went while their source was in trouble, and keeps
// them all: those that are well will be named again.
func (g *guard) doubt(ids []string, now time.Time) {
	for _, id := range ids {
		if _, ok := g.live[id]; ok {
			g.take(id, now)
			g.keep(id, now)
		}
	}
}

// take moves a worker from live to left.
func (g *guard) take(id string, now time.Time) {
	w, ok := g.live[id]
	if !ok {
		return
	}
	delete(g.live, id)
	g.count(w.Model, -1)
	g.left[id] = departure{w, now}
	g.changed[id] = struct{}{}
}

// keep publishes a worker that has left until it is let go.
func (g *guard) keep(id string, now time.Time) {
	g.kept[id] = departure{g.left[id].Worker, now.Add(g.confirm)}
	if g.soonest.IsZero() {
		g.soonest = now.Add(g.confirm)
	}
	delete(g.left, id)
	g.changed[id] = struct{}{}
}

// weigh keeps all that left within the window if they are more than half. Leases
// that a store lost all at once end one after the other, so that the first of
// them were believed: they come back.
func (g *guard) weigh(few int, now time.Time) {
	if now.Sub(g.pruned) > g.window/10 || g.most(few) {
		g.prune(now)
	}
	if !g.most(few) {
		return
	}
	for id := range g.left {
		g.keep(id, now)
	}
	g.left = map[string]departure{} // to walk over a map that was large costs as if it still were
}

// most reports whether more than half have vanished, and more than a few.
func (g *guard) most(few int) bool {
	vanished := len(g.kept) + len(g.left)
	return vanished > few && vanished > len(g.live)
}

func (g *guard) prune(now time.Time) {
	g.pruned = now
	for id, d := range g.left {
		if now.Sub(d.at) > g.window {
			delete(g.left, id)
		}
	}
}

// answer notes whether the source answers. Whoever is kept when it comes back is
// kept for the whole time again: what it says now is news.
func (g *guard) answer(stale bool, now time.Time) {
	if g.stale && !stale && len(g.kept) > 0 {
		g.soonest = now.Add(g.confirm)
		for id, k := range g.kept {
			k.at = g.soonest
			g.kept[id] = k
		}
	}
	g.stale = stale
}

// expire lets go of whom the source has not named again in time. A source that
// does not answer confirms nothing.
func (g *guard) expire(now time.Time) {
	if g.next().IsZero() || now.Before(g.soonest) {
		return
	}
	g.soonest = time.Time{}
	for id, k := range g.kept {
		switch {
		case !now.Before(k.at):
			delete(g.kept, id)
			g.changed[id] = struct{}{}
		case g.soonest.IsZero() || k.at.Before(g.soonest):
			g.soonest = k.at
		}
	}
}

// next is when expire has something to do; zero is never.
func (g *guard) next() time.Time {
	if g.stale {
		return time.Time{}
	}
	return g.soonest
}
