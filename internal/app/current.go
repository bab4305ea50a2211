package app

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/signin"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/retention"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/cloud"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
)

// current combines the configuration that was last loaded with the workers that were
// last discovered. A change of either builds a new state.
type current struct {
	gateway *relay.Relay
	stores  *stores
	catalog *models.Catalog
	clouds  *cloud.Pool
	logger  *slog.Logger
	started time.Time
	keys    *access.Keys       // of the configuration
	people  *identity.Verifier // nil: no identity provider is configured
	revoked identity.Revoked   // tokens
	clients atomic.Pointer[access.Clients]
	signIn  atomic.Pointer[signin.Server]

	mu      sync.Mutex
	cfg     *config.Config
	loaded  time.Time
	prices  *usage.Book
	workers discover.Snapshot
	models  int // number of models served
}

// load sets the configuration.
func (c *current) load(cfg *config.Config) error {
	prices, err := newBook(&cfg.Prices)
	if err != nil {
		return err
	}
	if err := checkClouds(cfg); err != nil {
		return err
	}
	people, err := newVerifier(cfg.Identity)
	if err != nil {
		return err
	}
	if people != nil {
		people.Revoked = &c.revoked
		if c.stores.keys != nil { // a nil pointer in an interface is not nil
			people.Groups = c.stores.keys
		}
	}
	signIn, err := c.newSignIn(cfg, people)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	people.Adopt(c.people)
	c.cfg, c.prices, c.people, c.loaded = cfg, prices, people, time.Now()
	c.keys = c.keys.Renew(cfg.Keys)
	cfg.Overload.SetRuntimeLimit()
	c.clouds.Use(cfg.Providers)
	c.use()
	c.signIn.Store(signIn)
	return nil
}

// found sets the discovered workers.
func (c *current) found(s discover.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = s
	c.use()
}

func (c *current) use() {
	state := newState(c.cfg, c.workers, c.started)
	clients := c.newClients()
	c.clients.Store(clients)
	state.Keys, state.Models.Catalog, state.Models.Prices = clients, c.catalog, c.prices
	c.stores.join(state, c.cfg, c.prices)
	c.models = len(state.Routes.Routes())
	c.gateway.Use(state)
}

// newClients returns the credentials that the gateway accepts.
func (c *current) newClients() *access.Clients {
	if c.people == nil { // a nil pointer in an interface is not nil
		return access.NewClients(c.keys, c.stores.keys, nil)
	}
	return access.NewClients(c.keys, c.stores.keys, c.people)
}

// config returns the configuration in use and when it was loaded.
func (c *current) config() (*config.Config, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg, c.loaded
}

// retention returns what the store keeps.
func (c *current) retention() retention.Policy {
	cfg, _ := c.config()
	p := cfg.Retention
	for _, issuer := range cfg.Identity {
		for _, rule := range issuer.Rules {
			for _, b := range rule.Grant.Limit.Budgets() {
				p.Windows = append(p.Windows, b.Window)
			}
		}
	}
	return p
}

// served returns the number of models, configured and discovered.
func (c *current) served() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.models
}

// newBook builds the price book of a configuration.
func newBook(p *usage.Prices) (*usage.Book, error) {
	return usage.NewBook(usage.BookOptions{Rules: p.Models, Lists: p.Lists, Ceiling: p.Ceiling})
}
