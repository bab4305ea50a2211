package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/cloud"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// modelsPath is the path of the model list on the admin address.
const modelsPath = "/models"

// connectTimeout limits how long a provider that is to list its models may take to accept
// a connection.
const connectTimeout = 5 * time.Second

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
func (o Options) Models(ctx context.Context, reach Reach) (list models.Listing, live bool, err error) {
	cfg, wrong := o.findRunning()
	if cfg == nil {
		return list, false, wrong
	}
	if reach >= Gateway {
		err = running.AskAdmin(ctx, cfg.Admin, o.Env, http.MethodGet, modelsPath, nil, &list)
		if !running.NotListening(err) {
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
		clouds := cloud.NewPool(slog.New(slog.DiscardHandler))
		defer clouds.Close()
		clouds.Use(cfg.Providers)
	}
	return view.Listing(ctx), false, nil
}

// newCatalog returns a catalog of the providers' lists.
func newCatalog(client *upstream.Client, logger *slog.Logger) *models.Catalog {
	return models.NewCatalog(all.Dialects(), client.Transport(connectTimeout), logger)
}

// serveModels handles the requests of Options.Models.
func serveModels(gateway *relay.Relay) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(gateway.Models().Listing(r.Context())) // fails only if the client has disconnected
	})
}
