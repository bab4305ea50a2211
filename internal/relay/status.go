package relay

import "github.com/isogloss-gateway/isogloss/internal/health"

// TargetStatus is a target that is in use, with the models that lead to it.
type TargetStatus struct {
	Target  string // provider/model
	Address string
	Models  []string
	health.Status
}

// Targets lists the targets of all routes, in the order of the configuration.
func (r *Relay) Targets() []TargetStatus {
	known := map[string]health.Status{}
	for _, s := range r.live.fleet.Snapshot() {
		known[s.ID] = s
	}
	at := map[string]int{}
	var out []TargetStatus
	for _, route := range r.state.Load().Routes.Routes() {
		for _, t := range route.Targets {
			id := targetID(&t, identify(t.Provider))
			i, seen := at[id]
			if !seen {
				i = len(out)
				at[id] = i
				out = append(out, TargetStatus{Target: t.String(), Address: t.Provider.BaseURL.Host, Status: known[id]})
			}
			out[i].Models = append(out[i].Models, route.Name)
		}
	}
	return out
}
