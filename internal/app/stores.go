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
	"github.com/isogloss-gateway/isogloss/internal/cache"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/discover"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/internal/store"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// firstContact is how long a start without anything on the disk waits for the store.
const firstContact = 10 * time.Second

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
	answers   *cache.Cache
	once      *cache.Once
	shut      []func() // of what these are kept in
	discovery *discover.Discovery
	found     chan struct{} // closed once the workers that there are have been published

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
	if cfg.Store.URL != "" || cfg.Discover.On() && !cfg.Discover.Local { // else nothing is written to disk
		if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
			return s, fmt.Errorf("data: %w; write a folder that the gateway may use", err)
		}
	}
	if cfg.Store.URL != "" {
		if err := s.openStore(cfg, observer); err != nil {
			return s, err
		}
	}
	s.discovery, err = newDiscovery(cfg, observer.Logger())
	s.found = make(chan struct{})
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
	return s.openAnswers(cfg)
}

// onceMemory bounds what is kept for Idempotency-Keys on one node.
const onceMemory = 64 << 20

// openAnswers opens what answers are kept in: Redis where there is one, for all
// nodes, else memory.
func (s *stores) openAnswers(cfg *config.Config) error {
	hidden, err := s.peppers.Derive("cache")
	if err != nil {
		return err
	}
	var kept cache.Store
	var locks cache.Locks = cache.NewRecords(onceMemory)
	switch {
	case cfg.Redis != "":
		r, err := cache.NewRedis(cache.RedisOptions{URL: cfg.Redis.Reveal()})
		if err != nil {
			return err
		}
		s.shut = append(s.shut, r.Close)
		kept, locks = r, r
	case cfg.Cache.TTL > 0:
		m, err := cache.NewMemory(cfg.Cache.Size)
		if err != nil {
			return err
		}
		s.shut = append(s.shut, m.Close)
		kept = m
	}
	if s.once, err = cache.NewOnce(locks, cache.OnceOptions{Secret: hidden}); err != nil || cfg.Cache.TTL == 0 {
		return err
	}
	s.answers, err = cache.New(kept, cache.Options{Secret: hidden, TTL: cfg.Cache.TTL})
	return err
}

// ready waits until workers are known, which takes half a second at most, and keys
// can be told apart: from the store, or from what was kept of it. Without either the
// gateway could only turn away who comes first.
func (s *stores) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	if s.discovery != nil {
		select {
		case <-s.found:
		case <-ctx.Done():
		}
	}
	if s.keys == nil {
		return nil
	}
	for s.keys.Ready() != nil && ctx.Err() == nil {
		if s.keys.Refresh(ctx) == nil {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return s.keys.Ready()
}

// run keeps everything going until close. publish is told of the workers that are
// found.
func (s *stores) run(observer *observe.Observer, publish func(discover.Snapshot)) {
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	if s.store != nil {
		s.running.Go(func() { s.keys.Run(ctx) })
		s.running.Go(func() { s.quotas.Run(ctx) })
		s.running.Go(func() { s.spool.Drain(ctx, s.store, s.chargeLost) })
	}
	observer.WatchStores(s.snapshot)
	if s.discovery != nil {
		first := sync.OnceFunc(func() { close(s.found) })
		s.running.Go(func() {
			s.discovery.Run(ctx, func(now discover.Snapshot) {
				publish(now)
				first()
			})
		})
	}
}

// snapshot is what the metrics show.
func (s *stores) snapshot() (out observe.Stores) {
	if s.store != nil {
		b, k, q := s.spool.Snapshot(), s.keys.Snapshot(), s.quotas.Snapshot()
		out.Ledger = &observe.LedgerState{Rows: b.Rows, Bytes: b.Bytes, Oldest: b.Oldest, Failed: b.Failed, Lost: b.Lost}
		out.Keys = observe.KeysState{Known: k.Known, Age: k.Age}
		out.Quota = observe.QuotaState{Lost: q.Lost, Nodes: q.Nodes, Waiting: q.Queued + q.Merged, Outages: q.Outages}
	}
	if s.discovery != nil {
		d := s.discovery.Status()
		out.Workers = &observe.WorkersState{Known: len(d.Snapshot.Workers), Stale: d.Snapshot.Stale || len(d.Silent) > 0, Refused: d.Refused}
	}
	return out
}

// chargeLost charges what a process that died has served.
func (s *stores) chargeLost(row usage.Row) {
	if row.Cost == nil || row.Key == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastDrain)
	defer cancel()
	record, err := s.keys.Record(ctx, row.Key)
	if err != nil {
		return // a budget that is not known is read from the ledger, which has the row
	}
	s.quotas.Charge(row.ID, row.Org, record.Accounts(), row.Usage.TotalInput()+row.Usage.TotalOutput(), *row.Cost)
}

// join gives a state what it is checked and counted by.
func (s *stores) join(state *relay.State, cfg *config.Config, prices *usage.Book) {
	if s.store == nil {
		return
	}
	state.Keys = s.keys.With(access.NewKeys(newKeys(cfg.Keys)))
	state.Books = relay.Books{Node: s.node, Prices: prices, Ledger: s.spool, Quotas: s.quotas, Answers: s.answers, Once: s.once}
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
	if s.once != nil {
		s.once.Close()
	}
	for _, shut := range s.shut {
		shut()
	}
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
