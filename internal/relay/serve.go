package relay

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/health"
	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// candidate is a target that can be asked in this exchange.
type candidate struct {
	target route.Target
	tried  int
	done   bool // asking it again is no use, or no right
}

// trial is a target that did not answer, and why.
type trial struct {
	target, why string
	pool        string    // whose retries are counted with its own
	began       time.Time // zero where it was not sent
	took        time.Duration
	status      int
}

// serve asks one candidate after another until one has answered. The client gets
// what the last one said.
func (r *Relay) serve(x *exchange) *llm.Error {
	x.began = time.Now()
	if r.watcher != nil && r.watcher.Active() {
		r.follow(x)
	}
	c, err := r.next(x)
	for err == nil {
		if err = r.ask(x, c); err == nil {
			return nil
		}
		x.failed(c, err)
		if !x.mayRepeat(c, err) {
			break
		}
		next, refused := r.next(x)
		if next == nil || refused != nil || !x.pause(next, err) {
			break
		}
		x.renew()
		c, err = next, nil
	}
	return r.giveUp(x, err)
}

// ask makes one attempt and passes its answer on.
func (r *Relay) ask(x *exchange, c *candidate) *llm.Error {
	c.tried++
	err := r.reach(x, c)
	if err == nil {
		err = r.answer(x)
	}
	x.report(err)
	if err == nil && x.seen.Err == nil {
		r.answered(x)
	}
	return err
}

// reach makes an attempt up to where its answer can be passed on.
func (r *Relay) reach(x *exchange, c *candidate) *llm.Error {
	x.place, x.taken = x.taken, limit.Permit{}
	x.name(&c.target)
	if err := r.prepare(x, &c.target); err != nil {
		return err
	}
	x.begin()
	if err := r.call(x, c); err != nil {
		return err
	}
	return x.settle()
}

// call makes the attempt, or two of them where the model is hedged.
func (r *Relay) call(x *exchange, c *candidate) *llm.Error {
	req := x.request(x.path)
	x.keepAlive()
	if other, after := x.hedge(c); other != nil {
		return r.race(x, req, other, after)
	}
	defer x.hear()
	return r.attempt(x, req)
}

// name notes whom the exchange turns to.
func (x *exchange) name(t *route.Target) {
	x.seen.Target, x.seen.UpstreamProtocol = t.String(), string(t.Provider.Protocol)
	x.seen.Route(x.route.Name, t.Provider.Name)
}

// begin counts the attempt.
func (x *exchange) begin() {
	x.seen.UpstreamStream = x.streams
	x.seen.Attempts++
	x.open()
	pool := x.target.Provider.Pool()
	if !slices.ContainsFunc(x.trials, func(t trial) bool { return t.pool == pool }) {
		x.target.Budget.Offered()
	}
}

// open counts the attempt as one that its target works on.
func (a *attempt) open() {
	a.target.Live.Begin()
	a.busy, a.asked = true, time.Now()
}

// next is who is asked now, with a place taken: the first who was not asked yet
// and has one. Where all are full it waits for the first. Where all were asked, it
// is the first that may be asked again.
func (r *Relay) next(x *exchange) (*candidate, *llm.Error) {
	var fresh, again *candidate
	for i := range x.line {
		switch c := &x.line[i]; {
		case c.done:
		case c.tried > 0:
			again = cmp.Or(again, c)
		default:
			if place, ok := c.target.Slots.TryEnter(x.class); ok {
				x.taken = place
				return c, nil
			}
			fresh = cmp.Or(fresh, c)
		}
	}
	c := cmp.Or(fresh, again)
	if c == nil {
		return nil, nil
	}
	place, refusal := c.target.Slots.Enter(x.ctx, x.limited())
	if refusal != nil {
		return nil, refused(refusal)
	}
	x.taken = place
	return c, nil
}

// refused tells the client that there is more to do than can be done.
func refused(why *limit.Refusal) *llm.Error {
	e := &llm.Error{Kind: llm.Overloaded, Code: "overloaded_" + why.Reason, Message: why.Error(), RetryAfter: why.RetryAfter}
	switch why.Reason {
	case limit.Cancelled:
		return clientGone(context.Canceled)
	case limit.Key:
		e.Kind, e.Code = llm.RateLimit, "concurrency_limit"
	}
	return e
}

// mayRepeat reports whether somebody else may be asked, or the same once more.
// Nobody is once the client has seen a part of an answer: it would see another's
// beginning twice.
func (x *exchange) mayRepeat(c *candidate, err *llm.Error) bool {
	if x.out.said || x.ctx.Err() != nil || x.lasted() >= c.target.Timeouts.Total {
		return false
	}
	if x.asked.IsZero() { // it could not be written for this target; for another it may
		c.done = true
		if x.unwritten == nil {
			x.unwritten = err
		}
		return true
	}
	c.done = !x.askedInVain(err)
	return x.seen.Attempts < x.state.Retries.Attempts && elsewhere(err, x.upstream) && (x.repeatable() || !c.done)
}

// pause waits before a target is asked again, and asks whether its provider can
// bear it. Another provider is asked at once.
func (x *exchange) pause(c *candidate, err *llm.Error) bool {
	pool := c.target.Provider.Pool()
	if !slices.ContainsFunc(x.line, func(o candidate) bool { return o.tried > 0 && o.target.Provider.Pool() == pool }) {
		return true
	}
	if !c.target.Budget.Retry() {
		return false
	}
	if c.tried == 0 {
		return true
	}
	wait := health.Backoff(c.tried-1, err.RetryAfter, rand.Float64)
	if wait > patience || x.lasted()+wait >= c.target.Timeouts.Total {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.ctx.Done():
		return false
	}
}

// patience is how long a client is made to wait for the same target. One that asks
// for more time is believed, and so the client hears of it.
const patience = 2 * time.Second

// giveUp ends an exchange that nobody could answer. An upstream's refusal goes to
// the client in the upstream's own words, if there is still a place for them.
func (r *Relay) giveUp(x *exchange, err *llm.Error) *llm.Error {
	x.taken.Release()
	if x.seen.Attempts == 0 && x.unwritten != nil {
		return x.unwritten
	}
	if x.refused && !x.out.begun() {
		return r.answer(x)
	}
	x.out.close()
	return err
}

// renew puts a new attempt in the place of one that failed.
func (x *exchange) renew() {
	x.release()
	x.attempt = &attempt{fidelity: exact}
}

// lasted is how long the exchange has been going on upstream.
func (x *exchange) lasted() time.Duration {
	if x.began.IsZero() {
		return 0
	}
	return time.Since(x.began)
}

// elsewhere reports whether another target may do better: not where the request
// itself is at fault, and not where its time is over.
func elsewhere(err *llm.Error, upstream *http.Response) bool {
	switch err.Kind {
	case llm.Upstream, llm.UpstreamAuth, llm.RateLimit, llm.Quota, llm.Overloaded:
		return true
	case llm.Timeout:
		return err.Code != codeTotal
	default:
	}
	if upstream == nil {
		return false
	}
	switch status := upstream.StatusCode; status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return true
	case http.StatusForbidden: // it is us who may not; another's credential may
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}

// askedInVain reports whether it is certain that the upstream works on nothing:
// it was not reached, or it has said no. Silence and a broken connection say
// nothing of the kind, and the same target is then not asked twice. A refused
// credential or an empty account is refused again.
func (x *exchange) askedInVain(err *llm.Error) bool {
	switch {
	case err.Kind == llm.UpstreamAuth, err.Kind == llm.Quota:
		return false
	case err.Code == codeUnreachable, err.Code == codeConnect:
		return true
	}
	return x.refused && x.upstream.StatusCode != http.StatusGatewayTimeout
}

// repeatable reports whether a request may be asked again where it is not known
// what became of it. Generating text has no effect but its cost; starting a job or
// adding to a conversation that the vendor keeps does.
func (x *exchange) repeatable() bool {
	return x.ask.raw("background").Kind() != 't' && x.ask.raw("conversation") == nil && x.ask.raw("thread") == nil
}

// failed keeps what came of an attempt.
func (x *exchange) failed(c *candidate, err *llm.Error) {
	why := err.Code
	switch {
	case x.upstream != nil && x.upstream.StatusCode >= http.StatusMultipleChoices:
		why = strconv.Itoa(x.upstream.StatusCode)
	case why == "":
		why = string(err.Kind)
	}
	t := trial{target: c.target.String(), why: why, pool: c.target.Provider.Pool(), began: x.asked, status: x.seen.UpstreamStatus}
	if !t.began.IsZero() {
		t.took = time.Since(t.began)
	}
	x.trials = append(x.trials, t)
	x.seen.Failed(err.Kind)
}

// attempts is the header that says how many targets were asked, what came of those
// that failed, and who was passed over.
func (x *exchange) attempts() string {
	n := strconv.Itoa(x.seen.Attempts)
	if len(x.trials)+len(x.skipped) == 0 {
		return n
	}
	return n + trialsText("failed", x.trials) + trialsText("skipped", x.skipped)
}

func trialsText(name string, trials []trial) string {
	if len(trials) == 0 {
		return ""
	}
	texts := make([]string, len(trials))
	for i, t := range trials {
		texts[i] = t.target + "=" + strings.ReplaceAll(t.why, " ", "_")
	}
	return ";" + name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(headerText(strings.Join(texts, " "))) + `"`
}
