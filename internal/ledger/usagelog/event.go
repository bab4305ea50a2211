package usagelog

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Version is the major version of events. It changes only if a reader of the old version would
// misunderstand the new one. Within a version fields are only added. docs/usage-events.md describes the fields.
const Version = 1

// Event is the usage of one request, as others may read it. Names with a dot are those of OpenTelemetry's
// semantic conventions. Durations are nanoseconds, amounts billionths of a dollar.
type Event struct {
	Version  int       `json:"v"`
	Log      string    `json:"log"`
	Position int64     `json:"position"`
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`
	Duration int64     `json:"duration_ns"`
	Node     string    `json:"service.instance.id,omitzero"`
	Org      string    `json:"org,omitzero"`
	Team     string    `json:"team,omitzero"`
	Key      string    `json:"key,omitzero"`
	Person   string    `json:"person,omitzero"`
	Endpoint string    `json:"endpoint,omitzero"`
	Dialect  string    `json:"dialect,omitzero"`
	Model    string    `json:"gen_ai.request.model,omitzero"`
	Stream   bool      `json:"gen_ai.request.stream,omitzero"`
	Target   string    `json:"target,omitzero"`
	Status   int       `json:"http.response.status_code,omitzero"`
	Outcome  string    `json:"outcome"`
	Tokens
	Estimated  bool         `json:"estimated,omitzero"`
	Cost       *usage.Money `json:"cost_nano_usd,omitzero"`
	Fidelity   string       `json:"fidelity,omitzero"`
	Losses     []Loss       `json:"losses,omitzero"`
	MoreLosses int          `json:"more_losses,omitzero"`
	Queue      int64        `json:"queue_ns,omitzero"`
	FirstByte  int64        `json:"first_byte_ns,omitzero"`
	FirstToken int64        `json:"first_token_ns,omitzero"`
	Agent      string       `json:"user_agent.original,omitzero"`
	Trace      string       `json:"trace_id,omitzero"`
	User       string       `json:"enduser.id,omitzero"`
	Tags       []Tag        `json:"tags,omitzero"`
	Attempts   []Attempt    `json:"attempts,omitzero"`
	Error      Error        `json:"error,omitzero"`
}

// Error is the error that the client received.
type Error struct {
	Type    string       `json:"error.type,omitzero"`
	Message string       `json:"message,omitzero"`
	Refused usage.Reason `json:"refused,omitzero"`
	Remedy  string       `json:"remedy,omitzero"`
}

// Tokens counts tokens as the semantic conventions do: the first two counts include the others.
type Tokens struct {
	Input      int64 `json:"gen_ai.usage.input_tokens,omitzero"`
	Output     int64 `json:"gen_ai.usage.output_tokens,omitzero"`
	CacheRead  int64 `json:"gen_ai.usage.cache_read.input_tokens,omitzero"`
	CacheWrite int64 `json:"gen_ai.usage.cache_creation.input_tokens,omitzero"`
	Reasoning  int64 `json:"gen_ai.usage.reasoning.output_tokens,omitzero"`
	// Units are the amounts of further units by name. That of a part is also in its parent's.
	Units map[string]int64 `json:"units,omitzero"`
}

// Loss is a field that was not translated exactly.
type Loss struct {
	Code string `json:"code"`
	Path string `json:"path,omitzero"`
}

// Tag is a label of the request.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Attempt is one upstream call.
type Attempt struct {
	Target   string `json:"target"`
	Start    int64  `json:"start_ns,omitzero"` // after Event.Time
	Duration int64  `json:"duration_ns,omitzero"`
	Status   int    `json:"http.response.status_code,omitzero"`
	Fault    string `json:"error.type,omitzero"`
	Tokens
	Cost       *usage.Money `json:"cost_nano_usd,omitzero"`
	Charged    bool         `json:"charged,omitzero"`
	Connect    int64        `json:"connect_ns,omitzero"`
	FirstByte  int64        `json:"first_byte_ns,omitzero"`
	FirstToken int64        `json:"first_token_ns,omitzero"`
	Rates      Rates        `json:"rates,omitzero"`
}

// Rates are billionths of a dollar per million tokens or pieces, and per request.
type Rates struct {
	Input      usage.Rate  `json:"input,omitzero"`
	CacheRead  usage.Rate  `json:"cache_read,omitzero"`
	CacheWrite usage.Rate  `json:"cache_write,omitzero"`
	Output     usage.Rate  `json:"output,omitzero"`
	Reasoning  usage.Rate  `json:"reasoning,omitzero"`
	Request    usage.Money `json:"request,omitzero"`
	// Units are the rates of further units by name.
	Units map[string]usage.Rate `json:"units,omitzero"`
}

// EventOf returns the event of the row at a position of a log.
func EventOf(log string, position int64, r *usage.Row) Event {
	e := Event{Version: Version, Log: log, Position: position, ID: r.ID, Time: boundTime(r.Began), Duration: int64(r.Took),
		Node: r.Node, Org: r.Org, Team: r.Team, Key: r.Key, Person: r.Person, Endpoint: r.Endpoint, Dialect: r.Dialect, Model: r.Model, Stream: r.Stream,
		Target: r.Target, Status: r.Status, Outcome: string(r.Outcome), Tokens: tokensOf(r.Usage), Estimated: r.Estimated, Cost: r.Cost,
		Fidelity: r.Fidelity, MoreLosses: r.MoreLosses, Queue: int64(r.Queue), FirstByte: int64(r.FirstByte), FirstToken: int64(r.FirstToken),
		Agent: r.Agent, Trace: r.Trace, User: r.User, Error: Error{r.Told.Code, r.Told.Message, r.Told.Reason, r.Told.Remedy}}
	for _, l := range r.Losses {
		e.Losses = append(e.Losses, Loss(l))
	}
	for _, t := range r.Tags {
		e.Tags = append(e.Tags, Tag(t))
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		e.Attempts = append(e.Attempts, Attempt{Target: a.Target, Start: int64(boundTime(a.Began).Sub(e.Time)), Duration: int64(a.Took), Status: a.Status, Fault: a.Fault,
			Tokens: tokensOf(a.Usage), Cost: a.Cost, Charged: a.Charged, Connect: int64(a.Connect), FirstByte: int64(a.FirstByte), FirstToken: int64(a.FirstToken),
			Rates: ratesOf(a.Rates)})
	}
	return e
}

// Row returns the row of the event.
func (e *Event) Row() usage.Row {
	r := usage.Row{ID: e.ID, Node: e.Node, Key: e.Key, Team: e.Team, Org: e.Org, Began: e.Time, Took: time.Duration(e.Duration), Endpoint: e.Endpoint, Dialect: e.Dialect,
		Model: e.Model, Target: e.Target, Stream: e.Stream, Status: e.Status, Outcome: usage.Outcome(e.Outcome), Usage: e.usage(), Estimated: e.Estimated, Cost: e.Cost,
		Fidelity: e.Fidelity, MoreLosses: e.MoreLosses, Queue: time.Duration(e.Queue), FirstByte: time.Duration(e.FirstByte), FirstToken: time.Duration(e.FirstToken),
		Client: usage.Client{Person: e.Person, Agent: e.Agent, Trace: e.Trace}, Labels: usage.Labels{User: e.User},
		Told: usage.BoundTold(usage.Told{Code: e.Error.Type, Message: e.Error.Message, Reason: e.Error.Refused, Remedy: e.Error.Remedy})}
	for _, l := range e.Losses {
		r.Losses = append(r.Losses, usage.Loss(l))
	}
	for _, t := range e.Tags {
		r.Tags = append(r.Tags, usage.Tag(t))
	}
	for i := range e.Attempts {
		a := &e.Attempts[i]
		r.Attempts = append(r.Attempts, usage.Attempt{Target: a.Target, Began: e.Time.Add(time.Duration(a.Start)), Took: time.Duration(a.Duration), Status: a.Status, Fault: a.Fault,
			Usage: a.usage(), Cost: a.Cost, Charged: a.Charged,
			Times: usage.Times{Connect: time.Duration(a.Connect), FirstByte: time.Duration(a.FirstByte), FirstToken: time.Duration(a.FirstToken)},
			Rates: a.Rates.rates()})
	}
	return r
}

func tokensOf(u llm.Usage) Tokens {
	return Tokens{Input: u.TotalInput(), Output: u.TotalOutput(), CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning, Units: usage.MapOf(u.Other, usage.Name)}
}

func (t *Tokens) usage() llm.Usage {
	return llm.Usage{Input: t.Input - t.CacheRead - t.CacheWrite, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite, Output: t.Output - t.Reasoning, Reasoning: t.Reasoning,
		Other: usage.FromMap(t.Units, usage.Name)}
}

func ratesOf(r usage.Rates) Rates {
	return Rates{r.Input, r.CacheRead, r.CacheWrite, r.Output, r.Reasoning, r.Request, r.OtherPrices()}
}

func (r *Rates) rates() usage.Rates {
	rates := usage.Rates{Input: r.Input, CacheRead: r.CacheRead, CacheWrite: r.CacheWrite, Output: r.Output, Reasoning: r.Reasoning, Request: r.Request}
	rates.SetOtherPrices(r.Units)
	return rates
}

// boundTime returns a time that JSON can carry, like the store's bounds.
func boundTime(t time.Time) time.Time {
	switch {
	case t.Year() < 1970:
		return time.Unix(0, 0).UTC()
	case t.Year() > 2200:
		return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return t.UTC()
}

// encodeEvent returns an event and a line feed.
func encodeEvent(e *Event) ([]byte, error) {
	text, err := json.Marshal(e, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// ErrVersion reports an event of a newer major version.
var ErrVersion = fmt.Errorf("usagelog: an event has a newer version than %d; update isogloss consume before the gateways", Version)

// DecodeEvent decodes a line. It ignores fields that it does not know.
func DecodeEvent(line []byte) (e Event, err error) {
	err = json.Unmarshal(line, &e, jsontext.AllowInvalidUTF8(true))
	switch {
	case e.Version > Version, err != nil && versionOf(line) > Version: // its fields may have other types
		return e, ErrVersion
	case err != nil:
		return e, fmt.Errorf("usagelog: an event is malformed: %w", err)
	case e.Version < 1 || e.ID == "" || e.Position < 1:
		return e, fmt.Errorf("usagelog: an event has no version, id or position")
	}
	return e, nil
}

// versionOf returns the version of an event; 0: it has none.
func versionOf(line []byte) int {
	var e struct {
		Version int `json:"v"`
	}
	_ = json.Unmarshal(line, &e, jsontext.AllowInvalidUTF8(true)) // then it is malformed
	return e.Version
}
