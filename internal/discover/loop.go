package discover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// told is a change and whose it is.
type told struct {
	source string
	Change
}

// loop is the one goroutine that knows what is published.
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
	due     bool      // something other than a worker has changed
}

// state is what is known of one source.
type state struct {
	*guard
	answered bool
	revision int64
	at       time.Time
	warned   sometimes // that workers are kept: they may vanish by the thousand, one by one
}

// newLoop begins with what is on the disk, as if the sources had said it.
func newLoop(d *Discovery, disk *disk, publish func(Snapshot)) *loop {
	l := &loop{
		d: d, disk: disk, publish: publish,
		states: map[string]*state{}, view: view{models: map[string]string{}},
		refused: refusals{logger: d.options.Logger, total: &d.refused}, began: time.Now(), due: true,
	}
	for _, s := range d.options.Sources {
		g := newGuard(d.options.Confirm, d.options.Window)
		g.stale = true
		l.order = append(l.order, s.Name())
		l.states[s.Name()] = &state{guard: g}
	}
	old := disk.load()
	for _, w := range old.Workers {
		source, id, _ := strings.Cut(w.ID, "/")
		st, ok := l.states[source]
		if !ok {
			continue
		}
		st.at = old.At
		bare := w
		bare.ID = id
		if err := d.rules.check(bare); err != nil { // the networks may be others than when it was written
			l.refused.add(source, id, err, l.began)
			continue
		}
		st.put(w)
	}
	return l
}

func (l *loop) run(ctx context.Context, changes <-chan told) {
	timer := time.NewTimer(headStart)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-changes:
			l.hear(t, time.Now())
		case <-timer.C:
		}
		now := time.Now()
		l.expire(now)
		l.flush(now)
		timer.Reset(max(0, l.next(now).Sub(now)))
	}
}

// expire lets go of workers that were kept long enough.
func (l *loop) expire(now time.Time) {
	for name, st := range l.states {
		before := len(st.kept)
		if st.expire(now); len(st.kept) < before {
			l.d.options.Logger.Warn("workers that had vanished are believed to be gone", "source", name, "workers", before-len(st.kept), "live", len(st.live))
		}
	}
}

// hear takes a change in.
func (l *loop) hear(t told, now time.Time) {
	st := l.states[t.source]
	l.due = l.due || st.stale != t.Stale
	st.answer(t.Stale, now)
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
		l.d.options.Logger.Warn("workers vanished together and are kept until the source has said so for a while",
			"source", t.source, "kept", len(st.kept), "live", len(st.live), "for", l.d.options.Confirm.String())
	}
}

// put takes the new workers of a change in, and returns their ids and those of
// workers that are refused. Who is refused is not there, also if it was before.
func (l *loop) put(st *state, t told, now time.Time) (named map[string]struct{}, bad []string) {
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

// accept reports why a worker is not published.
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

// next is when the loop has something to do without being told.
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

// ready reports whether there may be a publication now: the first one waits for
// the sources a little, the others keep their distance.
func (l *loop) ready(now time.Time) bool {
	if !l.last.IsZero() {
		return now.Sub(l.last) >= pace
	}
	for _, st := range l.states {
		if !st.answered && now.Sub(l.began) < headStart {
			return false
		}
	}
	return true
}

// flush publishes if there is something to publish and it is time.
func (l *loop) flush(now time.Time) {
	if !l.pending() || !l.ready(now) {
		return
	}
	different := false
	for _, st := range l.states {
		if len(st.changed) > 0 {
			different = l.view.apply(st.changed, st.published) || different
			clear(st.changed)
		}
	}
	status := l.sum()
	l.d.status.Store(&status) // who is kept may be another also where the list is the same
	if !different && !l.due {
		return
	}
	l.due, l.last = false, now
	if different {
		l.disk.offer(status.Snapshot)
	}
	l.publish(status.Snapshot)
}

// sum describes what is published. It is as old as the oldest answer in it.
func (l *loop) sum() Status {
	s := Status{Snapshot: Snapshot{Workers: l.view.list}}
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
