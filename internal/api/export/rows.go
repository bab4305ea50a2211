package export

import (
	"encoding/json"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Request is a row of the ledger, without its attempts. The tags name the columns, whose names and types
// stay.
type Request struct {
	ID         string       `parquet:"id"`
	Began      time.Time    `parquet:"began,timestamp(nanosecond)"`
	Took       float64      `parquet:"took_seconds"`
	Node       string       `parquet:"node"`
	Org        string       `parquet:"org"`
	Team       string       `parquet:"team"`
	Key        string       `parquet:"key"`
	Person     string       `parquet:"person"`
	Endpoint   string       `parquet:"endpoint"`
	Dialect    string       `parquet:"dialect"`
	Model      string       `parquet:"model"`
	Target     string       `parquet:"target"`
	Stream     bool         `parquet:"stream"`
	Status     int64        `parquet:"status"`
	Outcome    string       `parquet:"outcome"`
	Fidelity   string       `parquet:"fidelity"`
	Input      int64        `parquet:"input"`
	CacheRead  int64        `parquet:"cache_read"`
	CacheWrite int64        `parquet:"cache_write"`
	Output     int64        `parquet:"output"`
	Reasoning  int64        `parquet:"reasoning"`
	Estimated  bool         `parquet:"estimated"`
	Cost       *usage.Money `parquet:"cost,optional,decimal(9:18)"` // empty: not known
	User       string       `parquet:"user"`
	Tags       string       `parquet:"tags"` // JSON object; empty: none
	UserAgent  string       `parquet:"user_agent"`
	Trace      string       `parquet:"trace"`
	Queue      float64      `parquet:"queue_seconds"`
	FirstByte  float64      `parquet:"first_byte_seconds"`
	FirstToken float64      `parquet:"first_token_seconds"`
	Attempts   int64        `parquet:"attempts"`
	Losses     int64        `parquet:"losses"`
	Units      string       `parquet:"units"` // JSON object of the amounts of other units by name; empty: none
	ErrorCode  string       `parquet:"error_code"`
	Error      string       `parquet:"error"`   // its text; empty: none, or it is not stored
	Refused    string       `parquet:"refused"` // why the gateway refused the request; empty: it did not
	Remedy     string       `parquet:"remedy"`  // what would have let a refused request pass
	KeyName    string       `parquet:"key_name"`
	OrgName    string       `parquet:"org_name"`
	TeamName   string       `parquet:"team_name"`
}

// RequestOf returns the row of a request.
func RequestOf(r *usage.Row) Request {
	out := Request{ID: r.ID, Began: r.Began, Took: r.Took.Seconds(), Node: r.Node, Org: r.Org, Team: r.Team, Key: r.Key, Person: r.Person,
		Endpoint: r.Endpoint, Dialect: r.Dialect, Model: r.Model, Target: r.Target, Stream: r.Stream, Status: int64(r.Status), Outcome: string(r.Outcome), Fidelity: r.Fidelity,
		Input: r.Usage.Input, CacheRead: r.Usage.CacheRead, CacheWrite: r.Usage.CacheWrite, Output: r.Usage.Output, Reasoning: r.Usage.Reasoning, Estimated: r.Estimated,
		Cost: r.Cost, User: r.User, UserAgent: r.Agent, Trace: r.Trace, Queue: r.Queue.Seconds(), FirstByte: r.FirstByte.Seconds(), FirstToken: r.FirstToken.Seconds(),
		Attempts: int64(len(r.Attempts)), Losses: int64(len(r.Losses) + r.MoreLosses), Units: unitsOf(r.Usage),
		ErrorCode: r.Told.Code, Error: r.Told.Message, Refused: string(r.Told.Reason), Remedy: r.Told.Remedy}
	if len(r.Tags) > 0 {
		tags := make(map[string]string, len(r.Tags))
		for _, t := range r.Tags {
			tags[t.Key] = t.Value
		}
		text, _ := json.Marshal(tags) // texts do not fail
		out.Tags = string(text)
	}
	return out
}

// unitsOf returns the amounts of the units without a column as a JSON object.
func unitsOf(u llm.Usage) string {
	m := usage.MapOf(u.Other, usage.Name)
	if m == nil {
		return ""
	}
	text, _ := json.Marshal(m) // numbers do not fail
	return string(text)
}

// Sum is a sum of requests. Columns that the sums are not grouped by are empty.
type Sum struct {
	Start      *time.Time   `parquet:"start,optional,timestamp(nanosecond)"` // of the hour or day
	Org        string       `parquet:"org"`
	Team       string       `parquet:"team"`
	Key        string       `parquet:"key"`
	Model      string       `parquet:"model"`
	Target     string       `parquet:"target"`
	Label      string       `parquet:"label"` // the end user, or the value of the tag
	Requests   int64        `parquet:"requests"`
	Input      int64        `parquet:"input"`
	CacheRead  int64        `parquet:"cache_read"`
	CacheWrite int64        `parquet:"cache_write"`
	Output     int64        `parquet:"output"`
	Reasoning  int64        `parquet:"reasoning"`
	Cost       *usage.Money `parquet:"cost,optional,decimal(9:18)"`
	Unpriced   int64        `parquet:"unpriced"`
	Estimated  int64        `parquet:"estimated"`
	Errors     int64        `parquet:"errors"`
	Refused    int64        `parquet:"refused"`
	Units      string       `parquet:"units"` // like that of a request
	KeyName    string       `parquet:"key_name"`
	OrgName    string       `parquet:"org_name"`
	TeamName   string       `parquet:"team_name"`
}

// SumOf returns the row of a sum.
func SumOf(s *store.Sum) Sum {
	out := Sum{Org: s.Org, Team: s.Team, Key: s.Key, Model: s.Model, Target: s.Target, Label: s.Label, Requests: s.Requests,
		Input: s.Usage.Input, CacheRead: s.Usage.CacheRead, CacheWrite: s.Usage.CacheWrite, Output: s.Usage.Output, Reasoning: s.Usage.Reasoning,
		Cost: &s.Cost, Unpriced: s.Unknown, Estimated: s.Estimated, Errors: s.Errors, Refused: s.Refused, Units: unitsOf(s.Usage)}
	if s.Start.Unix() > 0 {
		out.Start = &s.Start
	}
	return out
}
