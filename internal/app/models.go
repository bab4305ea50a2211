package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/models"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/internal/upstream"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// modelsPath is the path of the model list on the admin address.
const modelsPath = "/models"

// connectTimeout limits how long a provider that is to list its models may take to accept
// a connection.
const connectTimeout = 5 * time.Second

// ModelList is the list of models with their targets.
type ModelList struct {
	Models   []ListedModel `json:"models"`
	Patterns []string      `json:"patterns,omitempty"` // for which no name is known
}

// ListedModel is a model of a ModelList. What is empty is not known.
type ListedModel struct {
	Model        string                `json:"model"`
	OwnedBy      string                `json:"owned_by"`
	Context      int64                 `json:"context_window,omitempty"`
	MaxOutput    int64                 `json:"max_output_tokens,omitempty"`
	Capabilities []protocol.Capability `json:"capabilities,omitempty"`
	Price        *ListedPrice          `json:"price,omitempty"`
	Shutdown     string                `json:"shutdown_date,omitempty"`
	Targets      []ListedTarget        `json:"targets"`
}

// ListedPrice is the price of a model, in dollars per token.
type ListedPrice struct {
	Input      string `json:"input"`
	CacheRead  string `json:"cache_read,omitempty"`
	CacheWrite string `json:"cache_write,omitempty"`
	Output     string `json:"output"`
}

// ListedTarget is a target of a ListedModel.
type ListedTarget struct {
	Target   string `json:"target"`
	Protocol string `json:"protocol"`
	BaseURL  string `json:"base_url"`
	Weight   int    `json:"weight"`
}

// Reach says whom Models may contact.
type Reach int

// The values of Reach; each includes those before it.
const (
	Nobody    Reach = iota
	Gateway         // the running gateway
	Providers       // if there is no gateway: the providers, for their lists
)

// Models asks the running gateway for its models. If no gateway listens on the admin
// address, Models reads the configuration, and live is false.
func (o Options) Models(ctx context.Context, reach Reach) (list ModelList, live bool, err error) {
	cfg, wrong := o.findRunning()
	if cfg == nil {
		return list, false, wrong
	}
	if reach >= Gateway {
		err = o.askRunning(ctx, cfg.Admin, http.MethodGet, modelsPath, nil, &list)
		if !notListening(err) {
			return list, true, err
		}
	}
	if wrong != nil {
		return list, false, wrong
	}
	prices, err := newBook(&cfg.Prices)
	if err != nil {
		return list, false, err
	}
	view := models.View{Routes: route.New(newRoutes(cfg.Models, pools{})), Created: time.Now(), Prices: prices}
	if reach >= Providers {
		view.Catalog = newCatalog(upstream.NewClient(), slog.New(slog.DiscardHandler))
		defer view.Catalog.Close()
	}
	return newModelList(ctx, view), false, nil
}

// newCatalog returns a catalog of the providers' lists.
func newCatalog(client *upstream.Client, logger *slog.Logger) *models.Catalog {
	return models.NewCatalog(all.Dialects(), client.Transport(connectTimeout), logger)
}

// serveModels handles the requests of Options.Models.
func serveModels(gateway *relay.Relay) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(newModelList(r.Context(), gateway.Models())) // fails only if the client has disconnected
	})
}

func newModelList(ctx context.Context, view models.View) ModelList {
	listed := view.List(ctx, func(string) bool { return true })
	out := ModelList{Models: make([]ListedModel, len(listed)), Patterns: view.Unexpanded()}
	for i, m := range listed {
		row := ListedModel{Model: m.ID, OwnedBy: m.OwnedBy, Context: m.Context, MaxOutput: m.MaxOutput, Capabilities: m.Capabilities, Targets: []ListedTarget{}}
		if m.Price.Input != "" && m.Price.Output != "" {
			row.Price = &ListedPrice{m.Price.Input, m.Price.CacheRead, m.Price.CacheWrite, m.Price.Output}
		}
		if !m.Shutdown.IsZero() {
			row.Shutdown = m.Shutdown.UTC().Format(time.DateOnly)
		}
		match, _ := view.Routes.Find(m.ID) // the list has it from there
		for _, t := range match.Targets {
			row.Targets = append(row.Targets, ListedTarget{t.String(), string(t.Provider.Protocol), address(t.Provider.BaseURL), t.Weight})
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
