package admin

import (
	"context"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/store"
	"github.com/isogloss-gateway/isogloss/llm"
)

// ledger is what errors call it.
const ledger = "the store of the ledger"

// tokens are in classes that do not overlap.
type tokens struct {
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning"`
}

func viewTokens(u llm.Usage) tokens {
	return tokens{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output, Reasoning: u.Reasoning}
}

// Filter is which requests are meant.
type Filter struct {
	From   time.Time `query:"from" doc:"The first moment, as in RFC 3339. Default: 30 days before to."`
	To     time.Time `query:"to" doc:"The moment after the last. Default: now."`
	Org    string    `query:"org" maxLength:"64" doc:"Only those of an organisation."`
	Team   string    `query:"team" maxLength:"64" doc:"Only those of a team; needs org."`
	Key    string    `query:"key" maxLength:"64" doc:"Only those of a key."`
	Model  string    `query:"model" maxLength:"200" doc:"Only those for a model."`
	Target string    `query:"target" maxLength:"200" doc:"Only those that a target answered."`
}

const (
	usualSpan = 30 * 24 * time.Hour
	maxSpan   = 400 * 24 * time.Hour
)

// settle fills in what was left out and holds the filter to the operator's
// organisation.
func (f *Filter) settle(c *call, now time.Time) error {
	org, err := c.org(f.Org)
	if err != nil {
		return err
	}
	f.Org = org
	if f.To.IsZero() {
		f.To = now
	}
	if f.From.IsZero() {
		f.From = f.To.Add(-usualSpan)
	}
	switch {
	case f.Team != "" && f.Org == "":
		return invalid("query.team", "a team is named by its organisation too; send org")
	case !f.From.Before(f.To):
		return invalid("query.from", "it is not before to")
	case f.To.Sub(f.From) > maxSpan:
		return invalid("query.from", "it is more than 400 days before to; ask for less at once")
	}
	return nil
}

type usageIn struct {
	Filter
	Group []store.Group `query:"group" enum:"hour,day,org,team,key,model,target" maxItems:"4" doc:"What the sums are grouped by, such as day,model. Default: one sum of all."`
}

type usageView struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Sums []sumView `json:"sums" nullable:"false"`
}

type sumView struct {
	Start     time.Time `json:"start,omitzero" doc:"Of the hour or the day, where grouped by one."`
	Org       string    `json:"org,omitempty"`
	Team      string    `json:"team,omitempty"`
	Key       string    `json:"key,omitempty"`
	Model     string    `json:"model,omitempty"`
	Target    string    `json:"target,omitempty"`
	Requests  int64     `json:"requests"`
	Tokens    tokens    `json:"tokens"`
	Cost      string    `json:"cost" doc:"Dollars, as an exact decimal."`
	Unpriced  int64     `json:"unpriced" doc:"How many requests have no known cost and are not in cost."`
	Estimated int64     `json:"estimated" doc:"How many requests have tokens that were counted here, because the provider did not tell."`
}

func (s *server) getUsage(ctx context.Context, c *call, in *usageIn) (*answer[usageView], error) {
	if err := in.settle(c, s.Now()); err != nil {
		return nil, err
	}
	sums, err := s.Ledger.Usage(ctx, store.UsageQuery{
		From: in.From, To: in.To, Org: in.Org, Team: in.Team, Key: in.Key, Model: in.Model, Target: in.Target, GroupBy: in.Group,
	})
	var own *store.Error
	switch {
	case errors.As(err, &own):
		return nil, invalid("query.group", "%s", own.Error())
	case err != nil:
		return nil, unavailable(ledger, err)
	}
	out := usageView{From: in.From, To: in.To}
	for _, sum := range sums {
		out.Sums = append(out.Sums, viewSum(sum))
	}
	return answered(out), nil
}

func viewSum(s store.Sum) sumView {
	v := sumView{
		Org: s.Org, Team: s.Team, Key: s.Key, Model: s.Model, Target: s.Target,
		Requests: s.Requests, Unpriced: s.Unknown, Estimated: s.Estimated, Tokens: viewTokens(s.Usage), Cost: dollars(s.Cost),
	}
	if s.Start.Unix() > 0 {
		v.Start = s.Start
	}
	return v
}
