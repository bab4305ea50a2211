package admin

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/store"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

type listRequestsIn struct {
	Filter
	Page
	Outcome string `query:"outcome" enum:"answered,left,failed,refused,lost,cached" doc:"Only those that ended so."`
}

type requestList struct {
	Requests []requestView `json:"requests" nullable:"false"`
	Next     string        `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

// requestView is one row of the ledger.
type requestView struct {
	ID        string        `json:"id"`
	Node      string        `json:"node"`
	Key       string        `json:"key,omitempty"`
	Team      string        `json:"team,omitempty"`
	Org       string        `json:"org,omitempty"`
	Began     time.Time     `json:"began"`
	Took      float64       `json:"took_seconds"`
	Endpoint  string        `json:"endpoint"`
	Dialect   string        `json:"dialect"`
	Model     string        `json:"model"`
	Target    string        `json:"target,omitempty"`
	Stream    bool          `json:"stream"`
	Status    int           `json:"status"`
	Outcome   string        `json:"outcome" enum:"answered,left,failed,refused,lost,cached"`
	Tokens    tokens        `json:"tokens" doc:"What the client is charged for."`
	Estimated bool          `json:"estimated,omitzero" doc:"The provider did not tell the usage: it was counted here."`
	Cost      string        `json:"cost,omitempty" doc:"Dollars. Absent: not known."`
	Attempts  []attemptView `json:"attempts" nullable:"false"`
}

type attemptView struct {
	Target  string    `json:"target"`
	Began   time.Time `json:"began"`
	Took    float64   `json:"took_seconds"`
	Status  int       `json:"status,omitzero" doc:"As the upstream answered; absent where it did not."`
	Fault   string    `json:"fault,omitempty"`
	Tokens  tokens    `json:"tokens"`
	Cost    string    `json:"cost,omitempty" doc:"What the operator pays for it. Absent: not known."`
	Charged bool      `json:"charged" doc:"Its usage is part of the request's."`
}

func viewRequest(r usage.Row) requestView {
	v := requestView{
		ID: r.ID, Node: r.Node, Key: r.Key, Team: r.Team, Org: r.Org, Began: r.Began, Took: r.Took.Seconds(),
		Endpoint: r.Endpoint, Dialect: r.Dialect, Model: r.Model, Target: r.Target, Stream: r.Stream, Status: r.Status,
		Outcome: string(r.Outcome), Tokens: viewTokens(r.Usage), Estimated: r.Estimated, Cost: price(r.Cost),
	}
	for _, a := range r.Attempts {
		v.Attempts = append(v.Attempts, attemptView{
			Target: a.Target, Began: a.Began, Took: a.Took.Seconds(), Status: a.Status, Fault: a.Fault,
			Tokens: viewTokens(a.Usage), Cost: price(a.Cost), Charged: a.Charged,
		})
	}
	return v
}

func price(m *usage.Money) string {
	if m == nil {
		return ""
	}
	return dollars(*m)
}

func (s *server) listRequests(ctx context.Context, c *call, in *listRequestsIn) (*answer[requestList], error) {
	if err := in.settle(c, s.Now()); err != nil {
		return nil, err
	}
	mark, err := readMark(in.After)
	if err != nil {
		return nil, err
	}
	rows, err := s.Ledger.Rows(ctx, store.RowQuery{
		From: in.From, To: in.To, Org: in.Org, Team: in.Team, Key: in.Key, Model: in.Model, Target: in.Target,
		Outcome: usage.Outcome(in.Outcome), Before: mark, Limit: in.Limit,
	})
	if err != nil {
		return nil, unavailable(ledger, err)
	}
	out := requestList{}
	for _, r := range rows {
		out.Requests = append(out.Requests, viewRequest(r))
	}
	if len(rows) == in.Limit {
		out.Next = writeMark(rows[len(rows)-1])
	}
	return answered(out), nil
}

// A mark is where a page ended: the time and the id of its last row.

func readMark(after string) (*store.RowMark, error) {
	if after == "" {
		return nil, nil
	}
	at, id, _ := strings.Cut(after, "-")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || id == "" {
		return nil, invalid("query.after", "it is not the next of a page; leave it out to begin with the first")
	}
	return &store.RowMark{Began: time.Unix(0, n), ID: id}, nil
}

func writeMark(r usage.Row) string { return strconv.FormatInt(r.Began.UnixNano(), 10) + "-" + r.ID }

type requestPath struct {
	Request string `path:"request" maxLength:"36" pattern:"^[0-9a-fA-F-]{36}$" doc:"The id of the request, as the client was told."`
}

func (s *server) getRequest(ctx context.Context, c *call, in *requestPath) (*answer[requestView], error) {
	rows, err := s.Ledger.Rows(ctx, store.RowQuery{ID: in.Request, Limit: 1})
	switch {
	case err != nil:
		return nil, unavailable(ledger, err)
	case len(rows) == 0 || !c.within(rows[0].Org):
		return nil, missing("request", in.Request)
	}
	return answered(viewRequest(rows[0])), nil
}
