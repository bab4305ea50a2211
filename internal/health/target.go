package health

import (
	"cmp"
	"net/http"
	"sync/atomic"
	"time"
)

// Kind says what went wrong with an upstream.
type Kind uint8

// The kinds of failure.
const (
	Unreachable Kind = iota // no connection: refused, no route, TLS
	Broken                  // the connection or the answer broke: closed, reset, garbage, cut
	Timeout                 // no answer, or no more of it, in time
	Server                  // a 5xx
	Limited                 // 429, 529, a quota
	Credential              // 401: our key is not accepted
	Denied                  // 403: our key is known, but may not do this
	kinds
)

// String is the kind as it is shown to operators.
func (k Kind) String() string {
	return [...]string{"unreachable", "broken", "timeout", "server", "limited", "credential", "denied", "unknown"}[min(k, kinds)]
}

// Failure is one request that went wrong on the upstream's side.
type Failure struct {
	Kind       Kind
	RetryAfter time.Duration // as told in the answer; 0 means that Header says it, if anyone does
	Header     http.Header   // of the answer, for its rate limits; may be nil
}

// Target is one upstream as the request path sees it. It is safe for concurrent
// use.
type Target struct {
	*live
	group, credential string
	quota             *quota
	key               *refusal
	denied            refusal
}

// live is the part of a target that a new key does not change.
type live struct {
	fleet    *Fleet
	id       string
	inFlight atomic.Int64
	latency  latency
	outlier  outlier
	rest     atomic.Int64 // until when the upstream asked to be left alone
	watch    watch
	answered atomic.Uint64
	failed   [kinds]atomic.Uint64
}

// ID is the name under which the target was fetched.
func (t *Target) ID() string { return t.id }

func byID(a, b *Target) int { return cmp.Compare(a.id, b.id) }

// Begin counts a request that is sent now. After a refusal it is also what makes
// that request the probe.
func (t *Target) Begin() {
	t.inFlight.Add(1)
	if t.key.until.Load()|t.denied.until.Load() != 0 {
		now := t.fleet.now()
		t.key.probe(now)
		t.denied.probe(now)
	}
}

// End counts a request that is over, whatever became of it.
func (t *Target) End() { t.inFlight.Add(-1) }

// InFlight is the number of requests between Begin and End.
func (t *Target) InFlight() int { return int(t.inFlight.Load()) }

// Succeeded reports a good answer and how long its first token took; 0 is for an
// answer that has no such time.
func (t *Target) Succeeded(firstToken time.Duration) {
	now := t.fleet.now()
	t.answered.Add(1)
	t.outlier.succeeded(now)
	t.quota.succeeded(now)
	t.key.accepted()
	t.denied.accepted()
	if firstToken > 0 {
		t.latency.observe(now, firstToken)
	}
}

// Failed reports what went wrong.
func (t *Target) Failed(f Failure) {
	now := t.fleet.now()
	t.failed[min(f.Kind, kinds-1)].Add(1)
	wait := f.RetryAfter
	if wait <= 0 {
		wait = retryAfter(f.Header, t.fleet)
	}
	switch f.Kind {
	case Credential:
		t.key.refused(now)
		return
	case Denied:
		t.denied.refused(now)
		t.key.unclear(now)
		return
	case Limited:
		if wait <= 0 {
			wait = exhausted(f.Header, t.fleet)
		}
		t.quota.limited(now, wait, t.fleet)
	default:
		if f.Kind == Server && wait > 0 {
			later(&t.rest, now.add(min(wait, LongestWait)))
		}
		t.outlier.failed(now, t.fleet)
	}
	t.key.unclear(now)
	t.denied.unclear(now)
}

// Learn reads the rate limits that come with a good answer. The quota group of a
// limit of which nothing remains is set aside until its reset.
func (t *Target) Learn(h http.Header) {
	wait := max(retryAfter(h, t.fleet), exhausted(h, t.fleet))
	if wait > 0 {
		t.quota.rest(t.fleet.now().add(min(wait, LongestWait)))
	}
}

// FirstToken is how long a first token takes at present: an average that follows
// a peak at once and forgets it within seconds. 0 means unknown.
func (t *Target) FirstToken() time.Duration { return t.latency.smoothed(t.fleet) }

// Quantile is the time that the given part of the latest answers took to their
// first token at most; 0.95 asks for the time that one in twenty exceeded. It is
// false while there are too few answers to tell.
func (t *Target) Quantile(q float64) (time.Duration, bool) {
	return t.latency.quantile(t.fleet.now(), q)
}

// later moves a deadline, but never to an earlier time.
func later(deadline *atomic.Int64, to instant) {
	for {
		at := deadline.Load()
		if at >= int64(to) || deadline.CompareAndSwap(at, int64(to)) {
			return
		}
	}
}
