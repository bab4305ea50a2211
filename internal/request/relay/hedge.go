package relay

import (
	"errors"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
)

// errHedgeLost is the cause with which the slower of two attempts is cancelled.
var errHedgeLost = errors.New("another target was faster")

// hedge returns the target of a second attempt and when it starts, if the candidate is
// slow to send its first token. Only the first attempt of a request is hedged.
func (q *request) hedge(c *candidate) (*candidate, time.Duration) {
	h := q.route.Hedge
	if h.Quantile == 0 || !q.Call.Body.Stream || len(q.failed) > 0 || !q.repeatable() {
		return nil, 0
	}
	q.route.Hedged.Offer(h.Share, len(q.Call.Body.Text()))
	after, known := c.Live.Quantile(h.Quantile)
	if !known {
		return nil, 0
	}
	for i := range q.candidates {
		if other := &q.candidates[i]; other != c && other.tried == 0 && other.Live.State().Ready {
			return other, after
		}
	}
	return nil, 0
}

// outcome is the result of one of two attempts.
type outcome struct {
	attempt *attempt
	err     *llm.Error
}

// race sends the attempt, and a second one to another target if the first has not sent a
// token after a delay. The first attempt that sends a token becomes the request's
// attempt; the other is cancelled.
func (q *request) race(first *attempt, other *candidate, after time.Duration) *llm.Error {
	results := make(chan outcome, 2)
	start := func(a *attempt) {
		req := q.newHTTPRequest(a)
		go func() { results <- outcome{a, q.sendBeside(a, req)} }()
	}
	start(first)
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case o := <-results:
		return o.err
	case <-timer.C:
	}
	second := q.secondAttempt(other)
	if second == nil {
		o := <-results
		return o.err
	}
	start(second)
	return q.firstOf(first, second, other, results)
}

// sendBeside is send for a goroutine of its own. A panic fails the attempt.
func (q *request) sendBeside(a *attempt, req *http.Request) (err *llm.Error) {
	if !crash.Do(q.relay.observer.Logger(), func() { err = q.send(a, req) }, "id", q.Call.ID) {
		return exchange.Panicked()
	}
	return err
}

// secondAttempt prepares the second attempt if the hedging budget allows it and the
// target has a free slot. Otherwise it returns nil.
func (q *request) secondAttempt(other *candidate) *attempt {
	if !q.route.Hedged.Take(len(q.Call.Body.Text())) {
		return nil
	}
	slot, ok := other.Slots.TryEnter(q.limited())
	if !ok {
		return nil
	}
	a, err := q.newAttempt(&other.Target, slot)
	if err != nil {
		slot.Release()
		return nil
	}
	other.tried++
	q.Result.Attempts++
	a.start()
	return a
}

// firstOf waits for the first of two attempts that succeeds. If both fail it returns
// the error of the first.
func (q *request) firstOf(first, second *attempt, other *candidate, results chan outcome) *llm.Error {
	one := <-results
	if one.err == nil {
		loser := second
		if one.attempt == second {
			loser = first
		}
		loser.cancel(errHedgeLost)
		<-results
		q.settleHedge(first, one.attempt, loser, nil)
		return nil
	}
	two := <-results
	if two.err == nil {
		q.report(one.attempt, one.err)
		q.settleHedge(first, two.attempt, one.attempt, one.err)
		return nil
	}
	if one.attempt == second {
		one, two = two, one
	}
	q.report(second, two.err)
	q.addLost(second, two.err)
	other.done = !second.safeToRetry(two.err)
	second.close()
	return one.err
}

// settleHedge makes the winner the request's attempt. err is the loser's error, or nil if
// the loser was only slower.
func (q *request) settleHedge(first, winner, loser *attempt, err *llm.Error) {
	result := "first"
	if winner != first {
		result = "second"
	}
	q.Record.Hedged(loser.target.Provider.Pool(), result, loser.early)
	q.addLost(loser, err)
	loser.close()
	q.use(winner)
}

// addLost adds an attempt that lost or failed to the account. It lists a failed one.
func (q *request) addLost(a *attempt, err *llm.Error) {
	lost := billing.Attempt{Target: exchange.Billed(&a.target.Target), Began: a.sentAt, Status: a.status(), Fault: billing.FaultOf(err), Early: a.early, Times: exchange.TimesOf(a.trip, a.sentAt, time.Time{})}
	if err == nil {
		lost.Fault = "hedge_lost"
	}
	q.Account.AddLost(lost)
	if err != nil {
		q.failed = append(q.failed, failedAttempt{target: a.target.String(), reason: exchange.ReasonOf(a.status(), err), pool: a.target.Provider.Pool(), sentAt: a.sentAt, billed: true})
	}
}
