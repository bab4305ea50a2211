package relay

import (
	"net/http"
	"time"

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

// fill adds what became of the request.
func (x *exchange) fill(row *usage.Row) {
	a, seen := x.account, x.summary()
	row.Took = time.Since(row.Began)
	row.Status, row.Outcome = x.seen.Status, x.outcome()
	if row.Status == 0 && x.seen.Err == nil {
		row.Status = http.StatusOK
	}
	said := a.told
	if seen.Complete {
		said = a.spoken.n
	}
	used := usage.Facts{Outcome: row.Outcome, Reported: seen.Usage, Prompt: a.prompt, Delivered: said, Price: x.price()}
	if used.Reported == nil {
		used.Reported = x.early
	}
	row.Usage, row.Estimated, row.Cost = usage.Charge(used)
	row.Attempts = x.tried()
	if x.asked.IsZero() {
		return
	}
	row.Target = x.target.String()
	last := len(row.Attempts) - 1
	if last < 0 || !row.Attempts[last].Began.Equal(x.asked) { // it did not fail, or not yet
		row.Attempts = append(row.Attempts, usage.Attempt{Target: row.Target, Began: x.asked, Took: time.Since(x.asked), Status: x.seen.UpstreamStatus})
		last++
	}
	if x.seen.Err != nil {
		row.Attempts[last].Fault = faultOf(x.seen.Err)
	}
	row.Attempts[last].Usage, row.Attempts[last].Cost, row.Attempts[last].Charged = row.Usage, row.Cost, true
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
	p, known := x.state.Books.Prices.Find(x.target.Provider.Preset, x.target.Priced())
	if !known {
		return nil
	}
	return &p
}

// tried are the attempts that failed or were given up. The client does not pay for
// them.
func (x *exchange) tried() []usage.Attempt {
	out := x.account.others
	for _, t := range x.trials {
		if t.began.IsZero() {
			continue // it was never sent
		}
		out = append(out, usage.Attempt{Target: t.target, Began: t.began, Took: t.took, Status: t.status, Fault: t.why})
	}
	return out
}

// gaveUp notes an attempt that was sent and lost against another.
func (x *exchange) gaveUp(loser *exchange) {
	if x.account == nil || loser.asked.IsZero() {
		return
	}
	a := usage.Attempt{Target: loser.target.String(), Began: loser.asked, Took: time.Since(loser.asked), Fault: "hedge_lost"}
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
