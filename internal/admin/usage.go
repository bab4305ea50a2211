package admin

import (
	"context"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/store"
	"github.com/isogloss-gateway/isogloss/llm"
)

// ledgerName names the ledger in error messages.
const ledgerName = "the store of the ledger"

// tokens counts tokens in disjoint classes.
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

// filter selects requests.
type filter struct {
	From   time.Time `query:"from" doc:"Start, as RFC 3339 time. Default: 30 days before to."`
	To     time.Time `query:"to" doc:"End, exclusive. Default: now."`
	Org    string    `query:"org" maxLength:"64" doc:"Only of this organisation."`
	Team   string    `query:"team" maxLength:"64" doc:"Only of this team; needs org."`
	Key    string    `query:"key" maxLength:"64" doc:"Only of this key."`
	Model  string    `query:"model" maxLength:"200" doc:"Only for this model."`
	Target string    `query:"target" maxLength:"200" doc:"Only those served by this target."`
}

const (
	defaultRange = 30 * 24 * time.Hour
	maxRange     = 400 * 24 * time.Hour
)

// normalize sets defaults and limits the filter to the operator's organisation.
func (f *filter) normalize(c *call, now time.Time) error {
	org, err := c.orgFilter(f.Org)
	if err != nil {
		return err
	}
	f.Org = org
	if f.To.IsZero() {
		f.To = now
	}
	if f.From.IsZero() {
		f.From = f.To.Add(-defaultRange)
	}
	switch {
	case f.Team != "" && f.Org == "":
		return invalid("query.team", "a team needs its organisation; send org")
	case !f.From.Before(f.To):
		return invalid("query.from", "from is not before to")
	case f.To.Sub(f.From) > maxRange:
		return invalid("query.from", "the range is longer than 400 days; request a shorter one")
	}
	return nil
}

type usageIn struct {
	filter
	Group []store.Group `query:"group" enum:"hour,day,org,team,key,model,target" maxItems:"4" doc:"Grouping, such as day,model. Default: one sum of all."`
}

type usageView struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Sums []sumView `json:"sums"`
}

type sumView struct {
	Start     time.Time `json:"start,omitzero" doc:"Start of the hour or day, if grouped by it."`
	Org       string    `json:"org,omitempty"`
	Team      string    `json:"team,omitempty"`
	Key       string    `json:"key,omitempty"`
	Model     string    `json:"model,omitempty"`
	Target    string    `json:"target,omitempty"`
	Requests  int64     `json:"requests"`
	Tokens    tokens    `json:"tokens"`
	Cost      string    `json:"cost" doc:"Dollars, as an exact decimal."`
	Unpriced  int64     `json:"unpriced" doc:"Requests without a known cost, which cost does not include."`
	Estimated int64     `json:"estimated" doc:"Requests whose tokens are estimated, because the provider did not report usage."`
}

func (s *server) getUsage(ctx context.Context, c *call, in *usageIn) (*usageView, error) {
	if err := in.normalize(c, s.Now()); err != nil {
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
		return nil, unavailable(ledgerName, err)
	}
	out := usageView{From: in.From, To: in.To}
	for _, sum := range sums {
		out.Sums = append(out.Sums, viewSum(sum))
	}
	return new(out), nil
}

func viewSum(s store.Sum) sumView {
	v := sumView{
		Org: s.Org, Team: s.Team, Key: s.Key, Model: s.Model, Target: s.Target,
		Requests: s.Requests, Unpriced: s.Unknown, Estimated: s.Estimated, Tokens: viewTokens(s.Usage), Cost: s.Cost.Decimal(),
	}
	if s.Start.Unix() > 0 {
		v.Start = s.Start
	}
	return v
}
