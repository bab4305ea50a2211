package fleet

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// The states of a target that is tried. Package health has the states of a target that is
// out of service.
const (
	Ready   = "ready"
	Failing = "failing" // its latest attempts failed, but not enough of them to eject it, or none succeeded since it was ejected
	// Degraded means that fewer than half of its recent requests succeeded.
	Degraded = "degraded"
	// Saturated means that its engine reports a queue or a nearly full KV cache.
	Saturated = "saturated"
)

// degradedMin is the number of recent requests of which less than half must have succeeded for Degraded.
const degradedMin = 5

// TargetState is the live state of a target as "isogloss explain" shows it.
type TargetState struct {
	State       string    `json:"state" doc:"ready, degraded, failing or saturated; or why it gets no requests, such as ejected. A refused credential stays refused until a request succeeds."`
	Until       time.Time `json:"until,omitzero" doc:"When the state ends. Absent: the next check decides."`
	Open        int       `json:"open" doc:"Requests in flight."`
	Recent      int64     `json:"recent_requests,omitzero" doc:"Requests of the last 15 minutes."`
	RecentGood  int64     `json:"recent_succeeded,omitzero" doc:"Those of them that succeeded. A target is degraded if that is fewer than half of at least 5."`
	FirstToken  string    `json:"first_token,omitempty" doc:"Smoothed time to first token, such as 120ms."`
	LastError   string    `json:"last_error,omitempty" doc:"The latest error, even if the target has recovered."`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
}

// Explanation lists the targets of a request in the order in which they would be
// tried.
type Explanation struct {
	Model     string            `json:"model" doc:"The name in the request."`
	Dialect   string            `json:"dialect"`
	Route     string            `json:"route" doc:"The name in the configuration, which may be a pattern."`
	Balance   string            `json:"balance" doc:"The balancing policy."`
	Params    json.RawMessage   `json:"params,omitempty" doc:"Parameters that the configuration sets for the model."`
	MaxPrompt int64             `json:"max_prompt_tokens,omitzero" doc:"The most prompt tokens that the request can have, by its size."`
	MaxOutput int64             `json:"max_output_tokens,omitzero" doc:"The output tokens that the gateway reserves."`
	Unlimited bool              `json:"no_output_limit,omitzero" doc:"The request sets no output limit: the response may have more tokens than are reserved."`
	Targets   []ExplainedTarget `json:"targets" doc:"First those that would be tried."`
}

// ExplainedTarget is one target in an Explanation.
type ExplainedTarget struct {
	Target   string     `json:"target" doc:"provider/model."`
	Protocol string     `json:"protocol"`
	Place    int        `json:"place,omitzero" doc:"1 is tried first. Absent: it is not tried."`
	Why      string     `json:"why,omitempty" doc:"Why it is tried late or skipped."`
	Lane     string     `json:"lane" doc:"verbatim or translated."`
	Fidelity string     `json:"fidelity,omitempty" doc:"The header Isogloss-Fidelity, as far as the request determines it."`
	Losses   []llm.Loss `json:"losses,omitempty" doc:"What the request would lose."`
	Refusal  string     `json:"refusal,omitempty" doc:"Why the request cannot be translated for it."`
	MaxCost  string     `json:"max_cost,omitempty" doc:"What the gateway reserves for the request at this target's price, in dollars. Absent: the price is not known."`
	TargetState
}

// Explain returns the state of a target on its own. A target that is out of service is
// still tried if its model has no other.
func Explain(t *route.Target) TargetState {
	state, last := t.Live.State(), t.Live.LastError()
	out := TargetState{State: cmp.Or(state.Reason, Ready), Until: state.Until, Open: t.Live.InFlight(), LastError: last.Reason, LastErrorAt: last.At}
	out.RecentGood, out.Recent = t.Live.Recent()
	doubt := t.Live.Doubt()
	switch {
	case state.Ready && doubt != "" && doubt != health.Ejected:
		out.State = doubt
	case state.Ready && out.Recent >= degradedMin && 2*out.RecentGood < out.Recent:
		out.State = Degraded
	case state.Ready && (t.Live.Consecutive() > 0 || doubt != ""):
		out.State = Failing
	case state.Ready && t.Engine.Saturated():
		out.State = Saturated
	}
	if d := t.Live.FirstToken(); d > 0 {
		out.FirstToken = strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	return out
}
