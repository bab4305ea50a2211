package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// Change is a target that goes out of service or comes back.
type Change struct {
	ID string
	State
	Error  string        // the latest failure, if the target goes out of service
	First  bool          // a first failure that needs an operator; the target is still in service
	Outage time.Duration // how long it was out of service, if it is back
}

// noticeInterval limits the reports of short outages. If all outages of a target are shorter
// than noticeInterval, only one is reported in that time. Otherwise a rate limit of one
// second might be reported every second.
const noticeInterval = 30 * time.Second

// notice holds what was last reported about a target.
type notice struct {
	out atomic.Bool // the target was reported as out of service

	mu    sync.Mutex
	grade grade
	at    instant // of the latest report
	since instant // when the current outage was first reported
	until instant // as reported
	model instant // when a missing model was last reported
}

// wentOut reports a target that is out of service. It reports an outage once, and again
// when it gets another reason, ends and starts anew, or is extended by more than
// noticeInterval.
func (l *live) wentOut(v verdict) {
	if v.grade == ready {
		return
	}
	now, n := l.fleet.now(), &l.notice
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.out.Load()
	if out && n.grade == v.grade && (v.until == 0 || now < n.until && v.until.since(n.until) < noticeInterval) {
		return
	}
	if v.until != 0 && v.until.since(now) < noticeInterval && n.at != 0 && now.since(n.at) < noticeInterval && (!out || n.grade == v.grade) {
		return
	}
	if !out {
		n.since = now
	}
	n.grade, n.at, n.until = v.grade, now, v.until
	n.out.Store(true)
	c := Change{ID: l.id, State: State{Reason: v.grade.String(), Until: l.fleet.time(v.until)}}
	if e := l.last.Load(); e != nil {
		c.Error = e.Reason
	}
	l.fleet.changed(c)
}

// cameBack reports the end of an outage, if the outage was reported.
func (l *live) cameBack(now instant) {
	n := &l.notice
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.out.CompareAndSwap(true, false) {
		n.at = now
		l.fleet.changed(Change{ID: l.id, State: State{Ready: true}, Outage: now.since(n.since)})
	}
}

// checkPassed reports the end of an outage after a successful check, if its reason was a
// failed check or an ejection.
func (l *live) checkPassed() {
	if !l.notice.out.Load() {
		return
	}
	l.notice.mu.Lock()
	g := l.notice.grade
	l.notice.mu.Unlock()
	if g == checkFailed || g == ejected {
		l.cameBack(l.fleet.now())
	}
}

// modelMissing reports that the upstream does not have the model, at the first such response
// in a row and at most once per noticeInterval.
func (t *Target) modelMissing(now instant) {
	n := &t.notice
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.missing.streak.Load() == 1 && (n.model == 0 || now.since(n.model) >= noticeInterval) {
		n.model = now
		t.fleet.changed(Change{ID: t.id, State: State{Ready: true, Reason: NoModel}, First: true})
	}
}
