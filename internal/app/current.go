package app

import (
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/discover"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// current is what the gateway serves by: the file as it was last read, and the
// workers as they were last found. A change of either makes a new state.
type current struct {
	gateway *relay.Relay
	stores  *stores
	started time.Time

	mu      sync.Mutex
	cfg     *config.Config
	loaded  time.Time
	prices  *usage.Book
	workers []discover.Worker
	models  int // that are served
}

// load takes a configuration.
func (c *current) load(cfg *config.Config) error {
	var prices *usage.Book
	if c.stores.store != nil { // else nothing is counted, and the table of prices need not be read
		var err error
		if prices, err = newBook(&cfg.Prices); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg, c.prices, c.loaded = cfg, prices, time.Now()
	c.use()
	return nil
}

// found takes the workers that there are now.
func (c *current) found(s discover.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = s.Workers
	c.use()
}

func (c *current) use() {
	state := newState(c.cfg, c.workers, c.started)
	c.stores.join(state, c.cfg, c.prices)
	c.models = len(state.Routes.Routes())
	c.gateway.Use(state)
}

// config is the configuration that is in use, and since when.
func (c *current) config() (*config.Config, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg, c.loaded
}

// served is how many models there are, of the file and of workers.
func (c *current) served() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.models
}

// newBook is the price book of a configuration.
func newBook(p *config.Prices) (*usage.Book, error) {
	o := usage.BookOptions{Rules: make(map[string]usage.Tariff, len(p.Models))}
	for _, r := range p.Models {
		o.Rules[r.Pattern] = newTariff(r.Price)
	}
	if p.Ceiling != nil {
		ceiling := newTariff(*p.Ceiling)
		o.Ceiling = &ceiling
	}
	return usage.NewBook(o)
}

func newTariff(p config.Price) usage.Tariff {
	return usage.Tariff{Input: p.Input, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, Output: p.Output, Reasoning: p.Reasoning}
}
