package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/discover"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/internal/store"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// lastDrain is how long the end of the process waits for usage to reach the store.
// What does not is on the disk, and goes there with the next start.
const lastDrain = 3 * time.Second

// stores is what outlives the process or is shared with others. It is opened once:
// a change of the file does not move it. The zero value is a gateway without any.
type stores struct {
	node      string
	store     *store.Store
	peppers   access.Peppers
	keys      *access.Directory
	quotas    *quota.Keeper
	spool     *usage.Spool
	discovery *discover.Discovery

	running sync.WaitGroup
	end     context.CancelFunc
}

// openStores opens what the configuration names. It does not wait for any of it:
// what is not there is known from the disk, or comes later.
func openStores(cfg *config.Config, observer *observe.Observer) (s *stores, err error) {
	s = &stores{node: cmp.Or(cfg.Node, hostname()), end: func() {}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if cfg.Store.URL == "" && !cfg.Discover.On() {
		return s, nil
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return s, fmt.Errorf("data: %w; write a folder that the gateway may use", err)
	}
	if cfg.Store.URL != "" {
		if err := s.openStore(cfg, observer); err != nil {
			return s, err
		}
	}
	s.discovery, err = newDiscovery(cfg, filepath.Join(cfg.Data, "workers.snapshot"), observer.Logger())
	return s, err
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "gateway"
	}
	return name
}

func (s *stores) openStore(cfg *config.Config, observer *observe.Observer) (err error) {
	if s.peppers, err = openPeppers(cfg); err != nil {
		return err
	}
	logger := observer.Logger()
	if s.store, err = store.Open(context.Background(), cfg.Store.URL.Reveal(), store.Options{Migrate: true, Logger: logger}); err != nil {
		return err
	}
	if s.spool, err = usage.OpenSpool(usage.SpoolOptions{Dir: filepath.Join(cfg.Data, "spool"), Node: s.node, Logger: logger}); err != nil {
		return err
	}
	o := quota.Options{Redis: cfg.Redis.Reveal(), Node: s.node, Ledger: s.store, Logger: logger}
	if cfg.Redis == "" {
		s.quotas = quota.NewMemory(o)
	} else if s.quotas, err = quota.NewRedis(o); err != nil {
		return err
	}
	s.keys = access.NewDirectory(access.DirectoryOptions{Source: s.store, Peppers: s.peppers, Snapshot: filepath.Join(cfg.Data, "keys.snapshot"),
		Stale: cfg.Store.Stale, Logger: logger})
	return nil
}

// ready waits until keys can be told apart: from the store, or from what was kept of
// it. Where neither is there, the gateway could only turn everyone away.
func (s *stores) ready(ctx context.Context) error {
	if s.keys == nil {
		return nil
	}
	return s.keys.Ready(ctx)
}

// run keeps everything going until close. publish is told of the workers that are
// found.
func (s *stores) run(publish func(discover.Snapshot)) {
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	if s.store != nil {
		s.running.Go(func() { s.keys.Run(ctx) })
		s.running.Go(func() { s.quotas.Run(ctx) })
		s.running.Go(func() { s.spool.Drain(ctx, s.store, s.chargeLost) })
	}
	if s.discovery != nil {
		s.running.Go(func() { s.discovery.Run(ctx, publish) })
	}
}

// chargeLost charges what a process that died has served.
func (s *stores) chargeLost(row usage.Row) {
	if row.Cost == nil || row.Key == "" {
		return
	}
	caller, err := s.keys.Caller(context.Background(), row.Key)
	if err != nil {
		return // budgets are seeded from the ledger, which has the row
	}
	s.quotas.Charge(row.ID, row.Org, caller.Accounts, row.Usage.TotalInput()+row.Usage.TotalOutput(), *row.Cost)
}

// join gives a state what it is checked and counted by.
func (s *stores) join(state *relay.State, cfg *config.Config, prices *usage.Book) {
	if s.store == nil {
		return
	}
	s.keys.UseStatic(access.NewKeys(newKeys(cfg.Keys)))
	state.Keys = s.keys
	state.Books = relay.Books{Node: s.node, Prices: prices, Ledger: s.spool, Quotas: s.quotas}
}

// close ends everything, the ledger last. No request is open any more.
func (s *stores) close() {
	if s.spool != nil && s.store != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lastDrain)
		_ = s.spool.Flush(ctx) // what is left is on the disk
		cancel()
	}
	s.end()
	s.running.Wait()
	if s.quotas != nil {
		s.quotas.Close()
	}
	if s.spool != nil {
		_ = s.spool.Close() // it has logged what went wrong
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}
