package relay

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/cache"
	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Books are what exchanges are counted in. Without a ledger nothing is counted.
type Books struct {
	Node    string
	Prices  *usage.Book
	Ledger  *usage.Spool
	Quotas  *quota.Keeper
	Answers *cache.Cache // nil where none are kept
	Once    *cache.Once  // nil where Idempotency-Key is left to the upstream
}

// account is what is kept of an exchange for the ledger.
type account struct {
	entry    *usage.Entry
	hold     quota.Hold
	more     []quota.Hold    // for an answer that goes on beyond what was reserved
	payers   []quota.Account // of those
	prompt   int64           // tokens that are reserved for it
	likely   int64           // tokens that it has, estimated: what is paid for where the provider does not tell
	allowed  int64           // tokens of the answer that are reserved for
	bounded  bool            // the answer cannot be longer than that
	budgeted bool            // money is limited
	price    usage.Price     // the highest of those that can be asked
	spoken   spokenTokens
	noted    int64 // of them, those that the spool knows of
	told     int64 // and those that the client has
	others   []usage.Attempt
	parts    parts
	spent    bool // the answer was ended because nobody pays for more of it
	closed   bool
}

// reserveForward opens the row of a request whose body is not looked at. What it
// costs is not known, so that a key with a budget cannot send it.
func (r *Relay) reserveForward(x *exchange) *llm.Error {
	if x.state.Books.Ledger == nil {
		return nil
	}
	if budgeted(x.caller.Accounts) {
		return &llm.Error{Kind: llm.Permission, Code: "price_unknown",
			Message: "what this path costs is not known, and this key has a budget; use a key without one"}
	}
	return x.take(&account{}, false)
}

// reserve takes what the request can cost at most from what the caller may use, and
// opens its row in the ledger.
func (r *Relay) reserve(x *exchange) *llm.Error {
	b := &x.state.Books
	if b.Ledger == nil {
		return nil
	}
	a := &account{budgeted: budgeted(x.caller.Accounts)}
	if !x.endpoint.counts() {
		a.prompt, a.likely = x.ask.prompt()
	}
	a.allowed, a.bounded = x.most()
	known := x.dearest(a)
	if !known && a.budgeted {
		return &llm.Error{Kind: llm.Permission, Code: "price_unknown", Param: "model",
			Message: "the model '" + printable(x.ask.model) + "' has no price, and this key has a budget; its operator can write one under prices"}
	}
	if a.price.Context > 0 {
		a.prompt, a.likely = min(a.prompt, a.price.Context), min(a.likely, a.price.Context)
	}
	return x.take(a, known)
}

// take reserves what an account says that the request can use, and opens its row.
func (x *exchange) take(a *account, known bool) (refusal *llm.Error) {
	if a.hold, refusal = x.hold(a, x.caller.Accounts, "", a.prompt, a.allowed); refusal != nil {
		return refusal
	}
	x.account = a
	return x.openRow(known)
}

func budgeted(accounts []quota.Account) bool {
	for _, a := range accounts {
		if a.Limit.Budget > 0 {
			return true
		}
	}
	return false
}

// dearest finds the highest price among those that can be asked. It reports whether
// all of them have one.
func (x *exchange) dearest(a *account) bool {
	for i := range x.line {
		p, known := x.priceOf(&x.line[i].target)
		if !known {
			return false
		}
		if i == 0 || atMost(p, a.prompt, a.allowed) > atMost(a.price, a.prompt, a.allowed) {
			a.price = p
		}
	}
	return true
}

// atMost is what so many tokens cost at most; a sum that does not fit is more than
// anybody has.
func atMost(p usage.Price, read, written int64) usage.Money {
	cost, err := p.Most(read, written)
	if err != nil {
		return math.MaxInt64
	}
	return cost
}

// hold reserves for so many tokens. The part tells the reservations of one request
// apart.
func (x *exchange) hold(a *account, of []quota.Account, part string, read, written int64) (quota.Hold, *llm.Error) {
	if len(of) == 0 {
		return quota.Hold{}, nil
	}
	hold, refusal := x.state.Books.Quotas.Reserve(x.ctx, quota.Ask{ID: x.seen.ID + part, Part: part != "", Org: x.caller.Org, Accounts: of,
		Tokens: read + written, Cost: atMost(a.price, read, written)})
	if refusal != nil {
		return quota.Hold{}, overQuota(refusal)
	}
	return hold, nil
}

// overQuota tells the client which of its limits it has reached.
func overQuota(why *quota.Refusal) *llm.Error {
	e := &llm.Error{Kind: llm.RateLimit, Code: "rate_limit_" + string(why.Reason), RetryAfter: why.RetryAfter,
		Message: "the limit of " + why.Account + " on " + string(why.Reason) + " is reached; wait, or ask its operator for more"}
	if why.Reason == quota.Budget {
		e.Kind, e.Code = llm.Quota, "budget_exceeded"
		e.Message = "the budget of " + why.Account + " does not cover this request; ask its operator for more, or send a smaller one"
	}
	return e
}

// openRow writes down that the request was begun. Where there is no more room for
// what is not in the store yet, the least important requests are not taken on.
func (x *exchange) openRow(known bool) *llm.Error {
	a := x.account
	row := x.row()
	o := usage.Opening{ID: row.ID, Node: row.Node, Key: row.Key, Team: row.Team, Org: row.Org, Began: row.Began, Endpoint: row.Endpoint, Dialect: row.Dialect,
		Model: row.Model, Stream: row.Stream, Prompt: a.likely}
	if len(x.line) > 0 {
		o.Target = x.line[0].target.String()
	}
	if known {
		o.Price = &a.price
	}
	entry, err := x.state.Books.Ledger.Begin(o)
	switch {
	case err == nil:
		a.entry = entry
	case errors.Is(err, usage.ErrFull) && x.class == limit.Sheddable:
		a.hold.Settle(0, 0)
		x.account = nil
		return &llm.Error{Kind: llm.Overloaded, Code: "ledger_full", RetryAfter: 10 * time.Second,
			Message: "the gateway cannot write down more usage at present; requests that matter more are served"}
	}
	return nil // the spool has logged it; a disk that fails is no reason to fail the client
}

// row is what is known of the request before it is answered.
func (x *exchange) row() usage.Row {
	row := usage.Row{ID: x.seen.ID, Node: x.state.Books.Node, Key: x.caller.Key, Team: x.caller.Team, Org: x.caller.Org,
		Began: x.seen.Began(), Endpoint: x.endpoint.name, Dialect: string(x.endpoint.dialect)}
	if x.route != nil { // a path that is only forwarded has no model
		row.Model, row.Stream = x.route.Name, x.ask.stream
	}
	return row
}

// said counts an event of the answer, before it is passed on.
func (x *exchange) said(size int) {
	if x.account != nil {
		x.account.spoken.event(size)
	}
}

// saidText counts a text of the answer, before it is passed on.
func (x *exchange) saidText(size int) {
	if x.account != nil {
		x.account.spoken.text(size)
	}
}

// saidWhole counts an answer that is passed on in one piece. Where it did not come
// as a stream, its bytes are all that is known of its length.
func (x *exchange) saidWhole(size int) {
	a := x.account
	if a == nil || x.seen.Err != nil || !x.generates() {
		return
	}
	if a.spoken.n == 0 {
		a.spoken.text(size)
	}
	a.told = a.spoken.n
}

// saidResponse counts the texts of an answer that came whole and without usage.
func (x *exchange) saidResponse(resp *llm.Response) {
	if a := x.account; a == nil || a.spoken.n > 0 || resp.Usage != nil {
		return
	}
	for _, e := range llm.Explode(resp) {
		if d, ok := e.(llm.Delta); ok {
			x.saidText(len(d.Text))
		}
	}
}

// generates reports whether the answer is text that was made for the request.
func (x *exchange) generates() bool { return x.endpoint.generates || x.endpoint.form != nil }

// note tells the spool what is about to be sent. It comes before the bytes: a process
// that is killed between the two would otherwise have sent more than its row says.
func (a *account) note() {
	if a != nil && !a.closed && a.entry != nil && a.spoken.n > a.noted {
		a.entry.Delivered(a.spoken.n - a.noted)
		a.noted = a.spoken.n
	}
}

// sent counts what the client has been sent.
func (a *account) sent() {
	if a != nil {
		a.told = a.spoken.n
	}
}

// passed reserves more where an answer goes on beyond what was reserved. One that
// nobody pays for is ended.
func (x *exchange) passed() *llm.Error {
	a := x.account
	if a == nil || a.closed || a.told <= a.allowed || a.bounded || !a.budgeted {
		return nil
	}
	return x.extend()
}

// extend reserves for the next part of an answer that has no bound. Only the money
// can be in the way: the request was let in, and is one.
func (x *exchange) extend() *llm.Error {
	a := x.account
	if a.more == nil {
		a.payers = payers(x.caller.Accounts)
	}
	hold, refusal := x.hold(a, a.payers, "/"+strconv.Itoa(len(a.more)+2), 0, unboundedMost)
	if refusal != nil {
		a.spent = true
		return refusal
	}
	a.more = append(a.more, hold)
	a.allowed += unboundedMost
	return nil
}

// payers are the accounts that have a budget, with nothing but that.
func payers(accounts []quota.Account) []quota.Account {
	var out []quota.Account
	for _, a := range accounts {
		if a.Limit.Budget > 0 {
			out = append(out, quota.Account{ID: a.ID, Limit: quota.Limit{Budget: a.Limit.Budget, Window: a.Limit.Window}})
		}
	}
	return out
}
