package models

import (
	"context"
	"net/url"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
)

// Listing is the list of models with their routes, for operators.
type Listing struct {
	Models   []ListedModel `json:"models"`
	Patterns []string      `json:"patterns,omitempty" doc:"Names that end in *, for which no model is known."`
}

// ListedModel is a model of a Listing. What is empty is not known.
type ListedModel struct {
	Model        string             `json:"model" doc:"The name that requests use."`
	Route        string             `json:"route" doc:"The name in the configuration, which may be a pattern."`
	Balance      string             `json:"balance" doc:"The balancing policy: order, weight, least-busy, fastest or cache."`
	OwnedBy      string             `json:"owned_by"`
	Context      int64              `json:"context_window,omitzero"`
	MaxOutput    int64              `json:"max_output_tokens,omitzero"`
	Capabilities []codec.Capability `json:"capabilities,omitempty"`
	Price        *ListedPrice       `json:"price,omitempty"`
	Shutdown     string             `json:"shutdown_date,omitempty" doc:"The day on which its vendor ends it."`
	Targets      []ListedTarget     `json:"targets" doc:"In the order of the configuration."`
}

// ListedPrice is the price of a model, in dollars per token.
type ListedPrice struct {
	Input      string `json:"input" doc:"Dollars per token."`
	CacheRead  string `json:"cache_read,omitempty"`
	CacheWrite string `json:"cache_write,omitempty"`
	Output     string `json:"output"`
}

// ListedTarget is a target of a ListedModel.
type ListedTarget struct {
	Target   string `json:"target" doc:"provider/model."`
	Protocol string `json:"protocol"`
	BaseURL  string `json:"base_url"`
	Weight   int    `json:"weight" doc:"Relative share of the requests, for the policies that use weights."`
	// The state is nil if no gateway runs.
	*fleet.TargetState
}

// Listing lists all models with their routes and the states of their targets.
func (v View) Listing(ctx context.Context) Listing {
	listed := v.List(ctx, func(string) bool { return true })
	out := Listing{Models: make([]ListedModel, len(listed)), Patterns: v.Unexpanded()}
	for i, m := range listed {
		match, _ := v.Routes.Find(m.ID) // the list has it from there
		row := ListedModel{Model: m.ID, Route: match.Route.Name, Balance: string(match.Route.Balance), OwnedBy: m.OwnedBy, Context: m.Context, MaxOutput: m.MaxOutput, Capabilities: m.Capabilities, Targets: []ListedTarget{}}
		if m.Price.Input != "" && m.Price.Output != "" {
			row.Price = &ListedPrice{m.Price.Input, m.Price.CacheRead, m.Price.CacheWrite, m.Price.Output}
		}
		if !m.Shutdown.IsZero() {
			row.Shutdown = m.Shutdown.UTC().Format(time.DateOnly)
		}
		for _, t := range match.Targets {
			target := ListedTarget{Target: t.String(), Protocol: string(t.Provider.Protocol), BaseURL: address(t.Provider.BaseURL), Weight: max(t.Weight, 1)}
			if t.Live != nil {
				target.TargetState = new(fleet.Explain(&t))
			}
			row.Targets = append(row.Targets, target)
		}
		out.Models[i] = row
	}
	return out
}

// address returns a URL without its query, which may contain a credential.
func address(u *url.URL) string {
	shown := *u
	shown.RawQuery = ""
	return shown.String()
}
