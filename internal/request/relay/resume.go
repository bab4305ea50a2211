package relay

import (
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
)

// MayResume reports whether another target may continue a stream after an error.
func (q *request) MayResume(err *llm.Error) bool { return exchange.MayRetryElsewhere(err, 0) }

// Resume has another target continue a truncated stream. It tries the first candidate
// last, because that is usually the one that has just failed.
func (q *request) Resume(cause *llm.Error, rest exchange.Lane) (exchange.Prepared, bool) {
	q.report(q.attempt, cause)
	q.Account.EndPart(q.billedAttempt(cause))
	for i := range q.candidates {
		c := &q.candidates[(i+1)%len(q.candidates)]
		if q.Result.Attempts >= q.state.Retries.Attempts || q.ctx.Err() != nil {
			return nil, false
		}
		prepared, err := rest.Prepare(q.Call, &c.Target, exchange.Options{})
		if err != nil {
			continue
		}
		slot, ok := c.Slots.TryEnter(q.limited())
		if !ok {
			continue
		}
		q.attempt.close()
		a := &attempt{target: &c.Target, prepared: prepared, slot: slot}
		q.use(a)
		q.countAttempt(a)
		err = q.send(a, q.newHTTPRequest(a))
		q.noteResponse()
		if err == nil && !a.trip.Streams() {
			err = &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream did not stream its response"}
		}
		if err == nil {
			return prepared, true
		}
		q.fail(c, err)
		q.report(a, err)
	}
	return nil, false
}
