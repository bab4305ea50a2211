package relay

import (
	"errors"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// errLost is the cause with which the slower of two attempts is given up.
var errLost = errors.New("another target was sooner")

// hedge is who is asked as well if the candidate is slow to begin, and after how
// long: nobody for most requests. The first of an exchange only is hedged.
func (x *exchange) hedge(c *candidate) (*candidate, time.Duration) {
	h := x.route.Hedge
	if h.Quantile == 0 || !x.ask.stream || len(x.trials) > 0 || !x.repeatable() {
		return nil, 0
	}
	h.Budget.Offer(h.Share, len(x.ask.body))
	after, known := c.target.Live.Quantile(h.Quantile)
	if !known {
		return nil, 0
	}
	for i := range x.line {
		if other := &x.line[i]; other != c && other.tried == 0 && other.target.Live.State().Ready {
			return other, after
		}
	}
	return nil, 0
}

// outcome is what came of one of two attempts.
type outcome struct {
	x   *exchange
	err *llm.Error
}

// race makes the attempt, and a second one with another target if the first has
// said nothing after a while. The first to say something is taken, the other one is
// given up.
func (r *Relay) race(x *exchange, req *http.Request, other *candidate, after time.Duration) *llm.Error {
	results := make(chan outcome, 2)
	go func() { results <- outcome{x, r.attempt(x, req)} }()
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case o := <-results:
		x.hear()
		return o.err
	case <-timer.C:
	}
	y, second := r.second(x, other)
	if y == nil {
		o := <-results
		x.hear()
		return o.err
	}
	go func() { results <- outcome{y, r.attempt(y, second)} }()
	return x.firstOf(y, results)
}

// second prepares an attempt beside the one that is under way. It is made on a copy
// of the exchange: the two share nothing that either writes.
func (r *Relay) second(x *exchange, other *candidate) (*exchange, *http.Request) {
	if !x.route.Hedge.Budget.Take(len(x.ask.body)) {
		return nil, nil
	}
	place, ok := other.target.Slots.TryEnter(x.class)
	if !ok {
		return nil, nil
	}
	y := &exchange{state: x.state, endpoint: x.endpoint, client: x.client, out: x.out, seen: x.seen, ctx: x.ctx, caller: x.caller,
		ask: x.ask, route: x.route, line: x.line, began: x.began, tape: x.tape, attempt: &attempt{fidelity: exact, place: place}}
	if r.prepare(y, &other.target) != nil {
		place.Release()
		return nil, nil
	}
	other.tried++
	y.open()
	return y, y.request(y.path)
}

// firstOf takes the first of two attempts that says something. Where both fail,
// the first one's error is told.
func (x *exchange) firstOf(y *exchange, results chan outcome) *llm.Error {
	one := <-results
	if one.err == nil {
		loser := y
		if one.x == y {
			loser = x
		}
		loser.stop(errLost)
		<-results
		x.adopt(one.x, loser, nil)
		return nil
	}
	two := <-results
	if two.err == nil {
		one.x.report(one.err)
		x.adopt(two.x, one.x, one.err)
		return nil
	}
	y.report(errorOf(y, one, two))
	x.gaveUp(y, errorOf(y, one, two))
	y.release()
	x.hear()
	return errorOf(x, one, two)
}

func errorOf(x *exchange, one, two outcome) *llm.Error {
	if one.x == x {
		return one.err
	}
	return two.err
}

// adopt makes the winner's attempt the exchange's. The error is why the loser
// failed; nil where it was only slower.
func (x *exchange) adopt(winner, loser *exchange, err *llm.Error) {
	result := "first"
	if winner != x {
		result = "second"
	}
	x.seen.Hedged(loser.target.Provider.Name, result, loser.early)
	x.gaveUp(loser, err)
	if winner == x {
		loser.release()
		x.hear()
		return
	}
	lost := x.attempt
	x.attempt, x.dialect = winner.attempt, winner.dialect
	lost.release()
	x.name(&x.target)
	x.seen.UpstreamStream = x.streams
	x.seen.Attempts++
	x.hear()
}
