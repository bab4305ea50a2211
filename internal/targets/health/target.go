package health

import (
	"cmp"
	"net/http"
	"sync/atomic"
	"time"
)

// Kind is the kind of a failure.
type Kind uint8

// The kinds of failure.
const (
	Unreachable Kind = iota // no connection: refused, no route, TLS
	Broken                  // the response is invalid or was cut off
	Timeout                 // no response, or no more of it, in time
	Server                  // a 5xx response
	Limited                 // 429, 529, an exhausted quota
	Credential              // 401: the upstream rejects the gateway's key
	Denied                  // 403: the key is valid but not allowed to do this
	Missing                 // 404: the upstream does not have the model
	kinds
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{"unreachable", "broken", "timeout", "server", "limited", "credential", "denied", "missing", "unknown"}[min(k, kinds)]
}

// Failure is a failed attempt that is the upstream's fault.
type Failure struct {
	Kind       Kind
	RetryAfter time.Duration // from the response's body; 0: read it from Header
	Header     http.Header   // of the response, for its rate limits; may be nil
	Reason     string        // what operators are shown, such as "HTTP 503"; must not quote the upstream's text
	Caller     string        // the client key whose request failed; only Denied and Missing read it
}

// LastError is the latest failure of a target. The zero value means none.
type LastError struct {
	Reason string // as reported, or the kind
	At     time.Time
}

// Target is the health of one target. It is safe for concurrent use.
type Target struct {
	*live
	group, credential string
	quota             *quota
	key               *refusal
	denied, missing   denials
}

// live is the state of a target that outlives a change of its credential.
type live struct {
	fleet     *Fleet
	id        string
	inFlight  atomic.Int64
	latency   latency
	outlier   outlier
	rest      atomic.Int64 // end of the pause that a 5xx response asked for
	watch     watch
	succeeded atomic.Uint64
	failed    [kinds]atomic.Uint64
	recent    recent
	last      atomic.Pointer[LastError]
	notice    notice
	limits    [2]headroom  // of requests and of tokens
	warmFrom  atomic.Int64 // when the warm-up began; 0: the target gets its whole share of requests
}

// ID returns the id of the target.
func (t *Target) ID() string { return t.id }

func byID(a, b *Target) int { return cmp.Compare(a.id, b.id) }

// Begin counts a request that is sent now. If a refusal has run out, the request becomes
// its probe.
func (t *Target) Begin() {
	t.inFlight.Add(1)
	if t.key.until.Load()|t.denied.until.Load()|t.missing.until.Load() != 0 {
		now := t.fleet.now()
		t.key.probe(now)
		t.denied.probe(now)
		t.missing.probe(now)
	}
}

// End counts the end of a request, whatever its outcome.
func (t *Target) End() { t.inFlight.Add(-1) }

// InFlight returns the number of requests between Begin and End.
func (t *Target) InFlight() int { return int(t.inFlight.Load()) }

// UsedBy records the client key of a request to which the target responded. By these records a
// 403 or 404 for every client differs from one that a single client provokes.
func (t *Target) UsedBy(caller string) {
	id, now := t.fleet.callerID(caller), t.fleet.now()
	t.denied.usedBy(id, now)
	t.missing.usedBy(id, now)
}

// Succeeded reports a successful request and its time to first token; 0 if it has
// none.
func (t *Target) Succeeded(firstToken time.Duration) {
	now := t.fleet.now()
	t.succeeded.Add(1)
	t.recent.add(now, false)
	t.outlier.succeeded(now)
	t.quota.succeeded(now)
	t.key.accepted()
	t.denied.succeeded()
	t.missing.succeeded()
	if t.notice.out.Load() && t.verdict().grade == ready {
		t.cameBack(now)
	}
	if firstToken > 0 {
		t.latency.observe(now, firstToken)
	}
}

// Failed reports a failed request.
func (t *Target) Failed(f Failure) {
	t.failedWith(f)
	t.wentOut(t.verdict())
}

func (t *Target) failedWith(f Failure) {
	now := t.fleet.now()
	t.failed[min(f.Kind, kinds-1)].Add(1)
	t.recent.add(now, true)
	t.noteError(cmp.Or(f.Reason, f.Kind.String()))
	wait := f.RetryAfter
	if wait <= 0 {
		wait = retryAfter(f.Header, t.fleet)
	}
	switch f.Kind {
	case Credential:
		t.key.refused(now)
		return
	case Denied:
		t.denied.denied(t.fleet.callerID(f.Caller), now)
		t.key.unclear(now)
		return
	case Missing:
		t.missing.denied(t.fleet.callerID(f.Caller), now)
		t.modelMissing(now)
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
		t.outlier.failed(now, t.fleet, t.succeeded.Load())
	}
	t.key.unclear(now)
	t.denied.unclear(now)
	t.missing.unclear(now)
}

func (l *live) noteError(reason string) {
	l.last.Store(&LastError{Reason: reason, At: l.fleet.wall()})
}

// LastError returns the latest failure of a request or a health check, also when
// the target has recovered since.
func (t *Target) LastError() LastError {
	if e := t.last.Load(); e != nil {
		return *e
	}
	return LastError{}
}

// Consecutive returns the number of failures in a row that count towards an ejection.
func (t *Target) Consecutive() int { return int(t.outlier.streak.Load()) }

// Learn reads the rate-limit headers of a response. An exhausted limit starts a
// cool-down of the quota group until its reset.
func (t *Target) Learn(h http.Header) {
	t.learnHeadroom(h)
	wait := max(retryAfter(h, t.fleet), exhausted(h, t.fleet))
	if wait > 0 {
		t.quota.rest(t.fleet.now().add(min(wait, LongestWait)))
		t.wentOut(t.verdict())
	}
}

// FirstToken returns the smoothed time to first token. A slow response raises it at once,
// and it falls back within seconds. 0 means unknown.
func (t *Target) FirstToken() time.Duration { return t.latency.smoothed(t.fleet) }

// Quantile returns a quantile of the latest times to first token. It returns false
// while there are too few.
func (t *Target) Quantile(q float64) (time.Duration, bool) {
	return t.latency.quantile(t.fleet.now(), q)
}

// A target that is new or comes back gets only the part warmMin of its share of requests. The part grows
// to 1 within warmTime. Without this warm-up, all requests would reach cold caches at once and make the
// target fail again.
const (
	warmTime = 30 * time.Second
	warmMin  = 0.1
)

// warmUp starts the warm-up of the target.
func (l *live) warmUp(now instant) { l.warmFrom.Store(int64(now)) }

// Warmth returns the part of its share of requests that the target should get, from warmMin to 1.
func (t *Target) Warmth() float64 {
	from := t.warmFrom.Load()
	if from == 0 {
		return 1
	}
	age := t.fleet.now().since(instant(from))
	if age >= warmTime {
		t.warmFrom.CompareAndSwap(from, 0)
		return 1
	}
	return warmMin + (1-warmMin)*float64(age)/float64(warmTime)
}

// later moves a deadline to a later time, never to an earlier one.
func later(deadline *atomic.Int64, to instant) {
	for {
		at := deadline.Load()
		if at >= int64(to) || deadline.CompareAndSwap(at, int64(to)) {
			return
		}
	}
}
