package admin

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/amounts"
	"github.com/isogloss-gateway/isogloss/internal/api/names"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

type listRequestsIn struct {
	filter
	page
	format
	Outcome  string `query:"outcome" enum:"answered,left,failed,refused,lost,cached,queued" doc:"Only those with this outcome."`
	Status   int    `query:"status" minimum:"100" maximum:"599" doc:"Only those to which the client got this status."`
	Fidelity string `query:"fidelity" enum:"exact,approximated,dropped,refused" doc:"Only those with this fidelity."`
	Person   string `query:"person" maxLength:"256" doc:"Only of this person: the id or the name."`
	MinCost  string `query:"min_cost" pattern:"^[0-9]{1,7}([.][0-9]{1,9})?$" doc:"Only those that cost at least so many dollars."`
	MinTook  string `query:"min_took" pattern:"^[0-9]{1,6}([.][0-9]{1,6})?$" doc:"Only those that took at least so many seconds."`
}

// rowQuery returns the query for a page.
func (in *listRequestsIn) rowQuery(mark *store.RowMark) store.RowQuery {
	q := store.RowQuery{From: in.From, To: in.To, Org: in.Org, Team: in.Team, Key: in.Key, Model: in.Model, Target: in.Target, User: in.User, Tag: in.tag(),
		Outcome: usage.Outcome(in.Outcome), Status: in.Status, Fidelity: in.Fidelity, Person: in.Person, Before: mark, Limit: in.Limit}
	if access.IsPerson(in.Person) {
		q.Person, q.Account = "", in.Person
	}
	q.MinCost, _ = usage.ParseMoney(in.MinCost) // their patterns allow only numbers
	took, _ := strconv.ParseFloat(in.MinTook, 64)
	q.MinTook = time.Duration(took * float64(time.Second))
	return q
}

type requestList struct {
	Requests []amounts.RequestView `json:"requests"`
	Next     string                `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

func (s *server) listRequests(ctx context.Context, c *call, in *listRequestsIn) (*requestList, error) {
	if err := s.normalize(ctx, c, &in.filter); err != nil {
		return nil, err
	}
	mark, err := parseCursor(in.After)
	if err != nil {
		return nil, err
	}
	rows, err := s.Ledger.Rows(ctx, in.rowQuery(mark))
	if err != nil {
		return nil, unavailable(ledgerName, err)
	}
	out := requestList{}
	for _, r := range rows {
		out.Requests = append(out.Requests, amounts.RequestOf(r))
	}
	s.nameRequests(ctx, out.Requests)
	if len(rows) == in.Limit {
		out.Next = formatCursor(rows[len(rows)-1])
	}
	return new(out), nil
}

// nameRequests sets the names of their keys, teams and organisations.
func (s *server) nameRequests(ctx context.Context, list []amounts.RequestView) {
	names.Set(ctx, s.names(), list, func(v *amounts.RequestView) names.Of {
		return names.Of{Key: v.Key, Org: v.Org, Team: v.Team, KeyName: &v.KeyName, OrgName: &v.OrgName, TeamName: &v.TeamName}
	})
}

// A mark is where a page ended: the time and the id of its last row.

func parseCursor(after string) (*store.RowMark, error) {
	if after == "" {
		return nil, nil
	}
	at, id, _ := strings.Cut(after, "-")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || id == "" {
		return nil, invalid("query.after", "after is not the next of a page; leave it out to start with the first")
	}
	return &store.RowMark{Began: time.Unix(0, n), ID: id}, nil
}

func formatCursor(r usage.Row) string { return strconv.FormatInt(r.Began.UnixNano(), 10) + "-" + r.ID }

type requestPath struct {
	Request string `path:"request" maxLength:"36" pattern:"^[0-9a-fA-F-]{36}$" doc:"The request id from the response header."`
}

func (s *server) getRequest(ctx context.Context, c *call, in *requestPath) (*amounts.RequestView, error) {
	rows, err := s.Ledger.Rows(ctx, store.RowQuery{ID: in.Request, Limit: 1})
	switch {
	case err != nil:
		return nil, unavailable(ledgerName, err)
	case len(rows) == 0 || !c.canSeeOrg(rows[0].Org):
		return nil, missing("request", in.Request)
	}
	views := []amounts.RequestView{amounts.RequestOf(rows[0])}
	s.nameRequests(ctx, views)
	return &views[0], nil
}
