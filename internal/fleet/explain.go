package fleet

import (
	"cmp"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/route"
)

// The states of a target that is tried. Package health has the states of a target that is
// out of service.
const (
	Ready   = "ready"
	Failing = "failing" // its latest attempts failed, but not enough of them to eject it
	// Saturated means that its engine reports a queue or a nearly full KV cache.
	Saturated = "saturated"
)

// TargetState is the live state of a target as "isogloss explain" shows it.
type TargetState struct {
	State       string    `json:"state"`
	Until       time.Time `json:"until,omitzero"` // when the state ends; zero if the next check decides
	Open        int       `json:"open"`           // requests in flight
	FirstToken  string    `json:"first_token,omitempty"`
	LastError   string    `json:"last_error,omitempty"` // the latest error, even if the target has recovered
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
}

// Explain returns the state of a target on its own. A target that is out of service is
// still tried if its model has no other.
func Explain(t *route.Target) TargetState {
	state, last := t.Live.State(), t.Live.LastError()
	out := TargetState{State: cmp.Or(state.Reason, Ready), Until: state.Until, Open: t.Live.InFlight(), LastError: last.Reason, LastErrorAt: last.At}
	switch {
	case state.Ready && t.Live.Consecutive() > 0:
		out.State = Failing
	case state.Ready && t.Engine.Saturated():
		out.State = Saturated
	}
	if d := t.Live.FirstToken(); d > 0 {
		out.FirstToken = strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	return out
}
