package discover

import "time"

// few is the number of workers that may leave one by one before the guard compares them
// with half of all: otherwise both of two workers could never leave.
const few = 2

// guard decides which workers of a source are published. A store that was emptied,
// restored or frozen looks like workers that went away. So the guard keeps workers that
// disappear together until the source has confirmed it for a while.
type guard struct {
	confirm time.Duration // how long workers that disappeared are kept
	window  time.Duration // departures within it count together

	live   map[string]Worker    // the workers that the source reports
	kept   map[string]departure // gone at the source, still published
	left   map[string]departure // gone recently, no longer published
	models map[string]int       // number of live workers of each model

	changed map[string]struct{} // ids whose published worker may have changed
	stale   bool
	soonest time.Time // when the first kept worker expires; zero: none is kept
	pruned  time.Time // when entries older than the window were last removed from left
}

type departure struct {
	Worker
	at time.Time // when it left; for a kept one, when it expires
}

func newGuard(confirm, window time.Duration) *guard {
	return &guard{
		confirm: confirm, window: window,
		live: map[string]Worker{}, kept: map[string]departure{}, left: map[string]departure{}, models: map[string]int{},
		changed: map[string]struct{}{},
	}
}

// published returns the published worker of an id.
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

// leave removes workers that the source saw leave one by one. They are removed at once,
// unless more than half of all left within the window.
func (g *guard) leave(ids []string, now time.Time) {
	for _, id := range ids {
		g.take(id, now)
	}
	g.weigh(few, now)
}

// lose removes workers that disappeared in any other way. It keeps the last worker of a
// model, and all of them if they are more than half.
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

// doubt removes workers that disappeared while their source failed, and keeps all of
// them: healthy ones will be reported again.
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

// keep publishes a worker that has left until it expires.
func (g *guard) keep(id string, now time.Time) {
	g.kept[id] = departure{g.left[id].Worker, now.Add(g.confirm)}
	if g.soonest.IsZero() {
		g.soonest = now.Add(g.confirm)
	}
	delete(g.left, id)
	g.changed[id] = struct{}{}
}

// weigh keeps all workers that left within the window if they are more than half.
// Leases that a store lost at once end one after the other, so the first of them were
// removed; they are published again.
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
	g.left = map[string]departure{} // iterating over a map that was large stays expensive
}

// most reports whether more than half have disappeared, and more than few.
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

// answer records whether the source responds. When it responds again, the delay of all
// kept workers starts again.
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

// expire removes kept workers that the source has not reported in time. A source that
// does not respond confirms nothing.
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

// next returns when expire has something to do; zero means never.
func (g *guard) next() time.Time {
	if g.stale {
		return time.Time{}
	}
	return g.soonest
}
