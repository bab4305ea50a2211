package relay

import (
	"net/http"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// charge closes the row of the request and gives back what was reserved and not
// used. It is called before the client can know that the answer is over, and only
// the first call does anything.
func (x *exchange) charge() {
	a := x.account
	if a == nil || a.closed {
		return
	}
	a.closed = true
	row := x.row()
	x.fill(&row)
	if a.entry != nil {
		_ = a.entry.End(row) // the spool has logged it
	}
	var cost usage.Money
	if row.Cost != nil {
		cost = *row.Cost
		x.seen.Cost = (*int64)(row.Cost)
	}
	a.hold.Settle(row.Usage.TotalInput()+row.Usage.TotalOutput(), cost)
	for _, h := range a.more {
		h.Settle(0, 0)
	}
}

// chargeStream closes the row of a stream whose last bytes are about to be sent.
func (x *exchange) chargeStream() {
	x.account.sent()
	x.seen.Status = http.StatusOK
	x.charge()
}

// fill adds what became of the request.
func (x *exchange) fill(row *usage.Row) {
	row.Took = time.Since(row.Began)
	row.Status, row.Outcome = x.status(), x.outcome()
	row.Attempts = x.tried()
	last := usage.Attempt{Target: x.seen.Target, Began: x.asked, Took: time.Since(x.asked), Status: x.seen.UpstreamStatus}
	last.Usage, row.Estimated, last.Cost = usage.Charge(x.facts(row.Outcome))
	last.Charged = row.Outcome != usage.Failed || x.account.told > x.account.parts.told
	row.Usage, row.Cost = last.Usage, last.Cost
	if !x.asked.IsZero() {
		row.Target = last.Target
	}
	if !x.asked.IsZero() && !x.account.parts.has(x.asked) {
		x.enter(row, last)
	}
	x.account.parts.addTo(row)
}

// enter puts the last attempt into the row, where it may stand as one that failed.
func (x *exchange) enter(row *usage.Row, last usage.Attempt) {
	at := slices.IndexFunc(row.Attempts, func(a usage.Attempt) bool { return a.Began.Equal(last.Began) })
	if at < 0 {
		row.Attempts = append(row.Attempts, last)
		at = len(row.Attempts) - 1
	}
	a := &row.Attempts[at]
	if x.seen.Err != nil && a.Fault == "" {
		a.Fault = faultOf(x.seen.Err)
	}
	a.Usage, a.Cost, a.Charged = last.Usage, last.Cost, last.Charged
}

// facts is what the client is charged by, without the parts that others said.
func (x *exchange) facts(outcome usage.Outcome) usage.Facts {
	a := x.account
	if x.asked.IsZero() || a.parts.has(x.asked) { // nobody was asked, or nobody since
		return usage.Facts{Outcome: outcome, Price: x.price()}
	}
	f := usage.Facts{Outcome: outcome, Reported: a.parts.since(x.summary().Usage), Prompt: a.likely, Delivered: a.told - a.parts.told, Price: x.price()}
	switch {
	case f.Reported != nil:
	case x.endpoint.counts():
		f.Reported = &llm.Usage{}
	default:
		f.Reported = x.early
	}
	return f
}

// status is what the client was told, or is about to be; 0 where it did not wait.
func (x *exchange) status() int {
	err := x.seen.Err
	switch {
	case x.seen.Status != 0:
		return x.seen.Status
	case err == nil, x.out.begun():
		return http.StatusOK
	case err.Kind == llm.Cancelled:
		return 0
	}
	return x.dialect.ErrorStatus(err)
}

// outcome is how the request ended, or is about to.
func (x *exchange) outcome() usage.Outcome {
	switch err := x.seen.Err; {
	case x.memory.cached:
		return usage.Cached
	case err == nil:
		return usage.Answered
	case err.Kind == llm.Cancelled:
		return usage.Left
	}
	return usage.Failed
}

// price is that of whoever answers; nil where it is not known.
func (x *exchange) price() *usage.Price {
	if x.target.Provider == nil || x.route == nil {
		return nil
	}
	p, known := x.priceOf(&x.target)
	if !known {
		return nil
	}
	return &p
}

func (x *exchange) priceOf(t *route.Target) (usage.Price, bool) {
	if x.endpoint.counts() {
		return usage.Price{}, true
	}
	return x.state.Books.Prices.Find(t.Provider.Preset, t.Priced())
}

// tried are the attempts that failed or were given up. The client does not pay for
// them.
func (x *exchange) tried() []usage.Attempt {
	out := slices.Concat(x.account.parts.all, x.account.others)
	for _, t := range x.trials {
		if t.began.IsZero() {
			continue // it was never sent
		}
		out = append(out, usage.Attempt{Target: t.target, Began: t.began, Took: t.took, Status: t.status, Fault: t.why})
	}
	return out
}

// gaveUp notes an attempt that was sent and lost against another, or failed beside
// it.
func (x *exchange) gaveUp(loser *exchange, err *llm.Error) {
	if x.account == nil || loser.asked.IsZero() {
		return
	}
	a := usage.Attempt{Target: loser.target.String(), Began: loser.asked, Took: time.Since(loser.asked), Fault: "hedge_lost"}
	if err != nil {
		a.Fault = faultOf(err)
	}
	if loser.upstream != nil {
		a.Status = loser.upstream.StatusCode
	}
	if loser.early != nil {
		a.Usage = *loser.early
		if p := loser.price(); p != nil {
			if cost, err := p.Cost(a.Usage); err == nil {
				a.Cost = &cost
			}
		}
	}
	x.account.others = append(x.account.others, a)
}

func faultOf(err *llm.Error) string {
	if err.Code != "" {
		return err.Code
	}
	return string(err.Kind)
}
