package billing

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Account holds the reservation, the usage and the charge of one request. It must not be
// used concurrently.
type Account struct {
	books    *Books
	request  Request
	estimate Estimate
	maxPrice usage.Price // the highest price of all targets, used for reservations
	unpriced bool        // the request has no price

	reservation quota.Hold
	extensions  []quota.Hold
	extended    int64          // output tokens that the extensions reserve
	reserved    usage.Money    // by all of them
	exhausted   bool           // an extension was rejected
	refusal     *quota.Refusal // of the request's first reservation; nil: it was made
	entry       *spool.Entry

	output    tokenCounter
	delivered int64 // output tokens that the ledger has recorded
	sent      int64 // output tokens that were sent to the client

	lost   []usage.Attempt // hedged attempts that lost
	parts  parts
	closed bool
}

// Reserve takes the maximum cost of a request from each of its caller's accounts, at the
// price of its most expensive target, and opens its row in the ledger. The targets are in
// the order in which they are tried.
func (b *Books) Reserve(ctx context.Context, r Request, e Estimate, targets []Target) (*Account, *llm.Error) {
	if b.Ledger == nil {
		return nil, nil
	}
	price, unpriced := b.highestPrice(&r, e, targets)
	known := unpriced == ""
	if !known && hasBudget(r.Accounts) {
		return nil, &llm.Error{Kind: llm.Permission, Code: "price_unknown", Param: "model",
			Message: "the target '" + unpriced + "' of the model '" + r.Model + "' has no price, and " + ownerOfBudget(&r) + " has a budget; the gateway's operator can set one under prices"}
	}
	e.limitPrompt(price.Context)
	if r.Free {
		e.MaxPrompt, e.Prompt = 0, 0
	}
	a := &Account{books: b, request: r, estimate: e, maxPrice: price}
	opening := &price
	if !known {
		opening = nil
	}
	opened, err := a.open(ctx, targets[0].Name, opening)
	if a.refusal != nil && a.refusal.Reason == quota.Budget {
		err.Message = a.explainBudget(a.refusal, targets)
	}
	return opened, err
}

// ReserveForwarded opens the account of a request whose body is not parsed, so that its
// cost is unknown. It rejects a caller with a budget.
func (b *Books) ReserveForwarded(ctx context.Context, r Request) (*Account, *llm.Error) {
	if b.Ledger == nil {
		return nil, nil
	}
	if hasBudget(r.Accounts) {
		return nil, &llm.Error{Kind: llm.Permission, Code: "price_unknown",
			Message: "the cost of this path is not known, and " + ownerOfBudget(&r) + " has a budget; use a key without one"}
	}
	return (&Account{books: b, request: r, unpriced: true}).open(ctx, "", nil)
}

// OpenCached opens the account of a request that the cache serves. It reserves nothing
// and costs nothing.
func (b *Books) OpenCached(ctx context.Context, r Request, target string) (*Account, *llm.Error) {
	if b.Ledger == nil {
		return nil, nil
	}
	r.Accounts = nil
	return (&Account{books: b, request: r, unpriced: true}).open(ctx, target, nil)
}

// open makes the account's reservation and opens its row.
func (a *Account) open(ctx context.Context, target string, price *usage.Price) (_ *Account, err *llm.Error) {
	a.reserved = a.request.maxCost(&a.maxPrice, a.estimate)
	if a.reservation, err = a.reserve(ctx, a.request.Accounts, 0, a.estimate.MaxPrompt+a.estimate.MaxOutput, a.reserved); err != nil {
		return nil, err
	}
	if a.entry, err = a.openRow(target, price); err != nil {
		a.reservation.Settle(0, 0, usage.Totals{})
		return nil, err
	}
	return a, nil
}

// reserve reserves tokens and their cost. extension numbers the reservations after the
// request's first.
func (a *Account) reserve(ctx context.Context, from []quota.Account, extension int, tokens int64, cost usage.Money) (quota.Hold, *llm.Error) {
	if len(from) == 0 {
		return quota.Hold{}, nil
	}
	request := quota.Request{ID: a.request.ID, Org: a.request.Org, Accounts: from, Tokens: tokens, Cost: cost}
	if extension > 0 {
		request.ID, request.Extension = request.ID+"/"+strconv.Itoa(extension+1), true
	}
	reservation, refusal := a.books.Quotas.Reserve(ctx, request)
	if refusal != nil {
		if extension == 0 {
			a.refusal = refusal
		}
		return quota.Hold{}, limitReached(refusal, extension > 0)
	}
	return reservation, nil
}

// budgetAdvice ends the error of a request that a budget does not cover.
const budgetAdvice = "ask its operator for more, or send a smaller one"

// notCovered begins the error of a budget that does not cover something.
func notCovered(why *quota.Refusal) string {
	return "the " + why.Budget.Name() + " of " + owner(why.Account) + " does not cover "
}

// limitReached returns the error of a caller that has reached one of its limits, before its
// request is sent or in the middle of the response.
func limitReached(why *quota.Refusal, inResponse bool) *llm.Error {
	if why.Reason == quota.Budget {
		err := &llm.Error{Kind: llm.Quota, Code: llm.BudgetExceeded, RetryAfter: why.RetryAfter}
		what := "this request; " + budgetAdvice
		if inResponse {
			what = "the rest of this response; ask its operator for more, or set an output limit"
			err.RetryAfter = 0 // it counts the response's own reservation, which is spent
		}
		err.Message = notCovered(why) + what
		return err
	}
	return &llm.Error{Kind: llm.RateLimit, Code: "rate_limit_" + string(why.Reason), RetryAfter: why.RetryAfter,
		Message: "the limit of " + owner(why.Account) + " on " + string(why.Reason) + " is reached; wait, or ask its operator for more"}
}

// owner returns how an error names an account. The id of a person tells the person nothing.
func owner(account string) string {
	if strings.HasPrefix(account, "key:person_") {
		return "your account"
	}
	return account
}

// Extend reserves more output if the response has grown beyond its reservation. It fails if
// a budget is exhausted; the response must then end. If the client set a limit, a response
// may have twice as many tokens before, and outputSlack more, because they are estimated:
// only an upstream that ignores the limit sends more.
func (a *Account) Extend(ctx context.Context) *llm.Error {
	if a == nil {
		return nil
	}
	return a.cover(ctx, a.sent)
}

// ExtendHeld is Extend for a response of which nothing is sent before it is complete. If it
// fails, the client pays for what the upstream has generated, because the operator does.
func (a *Account) ExtendHeld(ctx context.Context) *llm.Error {
	if a == nil {
		return nil
	}
	err := a.cover(ctx, a.output.tokens)
	if err != nil {
		a.sent = a.output.tokens
	}
	return err
}

// cover reserves the output tokens of a response that are not reserved yet, and the rest of
// the last step.
func (a *Account) cover(ctx context.Context, tokens int64) *llm.Error {
	covered := a.estimate.MaxOutput
	if a.closed || covered == 0 {
		return nil
	}
	if a.estimate.Bounded {
		covered += covered - a.extended + outputSlack
	}
	if tokens <= covered {
		return nil
	}
	budgets := onlyBudgets(a.request.Accounts)
	if len(budgets) == 0 {
		return nil
	}
	more := (tokens - covered + outputStep - 1) / outputStep * outputStep
	cost := maxCost(&a.maxPrice, 0, more, llm.Amounts{})
	reservation, err := a.reserve(ctx, budgets, len(a.extensions)+1, more, cost)
	if err != nil {
		a.exhausted = true
		return err
	}
	a.extensions = append(a.extensions, reservation)
	a.extended += more
	a.reserved += cost
	a.entry.Reserve(a.reserved)
	a.estimate.MaxOutput += more
	return nil
}

// Extensible reports whether further reservations bound the response: the client set no
// output limit, and one of its accounts has a budget.
func (a *Account) Extensible() bool {
	return a != nil && !a.estimate.Bounded && hasBudget(a.request.Accounts)
}

// Exhausted reports whether the response ended because a budget was exhausted. The target
// is not at fault then.
func (a *Account) Exhausted() bool { return a != nil && a.exhausted }

// NeedsUsage reports whether the request is charged by the usage that its upstream
// reports. Some upstreams report the usage of a stream only if the request asks for it.
func (a *Account) NeedsUsage() bool { return a != nil }

func hasBudget(accounts []quota.Account) bool {
	return slices.ContainsFunc(accounts, func(a quota.Account) bool { return a.Limit.Budget > 0 })
}

// onlyBudgets returns the accounts that have a budget, without their other limits. A
// further reservation belongs to the same request: it takes no concurrency slot and does
// not count against limits per minute.
func onlyBudgets(accounts []quota.Account) []quota.Account {
	var budgets []quota.Account
	for _, a := range accounts {
		if a.Limit.Budget > 0 {
			budgets = append(budgets, quota.Account{ID: a.ID, Limit: quota.Limit{Budget: a.Limit.Budget, Window: a.Limit.Window}})
		}
	}
	return budgets
}

// RestartCount forgets the tokens of an attempt that failed before the client received a part
// of its response.
func (a *Account) RestartCount() {
	if a != nil {
		a.output = tokenCounter{}
	}
}

// CountEvent counts an event of the response. Call it before the event is written.
func (a *Account) CountEvent(size int) {
	if a != nil {
		a.output.addEvent(size)
	}
}

// CountText counts a piece of the response's text. Call it before the text is written.
func (a *Account) CountText(size int) {
	if a != nil {
		a.output.addText(size)
	}
}

// CountBody counts a response that is written in one piece. If its texts were not counted
// before, its tokens are estimated from its size.
func (a *Account) CountBody(size int) {
	if a == nil {
		return
	}
	if a.output.tokens == 0 {
		a.output.addText(size)
	}
	a.sent = a.output.tokens
}

// CountResponse counts the texts of a decoded response without usage.
func (a *Account) CountResponse(resp *llm.Response) {
	if a == nil || a.output.tokens > 0 || resp.Usage != nil {
		return
	}
	for _, e := range llm.Explode(resp) {
		if d, ok := e.(llm.Delta); ok {
			a.output.addText(len(d.Text))
		}
	}
}

// BeforeWrite records the tokens that are about to be written in the ledger. It is called
// before the write, so that a process that is killed in between has not sent more than it
// recorded.
func (a *Account) BeforeWrite() {
	if a != nil && !a.closed && a.entry != nil && a.output.tokens > a.delivered {
		a.entry.Delivered(a.output.tokens - a.delivered)
		a.delivered = a.output.tokens
	}
}

// AfterWrite records that the client has received all counted tokens.
func (a *Account) AfterWrite() {
	if a != nil {
		a.sent = a.output.tokens
	}
}
