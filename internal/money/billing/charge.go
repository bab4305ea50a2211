package billing

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Attempt is one attempt to send the request to a target.
type Attempt struct {
	Target Target
	Began  time.Time // zero if it was not sent
	Status int       // the upstream's status; 0 without a response
	Fault  string    // code of the error that ended it; empty without one

	// Reported is the usage that the upstream reported, or nil. If another target
	// continued the stream it is the sum of all parts.
	Reported *llm.Usage
	// Early is the usage that the upstream reported before the first output, or nil.
	Early *llm.Usage
	// Content reports whether the response is known to be not empty.
	Content bool
	usage.Times
}

// row returns the attempt as a ledger row has it.
func (t *Attempt) row() usage.Attempt {
	return usage.Attempt{Target: t.Target.Name, Began: t.Began, Took: time.Since(t.Began), Status: t.Status, Fault: t.Fault, Times: t.Times}
}

// Result describes how a request ended.
type Result struct {
	Status  int // status that the client received; 0 if it had disconnected
	Outcome usage.Outcome
	Last    Attempt         // the last attempt; Began is zero if none was sent
	Failed  []usage.Attempt // attempts that failed before the client received anything

	Fidelity string // value of the Isogloss-Fidelity header
	Losses   []llm.Loss
	Told     usage.Told // the error that the client gets; zero: none
}

// Closed reports whether Charge was called, or whether there is nothing to charge.
func (a *Account) Closed() bool { return a == nil || a.closed }

// Charge closes the request's row, charges its cost and refunds the rest of the
// reservation. It must be called before the client can know that the response is
// complete. Only the first call has an effect. The cost is nil if it is unknown.
func (a *Account) Charge(r Result) (cost *usage.Money) {
	if a.Closed() {
		return nil
	}
	a.closed = true
	row := a.books.row(&a.request)
	a.fill(&row, &r)
	var totals usage.Totals
	if a.entry != nil {
		var err error
		if totals, err = a.entry.End(row); err != nil { // the ledger has logged it
			a.entry.EndLater(row)
		}
	} else {
		totals = a.books.Ledger.Unrecorded(row)
	}
	var amount usage.Money
	if row.Cost != nil {
		amount = *row.Cost
	}
	a.reservation.Settle(row.Usage.TotalInput()+row.Usage.TotalOutput(), amount, totals)
	for _, x := range a.extensions {
		x.Settle(0, 0, usage.Totals{})
	}
	return row.Cost
}

// fill adds the result to the row.
func (a *Account) fill(row *usage.Row, r *Result) {
	row.Took, row.Status, row.Outcome = time.Since(row.Began), r.Status, r.Outcome
	row.Attempts = slices.Concat(a.parts.attempts, a.lost, r.Failed)
	last := r.Last.row()
	facts := a.facts(&r.Last, r.Outcome)
	last.Usage, row.Estimated, last.Cost = usage.Charge(facts)
	last.Rates = facts.Price.RatesOf(last.Usage)
	last.Charged = r.Outcome != usage.Failed || a.sent > a.parts.sent
	row.Usage, row.Cost = last.Usage, last.Cost
	if !last.Began.IsZero() {
		row.Target = last.Target
		if !a.parts.include(last.Began) {
			addLast(row, last)
		}
	}
	a.parts.addTo(row)
	if row.Fidelity, _, _ = strings.Cut(r.Fidelity, ";"); r.Outcome == usage.Failed && r.Status >= 400 && row.Fidelity != "refused" {
		row.Fidelity = "" // the client got an error, which nothing was translated into
	}
	row.SetLosses(r.Losses)
	row.Told = usage.BoundTold(r.Told)
	setTimes(row, last.Began)
}

// setTimes sets the times of a row from those of its attempts. FirstByte is that of the latest attempt.
func setTimes(row *usage.Row, last time.Time) {
	for i := range row.Attempts {
		t := &row.Attempts[i]
		began := max(0, t.Began.Sub(row.Began))
		if i == 0 || began < row.Queue {
			row.Queue = began
		}
		if t.FirstByte > 0 && t.Began.Equal(last) {
			row.FirstByte = began + t.FirstByte
		}
		if token := began + t.FirstToken; t.FirstToken > 0 && (row.FirstToken == 0 || token < row.FirstToken) {
			row.FirstToken = token
		}
	}
}

// addLast adds the last attempt to the row, unless it is one of the failed attempts
// there.
func addLast(row *usage.Row, last usage.Attempt) {
	at := slices.IndexFunc(row.Attempts, func(t usage.Attempt) bool { return t.Began.Equal(last.Began) })
	if at < 0 {
		row.Attempts = append(row.Attempts, last)
		return
	}
	t := &row.Attempts[at]
	if t.Fault == "" {
		t.Fault = last.Fault
	}
	t.Usage, t.Cost, t.Charged, t.Rates = last.Usage, last.Cost, last.Charged, last.Rates
}

// facts returns what the charge of an attempt depends on. It leaves out the parts of the
// response that other targets sent.
func (a *Account) facts(t *Attempt, outcome usage.Outcome) usage.Facts {
	if t.Began.IsZero() || a.parts.include(t.Began) {
		return usage.Facts{Outcome: outcome, Price: a.price(t.Target)}
	}
	if outcome == usage.Queued { // its usage is not known before the vendor's job has ended
		f := usage.Facts{Outcome: outcome, Reported: &llm.Usage{Other: a.request.MaxOther}, Prompt: a.estimate.MaxPrompt, Delivered: a.estimate.MaxOutput}
		if f.Price = a.price(t.Target); f.Price != nil {
			f.Price = &a.maxPrice
		}
		return f
	}
	f := usage.Facts{Outcome: outcome, Reported: a.parts.since(t.Reported), Prompt: a.estimate.Prompt, Delivered: a.sent - a.parts.sent, Content: t.Content, Price: a.price(t.Target)}
	switch {
	case a.request.Free:
		f.Reported, f.Content = cmp.Or(f.Reported, &llm.Usage{}), false // zero is right
	case f.Reported == nil:
		f.Reported = t.Early
	}
	return f
}

// price returns the price of a target, or nil if it is unknown.
func (a *Account) price(t Target) *usage.Price {
	if a.unpriced || t == (Target{}) {
		return nil
	}
	p, known := a.books.price(&a.request, t)
	if !known {
		return nil
	}
	return &p
}

// AddLost adds a hedged attempt that lost or failed. The client does not pay for it; the
// row has its cost for the operator.
func (a *Account) AddLost(t Attempt) {
	if a == nil || t.Began.IsZero() {
		return
	}
	row := t.row()
	if t.Early != nil {
		row.Usage = *t.Early
		if p := a.price(t.Target); p != nil {
			if cost, err := p.Cost(row.Usage); err == nil {
				row.Cost, row.Rates = &cost, p.RatesOf(row.Usage)
			}
		}
	}
	a.lost = append(a.lost, row)
}

// FaultOf returns the ledger's code of an error. It never contains a text of the upstream,
// which may quote the prompt.
func FaultOf(err *llm.Error) string {
	if err == nil {
		return ""
	}
	return plain.Word(cmp.Or(err.Code, string(err.Kind)))
}
