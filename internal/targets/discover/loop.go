package discover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// sourceChange is a change and its source.
type sourceChange struct {
	source string
	Change
}

// loop is the goroutine that owns the published state.
type loop struct {
	d       *Discovery
	disk    *disk
	publish func(Snapshot)
	order   []string // of the sources
	states  map[string]*state
	view    view
	refused refusals
	began   time.Time
	last    time.Time // of the last publication; zero before the first
	due     bool      // something other than the workers has changed

	share     Share
	counted   bool  // the gateways were counted, or are not to be counted
	published Share // at the last publication
}

// state is the state of one source.
type state struct {
	*guard
	answered bool
	lostAt   time.Time // when it stopped responding; zero: it responds
	revision int64
	at       time.Time
	warned   logInterval // limits the log lines about kept workers
}

// newLoop starts with the snapshot on disk, as if the sources had reported it.
func newLoop(d *Discovery, disk *disk, publish func(Snapshot)) *loop {
	l := &loop{
		d: d, disk: disk, publish: publish,
		states: map[string]*state{}, view: view{models: map[string]string{}},
		refused: refusals{logger: d.options.Logger, total: &d.refused}, began: time.Now(), due: true,
		counted: d.options.Gateways == nil,
	}
	for _, s := range d.options.Sources {
		g := newGuard(d.options.Confirm, d.options.Window)
		g.stale = true
		l.order = append(l.order, s.Name())
		l.states[s.Name()] = &state{guard: g}
	}
	old := disk.load()
	if !l.counted {
		l.share = old.Share
	}
	for _, w := range old.Workers {
		source, id, _ := strings.Cut(w.ID, "/")
		st, ok := l.states[source]
		if !ok {
			continue
		}
		st.at = old.At
		bare := w
		bare.ID = id
		if err := d.rules.check(bare); err != nil { // the allowed networks may have changed
			l.refused.add(source, id, err, l.began)
			continue
		}
		st.put(w)
	}
	return l
}

func (l *loop) run(ctx context.Context, changes <-chan sourceChange, shares <-chan Share) {
	timer := time.NewTimer(headStart)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-changes:
			l.handle(t, time.Now())
		case l.share = <-shares:
			l.counted, l.due = true, true
		case <-timer.C:
		}
		now := time.Now()
		l.expire(now)
		l.flush(now)
		timer.Reset(max(0, l.next(now).Sub(now)))
	}
}

// expire removes kept workers whose time has passed.
func (l *loop) expire(now time.Time) {
	for name, st := range l.states {
		before := len(st.kept)
		if st.expire(now); len(st.kept) < before {
			l.d.options.Logger.Warn("workers that had vanished are believed to be gone", "source", name, "workers", before-len(st.kept), "live", len(st.live))
		}
	}
}

// handle processes a change.
func (l *loop) handle(t sourceChange, now time.Time) {
	st := l.states[t.source]
	l.due = l.due || st.stale != t.Stale
	st.answer(t.Stale, now)
	l.logOutage(st, t, now)
	if t.Stale {
		return
	}
	st.answered, st.revision, st.at = true, t.Revision, t.At
	before := len(st.kept)
	named, bad := l.put(st, t, now)
	lost := append(prefixed(t.source, t.Lost), bad...)
	if t.All {
		for id := range st.live {
			lost = append(lost, id)
		}
	}
	lost = slices.DeleteFunc(lost, func(id string) bool { _, ok := named[id]; return ok })
	st.leave(prefixed(t.source, t.Left), now)
	if t.Shaken {
		st.doubt(lost, now)
	} else {
		st.lose(lost, now)
	}
	if len(st.kept) > before && st.warned.now() {
		l.d.options.Logger.Warn("many workers disappeared at once and are kept until the source confirms it",
			"source", t.source, "kept", len(st.kept), "live", len(st.live), "for", l.d.options.Confirm.String())
	}
}

// logOutage logs once when a source is lost and once when it is back.
func (l *loop) logOutage(st *state, t sourceChange, now time.Time) {
	switch lost := !st.lostAt.IsZero(); {
	case t.Stale && !lost && t.Err != nil:
		st.lostAt = now
		l.d.options.Logger.Warn("a source of workers is lost; the workers that are known are kept", "source", t.source, "workers", len(st.live), "error", t.Err.Error())
	case !t.Stale && lost:
		l.d.options.Logger.Info("a source of workers is back", "source", t.source, "outage", now.Sub(st.lostAt).Round(time.Millisecond).String())
		st.lostAt = time.Time{}
	}
}

// put processes the new workers of a change. It returns their ids and those of rejected
// workers. A rejected worker counts as absent, also if it was published before.
func (l *loop) put(st *state, t sourceChange, now time.Time) (named map[string]struct{}, bad []string) {
	named = make(map[string]struct{}, len(t.Put))
	for _, w := range t.Put {
		id := t.source + "/" + w.ID
		if err := l.accept(st, named, w, id); err != nil {
			l.refused.add(t.source, w.ID, err, now)
			bad = append(bad, id)
			continue
		}
		named[id] = struct{}{}
		w.ID = id
		st.put(w)
	}
	for id, err := range t.Bad {
		l.refused.add(t.source, id, err, now)
		bad = append(bad, t.source+"/"+id)
	}
	return named, bad
}

// accept returns why a worker is not published, or nil.
func (l *loop) accept(st *state, named map[string]struct{}, w Worker, id string) error {
	if err := l.d.rules.check(w); err != nil {
		return err
	}
	if _, twice := named[id]; twice {
		return errors.New("its id is there twice; the first one counts")
	}
	if _, known := st.live[id]; !known && len(st.live) >= maxWorkers {
		return errors.New("the source has more than 100000 workers")
	}
	return nil
}

func prefixed(source string, ids []string) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = source + "/" + id
	}
	return list
}

// next returns when the loop has something to do without a change.
func (l *loop) next(now time.Time) time.Time {
	first := now.Add(time.Hour)
	if l.pending() {
		first = l.last.Add(pace)
		if l.last.IsZero() {
			first = l.began.Add(headStart)
		}
	}
	for _, st := range l.states {
		if at := st.next(); !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

func (l *loop) pending() bool {
	for _, st := range l.states {
		if len(st.changed) > 0 {
			return true
		}
	}
	return l.due
}

// ready reports whether to publish now: the first publication waits a moment for the
// sources and for the number of gateways, later ones keep a minimum interval.
func (l *loop) ready(now time.Time) bool {
	if !l.last.IsZero() {
		return now.Sub(l.last) >= pace
	}
	if now.Sub(l.began) >= headStart {
		return true
	}
	for _, st := range l.states {
		if !st.answered {
			return false
		}
	}
	return l.counted
}

// flush publishes if something has changed and it is time.
func (l *loop) flush(now time.Time) {
	if !l.pending() || !l.ready(now) {
		return
	}
	different := l.share != l.published
	for _, st := range l.states {
		if len(st.changed) > 0 {
			different = l.view.apply(st.changed, st.published) || different
			clear(st.changed)
		}
	}
	status := l.sum()
	l.d.status.Store(&status) // the kept workers may differ although the list is the same
	if !different && !l.due {
		return
	}
	before := l.published
	l.due, l.last, l.published = false, now, l.share
	if different {
		l.disk.offer(status.Snapshot)
	}
	l.publish(status.Snapshot)
	if l.share.Gateways != before.Gateways {
		l.d.options.Logger.Info("the number of gateways that share the workers has changed", "gateways", l.share.Gateways)
	}
}

// sum describes the published state. Its time is that of the oldest source.
func (l *loop) sum() Status {
	s := Status{Snapshot: Snapshot{Workers: l.view.list, Share: l.share}}
	if g := l.d.options.Gateways; g != nil {
		s.Snapshot.Turns = g.turns
	}
	for _, name := range l.order {
		st := l.states[name]
		s.Kept += len(st.kept)
		s.Snapshot.Revision = max(s.Snapshot.Revision, st.revision)
		if s.Snapshot.At.IsZero() || st.at.Before(s.Snapshot.At) {
			s.Snapshot.At = st.at
		}
		if st.stale {
			s.Snapshot.Stale = true
			s.Silent = append(s.Silent, name)
		}
	}
	return s
}
