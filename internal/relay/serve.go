package relay

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// candidate is a target that can be asked in this exchange.
type candidate struct {
	target route.Target
	tried  int
	stays  bool // asking it again is no use, or no right
}

// trial is what came of an attempt that failed, for the operator.
type trial struct {
	target string
	what   string
}

// serve asks one candidate after another until one has answered. The client gets
// what the last one said.
func (r *Relay) serve(x *exchange) *llm.Error {
	x.began = time.Now()
	c := &x.line[0]
	for {
		err := r.ask(x, c)
		if err == nil {
			return nil
		}
		x.note(c, err)
		next := r.again(x, c, err)
		if next == nil {
			return r.giveUp(x, err)
		}
		r.renew(x)
		c = next
	}
}

// ask makes one attempt and passes its answer on.
func (r *Relay) ask(x *exchange, c *candidate) *llm.Error {
	c.tried++
	if err := r.prepare(x, c.target); err != nil {
		c.stays = true
		return err
	}
	if err := r.attempt(x); err != nil {
		return err
	}
	return r.answer(x)
}

// giveUp ends an exchange that nobody could answer. An upstream's refusal goes to
// the client in the upstream's own words, if there is still a place for them.
func (r *Relay) giveUp(x *exchange, err *llm.Error) *llm.Error {
	if x.refused && !x.out.begun() {
		return r.answer(x)
	}
	x.out.close()
	return err
}

// renew puts a new attempt in the place of one that failed.
func (r *Relay) renew(x *exchange) {
	x.release()
	x.attempt = &attempt{fidelity: "exact"}
}

// lasted is how long the exchange has been going on upstream.
func (x *exchange) lasted() time.Duration {
	if x.began.IsZero() {
		return 0
	}
	return time.Since(x.began)
}

// again chooses who is asked after a candidate has failed, if anybody is. Nobody
// is once the client has seen a part of an answer: it would see another's
// beginning twice.
func (r *Relay) again(x *exchange, c *candidate, err *llm.Error) *candidate {
	switch {
	case x.out.said, x.ctx.Err() != nil, len(x.trials) >= x.state.Retries.Attempts, x.lasted() >= c.target.Timeouts.Total:
		return nil
	case c.stays && !x.refused && x.upstream == nil && x.call == nil:
		// It could not be written for this target; for another it may.
	case !elsewhere(err, x.upstream):
		return nil
	}
	for i := range x.line {
		if x.line[i].tried == 0 {
			return &x.line[i]
		}
	}
	return nil
}

// elsewhere reports whether another target may do better: not where the request
// itself is at fault, and not where its time is over.
func elsewhere(err *llm.Error, upstream *http.Response) bool {
	switch err.Kind {
	case llm.Upstream, llm.UpstreamAuth, llm.RateLimit, llm.Quota, llm.Overloaded:
		return true
	case llm.Timeout:
		return err.Code != "timeout_total"
	}
	if upstream == nil {
		return false
	}
	switch status := upstream.StatusCode; status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}

// note keeps what came of an attempt.
func (x *exchange) note(c *candidate, err *llm.Error) {
	what := err.Code
	switch {
	case x.upstream != nil && x.upstream.StatusCode >= http.StatusMultipleChoices:
		what = strconv.Itoa(x.upstream.StatusCode)
	case what == "":
		what = string(err.Kind)
	}
	x.trials = append(x.trials, trial{c.target.String(), what})
	x.seen.Failed(err.Kind)
}

// attempts is the header that says how many targets were asked, and what came of
// those that failed.
func (x *exchange) attempts() string {
	n := strconv.Itoa(x.seen.Attempts)
	if len(x.trials) == 0 {
		return n
	}
	tried := make([]string, len(x.trials))
	for i, t := range x.trials {
		tried[i] = t.target + "=" + t.what
	}
	return n + `;failed="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(headerText(strings.Join(tried, " "))) + `"`
}
