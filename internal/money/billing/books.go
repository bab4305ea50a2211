package billing

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/refusals"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Books holds the ledger, the prices and the quotas. Without a ledger nothing is billed.
type Books struct {
	Node   string // the name of this gateway in the ledger
	Prices *usage.Book
	Ledger *spool.Spool
	Quotas *quota.Limiter
	// CountsInMemory says that Quotas counts without Redis, so that a question to it does not wait.
	CountsInMemory bool
	// Unrecorded says what happens to requests whose usage cannot be recorded. Empty: requests with a
	// budget are refused, others are served.
	Unrecorded Unrecorded
	Labels     usage.LabelRules
	Refusals   *refusals.Recorder // of refused requests; nil: none are recorded
}

// Unrecorded says what to do with requests while usage cannot be recorded.
type Unrecorded string

// The choices.
const (
	Refuse Unrecorded = "refuse"
	Serve  Unrecorded = "serve"
)

// Request describes a request before it is sent.
type Request struct {
	ID             string
	Key, Team, Org string          // of the caller
	KeyName        string          // for people
	Accounts       []quota.Account // the caller's accounts with limits
	Began          time.Time
	Endpoint       string
	Dialect        string
	Model          string // the route's name; empty for a forwarded path
	Stream         bool
	Free           bool // no vendor charges for it, such as a token count
	Sheddable      bool // it is rejected if the ledger is full
	Client         usage.Client
	Labels         usage.Labels
	MaxOther       llm.Amounts // to reserve, of units that are not counted in tokens
}

// Target is a provider's model.
type Target struct {
	Name      string // provider/model, as in the ledger
	Preset    string // the provider's preset
	PriceName string // provider/model, as in the operator's prices
	// Cloud and Region are where the provider serves it; empty: unknown.
	Cloud, Region string
	Tier          string // the service tier that the response names; empty: none, or no response yet
}

func (t Target) query() usage.Query {
	return usage.Query{Preset: t.Preset, Target: t.PriceName, Cloud: t.Cloud, Region: t.Region, Tier: t.Tier}
}

// price returns the price of a target, and whether it is known.
func (b *Books) price(r *Request, t Target) (usage.Price, bool) {
	if r.Free {
		return usage.Price{}, true
	}
	return b.Prices.Lookup(t.query())
}

// maxPrice returns the highest price of the targets for an estimated request, and
// whether all of their prices are known.
func (b *Books) maxPrice(r *Request, e Estimate, targets []Target) (most usage.Price, known bool) {
	most, unpriced := b.highestPrice(r, e, targets)
	return most, unpriced == ""
}

// highestPrice is maxPrice with the name of the first target without a price; empty: all have one.
func (b *Books) highestPrice(r *Request, e Estimate, targets []Target) (most usage.Price, unpriced string) {
	for i, t := range targets {
		p, known := b.price(r, t)
		if !known {
			return most, cmp.Or(t.Name, "unknown")
		}
		var few [6]usage.Price // as many as there are tiers, and one
		prices := append(few[:0], p)
		if !r.Free { // which tier serves it is not known yet
			prices = b.Prices.AppendTiers(prices, t.query())
		}
		for j, p := range prices {
			if i+j == 0 || r.maxCost(&p, e) > r.maxCost(&most, e) {
				most = p
			}
		}
	}
	return most, ""
}

// MaxCost returns what Reserve takes for an estimated request that only these targets serve, and whether
// their prices are known.
func (b *Books) MaxCost(e Estimate, targets []Target) (cost usage.Money, known bool) {
	if b.Prices == nil {
		return 0, false
	}
	price, known := b.maxPrice(&Request{}, e, targets)
	e.limitPrompt(price.Context)
	return new(Request).maxCost(&price, e), known
}

// maxCost returns the maximum cost of the request at a price.
func (r *Request) maxCost(p *usage.Price, e Estimate) usage.Money {
	return maxCost(p, e.MaxPrompt, e.MaxOutput, r.MaxOther)
}

// maxCost returns the maximum cost of the given amounts. A sum that overflows exceeds
// every budget.
func maxCost(p *usage.Price, prompt, output int64, other llm.Amounts) usage.Money {
	cost, err := p.Most(prompt, output, other)
	if err != nil {
		return math.MaxInt64
	}
	return cost
}

// row returns a new row with the properties of the request.
func (b *Books) row(r *Request) usage.Row {
	return usage.Row{ID: r.ID, Node: b.Node, Key: r.Key, Team: r.Team, Org: r.Org, Began: r.Began,
		Endpoint: r.Endpoint, Dialect: r.Dialect, Model: r.Model, Stream: r.Stream, Client: r.Client, Labels: r.Labels}
}

// openRow writes the start of the request to the ledger. If the ledger cannot be written, Unrecorded
// decides whether the request is served; the ledger logs its errors itself. A ledger that is full
// because the store does not accept rows rejects sheddable requests first.
func (a *Account) openRow(target string, price *usage.Price) (*spool.Entry, *llm.Error) {
	b, r := a.books, &a.request
	entry, err := b.Ledger.Begin(spool.Opening{ID: r.ID, Node: b.Node, Key: r.Key, Team: r.Team, Org: r.Org, Began: r.Began,
		Endpoint: r.Endpoint, Dialect: r.Dialect, Model: r.Model, Stream: r.Stream, Prompt: a.estimate.Prompt, Target: target, Price: price, Reserved: a.reserved, Client: r.Client, Labels: r.Labels})
	if err == nil {
		return entry, nil
	}
	if b.serves(r) && (!r.Sheddable || !errors.Is(err, spool.ErrFull)) {
		return nil, nil
	}
	return nil, &llm.Error{Kind: llm.Overloaded, Code: "ledger_full", RetryAfter: 10 * time.Second,
		Message: "the gateway cannot record the usage of this request at present, because its disk or its spool is full; try again later"}
}

// serves reports whether a request is served although its usage cannot be recorded.
func (b *Books) serves(r *Request) bool {
	switch b.Unrecorded {
	case Serve:
		return true
	case Refuse:
		return false
	}
	return !hasBudget(r.Accounts)
}
