package amounts

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// SumView is a sum of requests.
type SumView struct {
	Start     time.Time `json:"start,omitzero" doc:"Start of the hour or day, if grouped by it."`
	Org       string    `json:"org,omitempty"`
	OrgName   string    `json:"org_name,omitempty" doc:"Name of the organisation. Absent: it has none, or the store does not have it."`
	Team      string    `json:"team,omitempty"`
	TeamName  string    `json:"team_name,omitempty" doc:"Like org_name, of the team."`
	Key       string    `json:"key,omitempty"`
	KeyName   string    `json:"key_name,omitempty" doc:"Name of the key. Absent: the store does not have the key."`
	Model     string    `json:"model,omitempty"`
	Target    string    `json:"target,omitempty"`
	User      string    `json:"user,omitempty" doc:"End user, if grouped by it. Absent: requests without one. Those beyond the first 1,000 of a day are other."`
	Tag       string    `json:"tag,omitempty" doc:"Value of the tag, if grouped by one. Absent: requests without it. Those beyond the first 1,000 of a day are other."`
	Requests  int64     `json:"requests"`
	Tokens    Tokens    `json:"tokens"`
	Cost      string    `json:"cost" doc:"Dollars, as an exact decimal."`
	Unpriced  int64     `json:"unpriced" doc:"Requests without a known cost, which cost does not include."`
	Estimated int64     `json:"estimated" doc:"Requests whose tokens are estimated, because the provider did not report usage."`
	Errors    int64     `json:"errors" doc:"Requests that failed, or were lost because a gateway died."`
	Refused   int64     `json:"refused" doc:"Requests that the gateway refused, which requests does not count. They have no model, target or label."`
	First     TokenTime `json:"first_token,omitzero" doc:"Times to the first token of streams. Absent: there were none."`
}

// TokenTime has the times to the first token of streams.
type TokenTime struct {
	P50   float64 `json:"p50" doc:"Seconds, interpolated between 0, 0.1, 0.25, 0.5, 1, 2, 5 and 10. What is longer counts as 10."`
	P95   float64 `json:"p95"`
	Count int64   `json:"count" doc:"Streams with a first token."`
}

// SumOf returns the form of a sum, without its label.
func SumOf(s store.Sum) SumView {
	v := SumView{
		Org: s.Org, Team: s.Team, Key: s.Key, Model: s.Model, Target: s.Target,
		Requests: s.Requests, Unpriced: s.Unknown, Estimated: s.Estimated, Tokens: TokensOf(s.Usage), Cost: s.Cost.Decimal(),
		Errors: s.Errors, Refused: s.Refused, First: TokenTime{s.FirstToken.Quantile(0.5).Seconds(), s.FirstToken.Quantile(0.95).Seconds(), s.FirstToken.Count()},
	}
	if s.Start.Unix() > 0 {
		v.Start = s.Start
	}
	return v
}
