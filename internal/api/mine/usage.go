package mine

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/amounts"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// usageView is what a client has used.
type usageView struct {
	From     time.Time     `json:"from"`
	To       time.Time     `json:"to"`
	Total    sumView       `json:"total"`
	Days     []sumView     `json:"days"` // by day and model
	Refused  []countView   `json:"refused"`
	Refusals []refusalView `json:"refusals"` // the last ones of which the gateway has kept more than the number
}

// sumView is the usage of a day and a model.
type sumView struct {
	Day      string         `json:"day,omitempty"` // in UTC
	Model    string         `json:"model,omitempty"`
	Requests int64          `json:"requests"`
	Errors   int64          `json:"errors"`
	Refused  int64          `json:"refused,omitzero"`
	Tokens   amounts.Tokens `json:"tokens"`
	Cost     string         `json:"cost"`
	Unpriced int64          `json:"unpriced,omitzero"` // requests without a known cost
}

// countView is how many requests were refused for a reason.
type countView struct {
	Reason string    `json:"reason"`
	Count  int64     `json:"count"`
	Last   time.Time `json:"last"`
}

// refusalView is a refused request.
type refusalView struct {
	Request string    `json:"request"`
	At      time.Time `json:"at"`
	Model   string    `json:"model,omitempty"`
	Status  int       `json:"status"`
	Reason  string    `json:"reason"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
	Remedy  string    `json:"remedy,omitempty"`
}

// Bounds of the time of a request.
const (
	defaultDays = 30
	maxDays     = 92
	maxRefusals = 20
)

func (s *server) showUsage(ctx context.Context, v access.Visitor, r *http.Request) (any, *llm.Error) {
	days := defaultDays
	if text := r.URL.Query().Get("days"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxDays {
			return nil, invalid("days", "expected 1 to 92 days")
		}
		days = n
	}
	return s.usage(ctx, v, days)
}

// usage returns what a client has used since the beginning of a day.
func (s *server) usage(ctx context.Context, v access.Visitor, days int) (*usageView, *llm.Error) {
	c, now := &v.Caller, time.Now().UTC()
	out := &usageView{From: now.Truncate(24*time.Hour).AddDate(0, 0, 1-days), To: now, Days: []sumView{}, Refused: []countView{}, Refusals: []refusalView{}}
	sums, err := s.Ledger.Usage(ctx, store.UsageQuery{From: out.From, To: out.To, Org: c.Org, Key: c.Key, GroupBy: []store.Group{store.ByDay, store.ByModel}})
	var own store.Error
	if errors.As(err, &own) {
		return nil, invalid("days", own.Error())
	}
	if err != nil {
		return nil, unavailable(err)
	}
	total, _ := store.Totals(sums)
	out.Total = viewSum(total)
	for _, sum := range sums {
		if sum.Requests == 0 { // refused requests, which have no model, are counted below
			continue
		}
		d := viewSum(sum)
		d.Day, d.Model = sum.Start.UTC().Format(time.DateOnly), sum.Model
		out.Days = append(out.Days, d)
	}
	counts, err := s.Ledger.Refusals(ctx, store.RefusalQuery{From: out.From, To: out.To, Org: c.Org, Key: c.Key})
	if err != nil {
		return nil, unavailable(err)
	}
	out.Total.Refused = 0
	for _, n := range counts {
		out.Total.Refused += n.Count
		out.Refused = append(out.Refused, countView{string(n.Reason), n.Count, n.Last})
	}
	rows, err := s.Ledger.Rows(ctx, store.RowQuery{From: out.From, To: out.To, Org: c.Org, Key: c.Key, Outcome: usage.Refused, Limit: maxRefusals})
	if err != nil {
		return nil, unavailable(err)
	}
	for _, r := range rows {
		out.Refusals = append(out.Refusals, refusalView{r.ID, r.Began, r.Model, r.Status, string(r.Told.Reason), r.Told.Code, r.Told.Message, r.Told.Remedy})
	}
	return out, nil
}

func viewSum(s store.Sum) sumView {
	return sumView{Requests: s.Requests, Errors: s.Errors, Refused: s.Refused, Tokens: amounts.TokensOf(s.Usage), Cost: s.Cost.Decimal(), Unpriced: s.Unknown}
}
