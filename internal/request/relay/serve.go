package relay

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/llm"
)

// maxBackoff is the longest wait before a retry on the same target. If the target's
// Retry-After is longer, the client gets the error.
const maxBackoff = 2 * time.Second

// failedAttempt is an attempt that failed, or a target that was skipped.
type failedAttempt struct {
	target, reason string
	pool           string    // the provider's pool; each pool has a retry budget
	sentAt         time.Time // zero if the attempt was not sent
	took           time.Duration
	status         int // the upstream's status; 0 without a response
	times          usage.Times
	billed         bool // the account has it already
}

// serve tries the candidates in order until one responds. If all fail, the client gets
// the last error.
func (q *request) serve() *llm.Error {
	q.servedAt = time.Now()
	if w := q.relay.watcher; w != nil && w.Active() {
		q.follow(w)
	}
	c, err := q.next()
	for err == nil {
		if err = q.try(c); err == nil {
			return nil
		}
		q.fail(c, err)
		if !q.mayRetry(c, err) {
			break
		}
		next, refused := q.next()
		if next == nil || refused != nil || !q.backOff(next, err) {
			break
		}
		q.attempt.close()
		c, err = next, nil
	}
	return q.giveUp(err)
}

// try makes one attempt and delivers its response.
func (q *request) try(c *candidate) *llm.Error {
	c.tried++
	err := q.reach(c)
	if err != nil && q.attempt.noStream && !q.whole {
		err = q.reachWhole(c, err)
	}
	if err == nil {
		err = q.attempt.prepared.Deliver(&q.Delivery)
	}
	q.report(q.attempt, err)
	if err == nil && q.Result.Err == nil {
		q.noteSession()
		q.relay.fleet.Served(q.route, q.Result.Target, q.Target.Live == q.first)
	}
	return err
}

// reach makes an attempt up to the point where its response can be delivered.
func (q *request) reach(c *candidate) *llm.Error {
	a, err := q.newAttempt(&c.Target, q.nextSlot)
	q.nextSlot = limit.Permit{}
	q.use(a)
	if err != nil {
		return err
	}
	q.countAttempt(a)
	q.startKeepAlive()
	if other, after := q.hedge(c); other != nil {
		err = q.race(a, other, after)
	} else {
		err = q.send(a, q.newHTTPRequest(a))
	}
	q.noteResponse()
	if err != nil {
		return err
	}
	return q.checkStream()
}

// reachWhole makes another attempt, without streaming, at a target that refuses to stream. The
// client has not asked for a stream.
func (q *request) reachWhole(c *candidate, err *llm.Error) *llm.Error {
	q.whole = true
	q.report(q.attempt, err)
	q.fail(c, err)
	q.nextSlot, q.attempt.slot = q.attempt.slot, limit.Permit{}
	q.attempt.close()
	return q.reach(c)
}

// use makes an attempt the one whose response is delivered.
func (q *request) use(a *attempt) {
	q.attempt = a
	q.Target, q.Trip = a.target, a.trip
	q.Result.Target = a.target.String()
	q.Record.Route(q.route.Name, a.target.Provider.Pool(), q.Result.Target)
}

// countAttempt counts an attempt that is about to be sent.
func (q *request) countAttempt(a *attempt) {
	q.Result.Attempts++
	a.start()
	pool := a.target.Provider.Pool()
	if !slices.ContainsFunc(q.failed, func(f failedAttempt) bool { return f.pool == pool }) {
		a.target.Budget.Offered()
	}
}

// noteResponse records the response headers of the attempt, if they arrived.
func (q *request) noteResponse() {
	q.Trip = q.attempt.trip
	if status := q.attempt.status(); status != 0 {
		q.Record.Responded(status, q.Trip.HeadersAt)
	}
}

// startKeepAlive enables keep-alives on an idle stream, if they are configured. They
// may start the response before a target has responded. Its headers then name the target
// if there is only one.
func (q *request) startKeepAlive() {
	every := q.state.KeepAlive
	if !q.Call.Body.Stream || every <= 0 || q.Call.Dialect.NoComments || q.Writer.KeepsAlive() {
		return
	}
	h := http.Header{"Content-Type": {"text/event-stream"}}
	exchange.SetNoBuffering(h)
	if len(q.candidates) == 1 {
		q.SetHeaders(h)
	}
	q.Writer.KeepAlive(every, q.Call.Dialect.Ping, h)
}

// checkStream stops the keep-alives if the response is not a stream. If they have started
// the response already, a response that cannot become a stream is an error.
func (q *request) checkStream() *llm.Error {
	if !q.Writer.KeepsAlive() || q.Trip.Streams() {
		return nil
	}
	if started := q.Writer.StopKeepAlive(); !started || q.Call.Operation == codec.Generate || !q.Call.Verbatim(q.Target.Provider) {
		return nil
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream did not stream its response"}
}

// next returns the candidate to try and takes a slot for it: the first candidate that
// was not tried and has a free slot. If all are full it waits for the first. If all were
// tried it returns the first that may be tried again, or nil.
func (q *request) next() (*candidate, *llm.Error) {
	var fresh, again *candidate
	for i := range q.candidates {
		switch c := &q.candidates[i]; {
		case c.done:
		case c.tried > 0:
			again = cmp.Or(again, c)
		default:
			if slot, ok := c.Slots.TryEnter(q.limited()); ok {
				q.nextSlot = slot
				return c, nil
			}
			fresh = cmp.Or(fresh, c)
		}
	}
	c := cmp.Or(fresh, again)
	if c == nil {
		return nil, nil
	}
	slot, refusal := c.Slots.Enter(q.ctx, q.limited())
	if refusal != nil {
		return nil, fleet.Overloaded(refusal)
	}
	q.nextSlot = slot
	return c, nil
}

// mayRetry reports whether another candidate, or the same one, may be tried. After a part
// of the response is sent no retry is possible, because the client would get the
// beginning twice.
func (q *request) mayRetry(c *candidate, err *llm.Error) bool {
	if q.Writer.HasContent() || q.ctx.Err() != nil || q.elapsed() >= c.Timeouts.Total || q.Account.Exhausted() {
		return false
	}
	if q.attempt.sentAt.IsZero() { // it could not be encoded for this target, but may be for another
		c.done = true
		q.unwritten = cmp.Or(q.unwritten, err)
		return true
	}
	c.done = !q.attempt.safeToRetry(err) && (c.tried > 1 || !q.state.Retries.SameTargetUnanswered || err.Code != upstream.CodeSilent)
	return q.Result.Attempts < q.state.Retries.Attempts && (exchange.MayRetryElsewhere(err, q.attempt.status()) || q.attempt.missing) && (q.repeatable() || !c.done)
}

// backOff waits before a target is retried and takes a retry from its pool's budget. A
// target of another pool is tried at once. It reports whether the candidate may be tried.
func (q *request) backOff(c *candidate, err *llm.Error) bool {
	pool := c.Provider.Pool()
	if !slices.ContainsFunc(q.candidates, func(o candidate) bool { return o.tried > 0 && o.Provider.Pool() == pool }) {
		return true
	}
	if !c.Budget.Retry() {
		return false
	}
	if c.tried == 0 {
		return true
	}
	wait := health.Backoff(c.tried-1, err.RetryAfter, rand.Float64)
	if wait > maxBackoff || q.elapsed()+wait >= c.Timeouts.Total {
		return false
	}
	select {
	case <-time.After(wait):
		return true
	case <-q.ctx.Done():
		return false
	}
}

// giveUp ends a request that no target could serve. It relays the upstream's error
// response unchanged if nothing was sent before.
func (q *request) giveUp(err *llm.Error) *llm.Error {
	q.nextSlot.Release()
	if q.Result.Attempts == 0 && q.unwritten != nil {
		return q.unwritten
	}
	if started := q.Writer.StopKeepAlive(); q.attempt.rejected && !started {
		return q.attempt.prepared.Deliver(&q.Delivery)
	}
	return err
}

// elapsed returns the time since the first attempt started.
func (q *request) elapsed() time.Duration {
	if q.servedAt.IsZero() {
		return 0
	}
	return time.Since(q.servedAt)
}

// repeatable reports whether a request may be sent again although an upstream may be
// processing it. Generating text has no side effect except its cost. Starting a job or
// adding to a conversation stored at the vendor does.
func (q *request) repeatable() bool { return !q.Call.Body.SideEffects }

// fail adds an attempt to those that failed.
func (q *request) fail(c *candidate, err *llm.Error) {
	f := failedAttempt{target: c.String(), reason: exchange.ReasonOf(q.attempt.status(), err), pool: c.Provider.Pool(), sentAt: q.attempt.sentAt, status: q.attempt.status(), times: exchange.TimesOf(q.attempt.trip, q.attempt.sentAt, q.Result.FirstToken)}
	if !f.sentAt.IsZero() {
		f.took = time.Since(f.sentAt)
	}
	q.failed = append(q.failed, f)
	q.Record.Failed(err)
}

// report reports the outcome of an attempt to the target's live state, once, unless the
// attempt was not sent.
func (q *request) report(a *attempt, err *llm.Error) {
	if a.sentAt.IsZero() || a.reported {
		return
	}
	a.reported = true
	if err == nil {
		err = q.Result.Err
	}
	if err != nil && err.Code == llm.MissingSignature {
		q.relay.observer.Logger().Warn("request lacks a signature that the model requires", "target", q.Result.Target, "id", q.Call.ID)
	}
	o := fleet.Outcome{Err: err, Caller: q.limited().Key}
	o.Status, o.Header = a.response()
	if err == nil {
		// For a non-streaming response, the time of the headers.
		o.FirstToken = max(q.Trip.HeadersAt.Sub(a.sentAt), q.Result.FirstToken.Sub(a.sentAt), 0)
	} else {
		o.Aborted = q.Account.Exhausted()
		o.Unreachable = err.Code == upstream.CodeUnreachable
	}
	fleet.Report(&a.target.Target, a.slot, o)
}

// attempts returns the value of the Isogloss-Attempts header: the number of attempts, the
// failed ones and the skipped targets.
func (q *request) attempts() string {
	return strconv.Itoa(q.Result.Attempts) + attemptsText("failed", q.failed) + attemptsText("skipped", q.skipped)
}

func attemptsText(name string, list []failedAttempt) string {
	if len(list) == 0 {
		return ""
	}
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = f.target + "=" + strings.ReplaceAll(f.reason, " ", "_")
	}
	return ";" + name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(exchange.HeaderText(strings.Join(texts, " "))) + `"`
}

// SetHeaders sets the response headers of both lanes: the target, the attempts, the
// fidelity, and the upstream headers that clients may see.
func (q *request) SetHeaders(h http.Header) {
	if q.Result.Target != "" {
		v := []string{exchange.HeaderText(q.Result.Target), q.attempts(), q.attempt.fidelity()} // one allocation for all
		h["Isogloss-Target"], h["Isogloss-Attempts"], h["Isogloss-Fidelity"] = v[0:1:1], v[1:2:2], v[2:3:3]
	}
	if set := q.Call.Dialect.Headers.SetRateLimits; set != nil && q.Call.Limited && q.state.Books.Quotas != nil {
		now := time.Now()
		set(h, q.state.Books.Limits(q.caller.Org, q.caller.Accounts, now, q.Result.Err), now)
	}
	_, header := q.attempt.response()
	if header == nil {
		return
	}
	q.Call.CopyHeaders(h, q.Target, header)
	if id := q.attempt.upstreamID(); id != "" {
		h["Isogloss-Upstream-Request-Id"] = []string{id}
	}
}
