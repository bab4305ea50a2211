package amounts

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// RequestView is a row of the ledger.
type RequestView struct {
	ID        string        `json:"id"`
	Node      string        `json:"node"`
	Key       string        `json:"key,omitempty"`
	KeyName   string        `json:"key_name,omitempty" doc:"Name of the key. Absent: the store does not have the key."`
	Team      string        `json:"team,omitempty"`
	TeamName  string        `json:"team_name,omitempty" doc:"Like org_name, of the team."`
	Org       string        `json:"org,omitempty"`
	OrgName   string        `json:"org_name,omitempty" doc:"Name of the organisation. Absent: it has none, or the store does not have it."`
	Began     time.Time     `json:"began"`
	Took      float64       `json:"took_seconds"`
	Endpoint  string        `json:"endpoint"`
	Dialect   string        `json:"dialect"`
	Model     string        `json:"model"`
	Target    string        `json:"target,omitempty"`
	Stream    bool          `json:"stream"`
	Status    int           `json:"status"`
	Outcome   string        `json:"outcome" enum:"answered,left,failed,refused,lost,cached,queued"`
	Tokens    Tokens        `json:"tokens" doc:"Tokens that the client is charged for."`
	Estimated bool          `json:"estimated,omitzero" doc:"The provider did not report usage; the gateway estimated it."`
	Cost      string        `json:"cost,omitempty" doc:"Dollars. Absent: not known."`
	User      string        `json:"user,omitempty" doc:"End user that the client named."`
	Tags      []TagView     `json:"tags,omitempty" doc:"Tags that the client sent."`
	Person    *PersonView   `json:"person,omitempty" doc:"Whose account the key is. Absent: it is nobody's."`
	UserAgent string        `json:"user_agent,omitempty"`
	Trace     string        `json:"trace,omitempty" doc:"Id of the trace, if it was recorded."`
	Fidelity  string        `json:"fidelity,omitempty" doc:"First word of the Isogloss-Fidelity header: exact, approximated, dropped or refused."`
	Losses    []RequestLoss `json:"losses,omitempty" doc:"What was not translated exactly."`
	MoreLoss  int           `json:"losses_left_out,omitzero" doc:"Number of further losses."`
	Queue     float64       `json:"queue_seconds,omitzero" doc:"From began until the first attempt was sent."`
	FirstByte float64       `json:"first_byte_seconds,omitzero" doc:"From began until the headers of the response arrived."`
	Token     float64       `json:"first_token_seconds,omitzero" doc:"From began until the first content of a stream was sent."`
	Attempts  []AttemptView `json:"attempts"`
	Error     *RequestError `json:"error,omitempty" doc:"The error that the client got. Absent: none, or it is not known."`
}

// RequestError is the error that a client got.
type RequestError struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty" doc:"Its text. Absent: it may quote the request or the response, and is not stored."`
	Reason  string `json:"refused,omitempty" enum:"limit,budget,access,key,overload,fidelity,target" doc:"Why the gateway refused the request. Absent: it did not."`
	Remedy  string `json:"remedy,omitempty" doc:"What would have let a refused request pass."`
}

// PersonView is whose account a key is.
type PersonView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// RequestLoss is a field that was not translated exactly.
type RequestLoss struct {
	Code string `json:"code"`
	Path string `json:"path" doc:"Field of the request or response."`
}

// TagView is a tag that a client sent.
type TagView struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// AttemptView is an attempt of a request.
type AttemptView struct {
	Target  string    `json:"target"`
	Began   time.Time `json:"began"`
	Took    float64   `json:"took_seconds"`
	Status  int       `json:"status,omitzero" doc:"Status of the upstream response. Absent: there was none."`
	Fault   string    `json:"fault,omitempty"`
	Tokens  Tokens    `json:"tokens"`
	Cost    string    `json:"cost,omitempty" doc:"Cost for the operator, in dollars. Absent: not known."`
	Charged bool      `json:"charged" doc:"Its usage is charged to the client."`

	Connect   float64     `json:"connect_seconds,omitzero" doc:"Time of a new connection. Absent: an open one was used."`
	FirstByte float64     `json:"first_byte_seconds,omitzero" doc:"From its began until the headers of the response arrived."`
	Token     float64     `json:"first_token_seconds,omitzero" doc:"From its began until the first content of a stream was sent."`
	Prices    *PricesView `json:"prices,omitempty" doc:"With which cost was computed. Absent: not known, or free."`
}

func viewAttempt(a *usage.Attempt) AttemptView {
	return AttemptView{Target: a.Target, Began: a.Began, Took: a.Took.Seconds(), Status: a.Status, Fault: a.Fault, Tokens: TokensOf(a.Usage), Cost: price(a.Cost), Charged: a.Charged,
		Connect: a.Connect.Seconds(), FirstByte: a.FirstByte.Seconds(), Token: a.FirstToken.Seconds(), Prices: PricesOf(&a.Rates)}
}

// RequestOf returns the form of a row, without the names of its key, team and organisation.
func RequestOf(r usage.Row) RequestView {
	v := RequestView{
		ID: r.ID, Node: r.Node, Key: r.Key, Team: r.Team, Org: r.Org, Began: r.Began, Took: r.Took.Seconds(),
		Endpoint: r.Endpoint, Dialect: r.Dialect, Model: r.Model, Target: r.Target, Stream: r.Stream, Status: r.Status,
		Outcome: string(r.Outcome), Tokens: TokensOf(r.Usage), Estimated: r.Estimated, Cost: price(r.Cost), User: r.User, UserAgent: r.Agent, Trace: r.Trace,
		Fidelity: r.Fidelity, MoreLoss: r.MoreLosses, Queue: r.Queue.Seconds(), FirstByte: r.FirstByte.Seconds(), Token: r.FirstToken.Seconds(),
	}
	if r.Person != "" {
		v.Person = &PersonView{r.Key, r.Person}
	}
	if t := r.Told; t != (usage.Told{}) {
		v.Error = &RequestError{t.Code, t.Message, string(t.Reason), t.Remedy}
	}
	for _, l := range r.Losses {
		v.Losses = append(v.Losses, RequestLoss(l))
	}
	for _, t := range r.Tags {
		v.Tags = append(v.Tags, TagView(t))
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
