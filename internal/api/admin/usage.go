package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/amounts"
	"github.com/isogloss-gateway/isogloss/internal/api/export"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// ledgerName names the ledger in error messages.
const ledgerName = "the store of the ledger"

// filter selects requests.
type filter struct {
	From   time.Time `query:"from" doc:"Start, as RFC 3339 time. Default: 30 days before to."`
	To     time.Time `query:"to" doc:"End, exclusive. Default: now."`
	Org    string    `query:"org" maxLength:"128" doc:"Only of this organisation."`
	Team   string    `query:"team" maxLength:"128" doc:"Only of this team; needs org."`
	Key    string    `query:"key" maxLength:"256" doc:"Only of this key: the id or the name."`
	Model  string    `query:"model" maxLength:"200" doc:"Only for this model."`
	Target string    `query:"target" maxLength:"200" doc:"Only those served by this target."`
	User   string    `query:"user" maxLength:"128" doc:"Only of this end user, as the ledger has it."`
	Tag    string    `query:"tag" maxLength:"97" pattern:"^[a-z0-9_.-]{1,32}:.+$" doc:"Only those with this tag, such as team:search."`
}

// tag returns the tag of the filter.
func (f *filter) tag() usage.Tag {
	key, value, _ := strings.Cut(f.Tag, ":")
	return usage.Tag{Key: key, Value: value}
}

const (
	defaultRange = 30 * 24 * time.Hour
	maxRange     = 400 * 24 * time.Hour
)

// normalize sets defaults, limits the filter to the operator's organisation, and replaces the name of a key by its id.
func (s *server) normalize(ctx context.Context, c *call, f *filter) error {
	org, err := c.orgFilter(f.Org)
	if err != nil {
		return err
	}
	f.Org = org
	if f.To.IsZero() {
		f.To = s.Now()
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
	f.Key, err = s.findKey(ctx, c, f.Org, f.Key)
	return err
}

type usageIn struct {
	filter
	format
	Group []store.Group `query:"group" pattern:"^(hour|day|org|team|key|model|target|user|tag:[a-z0-9_.-]{1,32})$" maxItems:"4" doc:"Grouping, such as day,model or tag:team. At most one of it is user or a tag. Default: one sum of all."`
}

type usageView struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Sums  []sumView `json:"sums"`
	Total sumView   `json:"total" doc:"Sum of all sums."`
	Times []sumView `json:"times,omitempty" doc:"Sums of each hour or day, if grouped by it."`
}

type sumView struct {
	Start     time.Time      `json:"start,omitzero" doc:"Start of the hour or day, if grouped by it."`
	Org       string         `json:"org,omitempty"`
	Team      string         `json:"team,omitempty"`
	Key       string         `json:"key,omitempty"`
	KeyName   string         `json:"key_name,omitempty" doc:"Name of the key. Absent: the store does not have the key."`
	Model     string         `json:"model,omitempty"`
	Target    string         `json:"target,omitempty"`
	User      string         `json:"user,omitempty" doc:"End user, if grouped by it. Absent: requests without one. Those beyond the first 1,000 of a day are other."`
	Tag       string         `json:"tag,omitempty" doc:"Value of the tag, if grouped by one. Absent: requests without it. Those beyond the first 1,000 of a day are other."`
	Requests  int64          `json:"requests"`
	Tokens    amounts.Tokens `json:"tokens"`
	Cost      string         `json:"cost" doc:"Dollars, as an exact decimal."`
	Unpriced  int64          `json:"unpriced" doc:"Requests without a known cost, which cost does not include."`
	Estimated int64          `json:"estimated" doc:"Requests whose tokens are estimated, because the provider did not report usage."`
	Errors    int64          `json:"errors" doc:"Requests that failed, or were lost because a gateway died."`
	Refused   int64          `json:"refused" doc:"Requests that the gateway refused, which requests does not count. They have no model, target or label."`
	First     tokenTime      `json:"first_token,omitzero" doc:"Times to the first token of streams. Absent: there were none."`
}

type tokenTime struct {
	P50   float64 `json:"p50" doc:"Seconds, interpolated between 0, 0.1, 0.25, 0.5, 1, 2, 5 and 10. What is longer counts as 10."`
	P95   float64 `json:"p95"`
	Count int64   `json:"count" doc:"Streams with a first token."`
}

// sumUsage returns the sums of a query.
func (s *server) sumUsage(ctx context.Context, c *call, in *usageIn) ([]store.Sum, error) {
	if err := s.normalize(ctx, c, &in.filter); err != nil {
		return nil, err
	}
	sums, err := s.Ledger.Usage(ctx, store.UsageQuery{
		From: in.From, To: in.To, Org: in.Org, Team: in.Team, Key: in.Key, Model: in.Model, Target: in.Target, User: in.User, Tag: in.tag(), GroupBy: in.Group,
	})
	var own store.Error
	switch {
	case errors.As(err, &own):
		return nil, invalid("query.group", "%s", own.Error())
	case err != nil:
		return nil, unavailable(ledgerName, err)
	}
	return sums, nil
}

func (s *server) getUsage(ctx context.Context, c *call, in *usageIn) (*usageView, error) {
	sums, err := s.sumUsage(ctx, c, in)
	if err != nil {
		return nil, err
	}
	total, times := store.Totals(sums)
	out := usageView{From: in.From, To: in.To, Total: viewSum(total)}
	if slices.Contains(in.Group, store.ByHour) || slices.Contains(in.Group, store.ByDay) {
		for _, sum := range times {
			out.Times = append(out.Times, viewSum(sum))
		}
	}
	for _, sum := range sums {
		v := viewSum(sum)
		if slices.Contains(in.Group, store.ByUser) {
			v.User = sum.Label
		} else {
			v.Tag = sum.Label
		}
		out.Sums = append(out.Sums, v)
	}
	export.SetNames(ctx, s.keyNames, out.Sums, func(v *sumView) (string, *string) { return v.Key, &v.KeyName })
	return new(out), nil
}

func viewSum(s store.Sum) sumView {
	v := sumView{
		Org: s.Org, Team: s.Team, Key: s.Key, Model: s.Model, Target: s.Target,
		Requests: s.Requests, Unpriced: s.Unknown, Estimated: s.Estimated, Tokens: amounts.TokensOf(s.Usage), Cost: s.Cost.Decimal(),
		Errors: s.Errors, Refused: s.Refused, First: tokenTime{s.FirstToken.Quantile(0.5).Seconds(), s.FirstToken.Quantile(0.95).Seconds(), s.FirstToken.Count()},
	}
	if s.Start.Unix() > 0 {
		v.Start = s.Start
	}
	return v
}
