package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/amounts"
	"github.com/isogloss-gateway/isogloss/internal/api/names"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// ledgerName names the ledger in error messages.
const ledgerName = "the store of the ledger"

// filter selects requests.
type filter struct {
	From time.Time `query:"from" doc:"Start, as RFC 3339 time. Default: 30 days before to."`
	To   time.Time `query:"to" doc:"End, exclusive. Default: now."`
	tenantIn
	Key    string `query:"key" maxLength:"256" doc:"Only of this key: the id or the name."`
	Model  string `query:"model" maxLength:"200" doc:"Only for this model."`
	Target string `query:"target" maxLength:"200" doc:"Only those served by this target."`
	User   string `query:"user" maxLength:"128" doc:"Only of this end user, as the ledger has it."`
	Tag    string `query:"tag" maxLength:"97" pattern:"^[a-z0-9_.-]{1,32}:.+$" doc:"Only those with this tag, such as team:search."`
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

// normalize sets defaults, limits the filter to the operator's organisation, and replaces names by ids.
func (s *server) normalize(ctx context.Context, c *call, f *filter) error {
	if f.To.IsZero() {
		f.To = s.Now()
	}
	if f.From.IsZero() {
		f.From = f.To.Add(-defaultRange)
	}
	switch {
	case !f.From.Before(f.To):
		return invalid("query.from", "from is not before to")
	case f.To.Sub(f.From) > maxRange:
		return invalid("query.from", "the range is longer than 400 days; request a shorter one")
	}
	return s.find(ctx, c, &f.Org, &f.Team, &f.Key)
}

type usageIn struct {
	filter
	format
	Group []store.Group `query:"group" pattern:"^(hour|day|org|team|key|model|target|user|tag:[a-z0-9_.-]{1,32})$" maxItems:"4" doc:"Grouping, such as day,model or tag:team. At most one of it is user or a tag. Default: one sum of all."`
}

type usageView struct {
	From  time.Time         `json:"from"`
	To    time.Time         `json:"to"`
	Sums  []amounts.SumView `json:"sums"`
	Total amounts.SumView   `json:"total" doc:"Sum of all sums."`
	Times []amounts.SumView `json:"times,omitempty" doc:"Sums of each hour or day, if grouped by it."`
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
	out := usageView{From: in.From, To: in.To, Total: amounts.SumOf(total)}
	if slices.Contains(in.Group, store.ByHour) || slices.Contains(in.Group, store.ByDay) {
		for _, sum := range times {
			out.Times = append(out.Times, amounts.SumOf(sum))
		}
	}
	for _, sum := range sums {
		v := amounts.SumOf(sum)
		if slices.Contains(in.Group, store.ByUser) {
			v.User = sum.Label
		} else {
			v.Tag = sum.Label
		}
		out.Sums = append(out.Sums, v)
	}
	names.Set(ctx, s.names(), out.Sums, func(v *amounts.SumView) names.Of {
		return names.Of{Key: v.Key, Org: v.Org, Team: v.Team, KeyName: &v.KeyName, OrgName: &v.OrgName, TeamName: &v.TeamName}
	})
	return new(out), nil
}

type listRefusalsIn struct {
	From time.Time `query:"from" doc:"Start, as RFC 3339 time, rounded down to the minute. Default: 30 days before to."`
	To   time.Time `query:"to" doc:"End, exclusive, rounded up to the minute. Default: now."`
	tenantIn
	Key string `query:"key" maxLength:"256" doc:"Only of this key: the id or the name."`
}

type refusalList struct {
	Refusals []refusalView `json:"refusals" doc:"By key and reason, those with the most first; at most 1,000."`
}

type refusalView struct {
	Org      string    `json:"org,omitempty"`
	OrgName  string    `json:"org_name,omitempty" doc:"Name of the organisation. Absent: it has none, or the store does not have it."`
	Team     string    `json:"team,omitempty"`
	TeamName string    `json:"team_name,omitempty" doc:"Like org_name, of the team."`
	Key      string    `json:"key,omitempty" doc:"Absent: of further keys, which a gateway had no room to count one by one."`
	Name     string    `json:"key_name,omitempty" doc:"Name of the key. Absent: the store does not have the key."`
	Reason   string    `json:"reason" enum:"limit,budget,access,key,overload,fidelity,target"`
	Count    int64     `json:"count"`
	Last     time.Time `json:"last" doc:"Minute of the last one."`
}

func (s *server) listRefusals(ctx context.Context, c *call, in *listRefusalsIn) (*refusalList, error) {
	f := filter{From: in.From, To: in.To, tenantIn: in.tenantIn, Key: in.Key}
	if err := s.normalize(ctx, c, &f); err != nil {
		return nil, err
	}
	list, err := s.Ledger.Refusals(ctx, store.RefusalQuery{From: f.From, To: f.To, Org: f.Org, Team: f.Team, Key: f.Key})
	if err != nil {
		return nil, unavailable(ledgerName, err)
	}
	out := refusalList{Refusals: []refusalView{}}
	for _, r := range list {
		out.Refusals = append(out.Refusals, refusalView{Org: r.Org, Team: r.Team, Key: r.Key, Reason: string(r.Reason), Count: r.Count, Last: r.Last})
	}
	names.Set(ctx, s.names(), out.Refusals, func(v *refusalView) names.Of {
		return names.Of{Key: v.Key, Org: v.Org, Team: v.Team, KeyName: &v.Name, OrgName: &v.OrgName, TeamName: &v.TeamName}
	})
	return &out, nil
}
