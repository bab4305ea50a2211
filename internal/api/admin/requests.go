package admin

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/amounts"
	"github.com/isogloss-gateway/isogloss/internal/api/export"
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
	Requests []requestView `json:"requests"`
	Next     string        `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

// requestView is a row of the ledger.
type requestView struct {
	ID        string         `json:"id"`
	Node      string         `json:"node"`
	Key       string         `json:"key,omitempty"`
	KeyName   string         `json:"key_name,omitempty" doc:"Name of the key. Absent: the store does not have the key."`
	Team      string         `json:"team,omitempty"`
	Org       string         `json:"org,omitempty"`
	Began     time.Time      `json:"began"`
	Took      float64        `json:"took_seconds"`
	Endpoint  string         `json:"endpoint"`
	Dialect   string         `json:"dialect"`
	Model     string         `json:"model"`
	Target    string         `json:"target,omitempty"`
	Stream    bool           `json:"stream"`
	Status    int            `json:"status"`
	Outcome   string         `json:"outcome" enum:"answered,left,failed,refused,lost,cached,queued"`
	Tokens    amounts.Tokens `json:"tokens" doc:"Tokens that the client is charged for."`
	Estimated bool           `json:"estimated,omitzero" doc:"The provider did not report usage; the gateway estimated it."`
	Cost      string         `json:"cost,omitempty" doc:"Dollars. Absent: not known."`
	User      string         `json:"user,omitempty" doc:"End user that the client named."`
	Tags      []tagView      `json:"tags,omitempty" doc:"Tags that the client sent."`
	Person    *personView    `json:"person,omitempty" doc:"Whose account the key is. Absent: it is nobody's."`
	UserAgent string         `json:"user_agent,omitempty"`
	Trace     string         `json:"trace,omitempty" doc:"Id of the trace, if it was recorded."`
	Fidelity  string         `json:"fidelity,omitempty" doc:"First word of the Isogloss-Fidelity header: exact, approximated, dropped or refused."`
	Losses    []requestLoss  `json:"losses,omitempty" doc:"What was not translated exactly."`
	MoreLoss  int            `json:"losses_left_out,omitzero" doc:"Number of further losses."`
	Queue     float64        `json:"queue_seconds,omitzero" doc:"From began until the first attempt was sent."`
	FirstByte float64        `json:"first_byte_seconds,omitzero" doc:"From began until the headers of the response arrived."`
	Token     float64        `json:"first_token_seconds,omitzero" doc:"From began until the first content of a stream was sent."`
	Attempts  []attemptView  `json:"attempts"`
	Error     *requestError  `json:"error,omitempty" doc:"The error that the client got. Absent: none, or it is not known."`
}

type requestError struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty" doc:"Its text. Absent: it may quote the request or the response, and is not stored."`
	Reason  string `json:"refused,omitempty" enum:"limit,budget,access,key,overload,fidelity,target" doc:"Why the gateway refused the request. Absent: it did not."`
	Remedy  string `json:"remedy,omitempty" doc:"What would have let a refused request pass."`
}

type personView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type requestLoss struct {
	Code string `json:"code"`
	Path string `json:"path" doc:"Field of the request or response."`
}

type tagView struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type attemptView struct {
	Target  string         `json:"target"`
	Began   time.Time      `json:"began"`
	Took    float64        `json:"took_seconds"`
	Status  int            `json:"status,omitzero" doc:"Status of the upstream response. Absent: there was none."`
	Fault   string         `json:"fault,omitempty"`
	Tokens  amounts.Tokens `json:"tokens"`
	Cost    string         `json:"cost,omitempty" doc:"Cost for the operator, in dollars. Absent: not known."`
	Charged bool           `json:"charged" doc:"Its usage is charged to the client."`

	Connect   float64             `json:"connect_seconds,omitzero" doc:"Time of a new connection. Absent: an open one was used."`
	FirstByte float64             `json:"first_byte_seconds,omitzero" doc:"From its began until the headers of the response arrived."`
	Token     float64             `json:"first_token_seconds,omitzero" doc:"From its began until the first content of a stream was sent."`
	Prices    *amounts.PricesView `json:"prices,omitempty" doc:"With which cost was computed. Absent: not known, or free."`
}

func viewAttempt(a *usage.Attempt) attemptView {
	return attemptView{Target: a.Target, Began: a.Began, Took: a.Took.Seconds(), Status: a.Status, Fault: a.Fault, Tokens: amounts.TokensOf(a.Usage), Cost: price(a.Cost), Charged: a.Charged,
		Connect: a.Connect.Seconds(), FirstByte: a.FirstByte.Seconds(), Token: a.FirstToken.Seconds(), Prices: amounts.PricesOf(&a.Rates)}
}

func viewRequest(r usage.Row) requestView {
	v := requestView{
		ID: r.ID, Node: r.Node, Key: r.Key, Team: r.Team, Org: r.Org, Began: r.Began, Took: r.Took.Seconds(),
		Endpoint: r.Endpoint, Dialect: r.Dialect, Model: r.Model, Target: r.Target, Stream: r.Stream, Status: r.Status,
		Outcome: string(r.Outcome), Tokens: amounts.TokensOf(r.Usage), Estimated: r.Estimated, Cost: price(r.Cost), User: r.User, UserAgent: r.Agent, Trace: r.Trace,
		Fidelity: r.Fidelity, MoreLoss: r.MoreLosses, Queue: r.Queue.Seconds(), FirstByte: r.FirstByte.Seconds(), Token: r.FirstToken.Seconds(),
	}
	if r.Person != "" {
		v.Person = &personView{r.Key, r.Person}
	}
	if t := r.Told; t != (usage.Told{}) {
		v.Error = &requestError{t.Code, t.Message, string(t.Reason), t.Remedy}
	}
	for _, l := range r.Losses {
		v.Losses = append(v.Losses, requestLoss(l))
	}
	for _, t := range r.Tags {
		v.Tags = append(v.Tags, tagView(t))
	}
	for i := range r.Attempts {
		v.Attempts = append(v.Attempts, viewAttempt(&r.Attempts[i]))
	}
	return v
}

func price(m *usage.Money) string {
	if m == nil {
		return ""
	}
	return m.Decimal()
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
		out.Requests = append(out.Requests, viewRequest(r))
	}
	s.nameRequests(ctx, out.Requests)
	if len(rows) == in.Limit {
		out.Next = formatCursor(rows[len(rows)-1])
	}
	return new(out), nil
}

// nameRequests sets the names of their keys.
func (s *server) nameRequests(ctx context.Context, list []requestView) {
	export.SetNames(ctx, s.keyNames, list, func(v *requestView) (string, *string) { return v.Key, &v.KeyName })
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

func (s *server) getRequest(ctx context.Context, c *call, in *requestPath) (*requestView, error) {
	rows, err := s.Ledger.Rows(ctx, store.RowQuery{ID: in.Request, Limit: 1})
	switch {
	case err != nil:
		return nil, unavailable(ledgerName, err)
	case len(rows) == 0 || !c.canSeeOrg(rows[0].Org):
		return nil, missing("request", in.Request)
	}
	views := []requestView{viewRequest(rows[0])}
	s.nameRequests(ctx, views)
	return &views[0], nil
}
