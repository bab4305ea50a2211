package admin

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/keynames"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

type listRefusalsIn struct {
	From time.Time `query:"from" doc:"Start, as RFC 3339 time, rounded down to the minute. Default: 30 days before to."`
	To   time.Time `query:"to" doc:"End, exclusive, rounded up to the minute. Default: now."`
	Org  string    `query:"org" maxLength:"128" doc:"Only of this organisation."`
	Team string    `query:"team" maxLength:"128" doc:"Only of this team; needs org."`
	Key  string    `query:"key" maxLength:"256" doc:"Only of this key: the id or the name."`
}

type refusalList struct {
	Refusals []refusalView `json:"refusals" doc:"By key and reason, those with the most first; at most 1,000."`
}

type refusalView struct {
	Org    string    `json:"org,omitempty"`
	Team   string    `json:"team,omitempty"`
	Key    string    `json:"key,omitempty" doc:"Absent: of further keys, which a gateway had no room to count one by one."`
	Name   string    `json:"key_name,omitempty" doc:"Name of the key. Absent: the store does not have the key."`
	Reason string    `json:"reason" enum:"limit,budget,access,key,overload,fidelity,target"`
	Count  int64     `json:"count"`
	Last   time.Time `json:"last" doc:"Minute of the last one."`
}

func (s *server) listRefusals(ctx context.Context, c *call, in *listRefusalsIn) (*refusalList, error) {
	f := filter{From: in.From, To: in.To, Org: in.Org, Team: in.Team, Key: in.Key}
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
	keynames.Set(ctx, s.keyNames, out.Refusals, func(v *refusalView) (string, *string) { return v.Key, &v.Name })
	return &out, nil
}
