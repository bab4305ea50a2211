package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/signin"
	"github.com/isogloss-gateway/isogloss/internal/app/conditions"
	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/app/usagesetup"
	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/alerts"
	"github.com/isogloss-gateway/isogloss/internal/ledger/nodes"
	"github.com/isogloss-gateway/isogloss/internal/ledger/retention"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/refusals"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/people/keyfeed"
	"github.com/isogloss-gateway/isogloss/internal/request/cache"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/request/replay"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
)

// firstContact limits how long a start without snapshots waits for the store.
const firstContact = 10 * time.Second

// lastDrain limits how long the exit waits until the spool is sent. The rest stays on
// disk and is sent at the next start.
const lastDrain = 3 * time.Second

// stores holds the store, Redis, the spool and discovery. They are opened once and not
// changed by a reload. The zero value has none.
type stores struct {
	node      string
	store     *store.Store
	peppers   access.Peppers
	keys      *access.Directory
	feed      *keyfeed.Source
	redis     *redis.Client
	quotas    *quota.Limiter
	spool     *spool.Spool
	sink      spool.Sink   // of the spool: the store, or a log of usage events
	spent     quota.Ledger // of the limits
	requests  admin.Ledger // of the admin API: the store, or ClickHouse
	refusals  *refusals.Recorder
	refused   refusals.Sink // of the recorder: the store, or a log of refusals
	responses *cache.Cache
	once      *cache.Once
	shut      []func()       // close functions of the stores' backends
	alerts    *alerts.Sender // nil: none are configured
	retention *retention.Job // nil: there is no store
	discovery *discover.Discovery
	found     chan struct{} // closed after the first workers are published

	running  sync.WaitGroup
	watching context.Context // of the background work
	end      context.CancelFunc
}

// openStores opens the configured stores without waiting for them. An unreachable store
// is replaced by its snapshot or connected later.
func openStores(cfg *config.Config, observer *observe.Observer) (s *stores, err error) {
	s = &stores{node: cmp.Or(cfg.Node, running.Hostname()), end: func() {}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if cfg.Store.URL != "" || cfg.Discover.On() && !cfg.Discover.Local { // otherwise nothing is written to disk
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

func (s *stores) openStore(cfg *config.Config, observer *observe.Observer) (err error) {
	if s.peppers, err = openPeppers(cfg); err != nil {
		return err
	}
	logger := observer.Logger()
	if s.store, err = store.Open(context.Background(), cfg.Store.URL.Reveal(), store.Options{Migrate: true, Logger: logger, Alerts: cfg.Alerts.Rules()}); err != nil {
		return err
	}
	if s.spool, err = spool.Open(spool.Options{Dir: filepath.Join(cfg.Data, "spool"), Node: s.node, Logger: logger, MaxBytes: cfg.Usage.Spool()}); err != nil {
		return err
	}
	if err := s.openUsage(cfg); err != nil {
		return err
	}
	if all := cfg.Alerts.Receivers(); len(all) > 0 {
		if s.alerts, err = alerts.New(alerts.Options{Store: s.store, Receivers: all, Logger: logger}); err != nil {
			return err
		}
	}
	o := quota.Options{Node: s.node, Ledger: s.spent, Logs: s.spool, Logger: logger}
	if cfg.Redis.URL == "" {
		s.quotas = quota.NewMemory(o)
	} else {
		if s.redis, err = redis.New(redisOptions(cfg, logger)); err != nil {
			return err
		}
		o.Redis = s.redis
		s.quotas = quota.NewRedis(o)
	}
	if s.feed, err = keyfeed.New(s.store, s.redis, s.peppers); err != nil {
		return err
	}
	s.keys = access.NewDirectory(access.DirectoryOptions{Source: s.feed, Peppers: s.peppers, Snapshot: filepath.Join(cfg.Data, "keys.snapshot"),
		Stale: cfg.Store.Stale, Logger: logger})
	s.refusals = refusals.New(refusals.Options{Folder: cfg.Data, Node: s.node, Log: s.spool.Name(), Owner: s.owner, Logger: logger})
	return s.openResponses(cfg)
}

// owner returns whose a key is.
func (s *stores) owner(id string) (refusals.Owner, bool) {
	r, known := s.keys.Owner(id)
	o := refusals.Owner{Org: r.Org, Team: r.Team}
	if access.IsPerson(r.ID) {
		o.Person = r.Name
	}
	return o, known
}

// openUsage opens what usage configures. Without it the store has everything.
func (s *stores) openUsage(cfg *config.Config) error {
	s.sink, s.spent, s.requests, s.refused = s.store, s.store, s.store, s.store
	if cfg.Usage.Sink == nil {
		return nil
	}
	sink, shut, err := usagesetup.Sink(cfg.Usage.Sink, s.store, s.peppers)
	if err != nil {
		return err
	}
	s.shut = append(s.shut, shut)
	s.sink, s.spent = sink, usagesetup.Spent{Store: s.store}
	refused, shut, err := usagesetup.Refusals(cfg.Usage.Sink, s.node, s.peppers)
	if err != nil {
		return err
	}
	s.shut = append(s.shut, shut)
	s.refused = refused
	if h := cfg.Usage.ClickHouse; h != nil {
		d, err := usagesetup.ClickHouse(h)
		if err != nil {
			return err
		}
		s.shut = append(s.shut, d.Close)
		s.requests = d
	}
	return nil
}

// redisOptions returns the options of the connection that limits and cache share.
func redisOptions(cfg *config.Config, logger *slog.Logger) redis.Options {
	r := cfg.Redis
	return redis.Options{URL: r.URL.Reveal(), CA: r.CA, Cert: r.Cert, Key: r.Key, Scripts: quota.Scripts(), Logger: logger}
}

// openResponses opens the response cache and the Idempotency-Key records: in Redis if
// configured, else in memory.
func (s *stores) openResponses(cfg *config.Config) error {
	hidden, err := s.peppers.Derive("cache")
	if err != nil {
		return err
	}
	var kept cache.Store
	var locks cache.Locks = cache.NewRecords(cache.DefaultRecords)
	switch {
	case s.redis != nil:
		r, err := cache.NewRedis(cache.RedisOptions{Client: s.redis, Secret: hidden})
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
	s.responses, err = cache.New(kept, cache.Options{Secret: hidden, TTL: cfg.Cache.TTL})
	return err
}

// ready waits until workers and keys are loaded, from their source or from a snapshot. It
// waits half a second at most for workers. Without keys the gateway could serve no
// request. It waits for a migration of the store as long as that takes.
func (s *stores) ready(ctx context.Context) error {
	first, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	if s.discovery != nil {
		select {
		case <-s.found:
		case <-first.Done():
		}
	}
	if s.keys == nil {
		return nil
	}
	for {
		migrating := errors.Is(s.store.Ready(), store.ErrMigrating)
		if s.keys.Ready() == nil || s.keys.Refresh(ctx) == nil {
			break
		}
		if ctx.Err() != nil || first.Err() != nil && !migrating {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return s.keys.Ready()
}

// run starts the background work, which close ends. now receives the discovered workers
// and the revoked tokens; me is reported to the other nodes.
func (s *stores) run(gateway *relay.Relay, observer *observe.Observer, now *current, me *self) {
	ctx, end := context.WithCancel(context.Background())
	s.watching, s.end = ctx, end
	keep := func(f func()) { s.running.Go(func() { crash.Keep(ctx, observer.Logger(), f) }) }
	if s.store != nil {
		s.retention = retention.New(retention.Options{Store: s.store, Policy: now.retention, Logger: observer.Logger()})
		keep(func() { s.keys.Run(ctx) })
		keep(func() { s.quotas.Run(ctx) })
		keep(func() { gateway.Owners.Run(ctx, s.store, observer.Logger()) })
		keep(func() { s.spool.Drain(ctx, s.sink, s.quotas) })
		keep(func() { s.refusals.Run(ctx, s.refused) })
		keep(func() { nodes.Run(ctx, s.store, me, observer.Logger()) })
		keep(func() { s.retention.Run(ctx) })
		if now.people != nil {
			keep(func() { signin.WatchRevoked(ctx, s.store, &now.revoked) })
		}
		if s.alerts != nil {
			keep(func() { s.alerts.Run(ctx) })
		}
	}
	observer.WatchStores(s.snapshot)
	if s.discovery != nil {
		first := sync.OnceFunc(func() { close(s.found) })
		keep(func() {
			s.discovery.Run(ctx, func(workers discover.Snapshot) {
				now.found(workers)
				first()
			})
		})
	}
}

// watchConditions begins to look for the states that alerts are about.
func (s *stores) watchConditions(ops *operations) {
	if s.alerts == nil {
		return
	}
	w := &alerts.Watch{Store: s.store, Sender: s.alerts, Node: s.node, Finders: conditions.Finders(conditions.Sources{
		Store: s.store, Requests: s.requests, Targets: ops.gateway.Targets, Stores: s.snapshot, Certificates: ops.leaves.Expiring, Models: ops.gateway.Models,
	})}
	s.running.Go(func() { crash.Keep(s.watching, ops.observer.Logger(), func() { w.Run(s.watching) }) })
}

// snapshot returns the state of the stores for the metrics.
func (s *stores) snapshot() (out observe.Stores) {
	if s.store != nil {
		b, k, q := s.spool.Snapshot(), s.keys.Snapshot(), s.quotas.Snapshot()
		out.Ledger = &observe.LedgerState{Rows: b.Rows, Bytes: b.Bytes, Oldest: b.Oldest, Failed: b.Failed, Lost: b.Lost}
		d := s.retention.Snapshot()
		out.Ledger.Deleted, out.Ledger.DeletedSums, out.Ledger.DroppedPartitions = d.Rows, d.Sums, d.Partitions
		out.Keys = observe.KeysState{Known: k.Known, Age: k.Age, Polls: s.feed.Polls()}
		out.Quota = observe.QuotaState{Lost: q.Lost, Evicts: q.Evicts, Nodes: q.Nodes, Waiting: q.Queued + q.Merged, Outages: q.Outages, Shared: q.Fallback}
	}
	if s.discovery != nil {
		d := s.discovery.Status()
		out.Workers = &observe.WorkersState{Known: len(d.Snapshot.Workers), Stale: d.Snapshot.Stale || len(d.Silent) > 0, Refused: d.Refused}
	}
	return out
}

// join adds keys, quotas, ledger and cache to a state.
func (s *stores) join(state *relay.State, cfg *config.Config, prices *usage.Book) {
	if s.store == nil {
		return
	}
	state.SaltKey, _ = s.peppers.Derive("prefix cache") // fails only without a pepper
	state.Shared = s.keys.Shared
	labels := cfg.Tags
	labels.Secret, _ = s.peppers.Derive("end users")
	state.Books = relay.Books{Books: billing.Books{Node: s.node, Prices: prices, Ledger: s.spool, Quotas: s.quotas, CountsInMemory: s.redis == nil, Unrecorded: billing.Unrecorded(cfg.Store.DiskFull), Labels: labels, Refusals: s.refusals},
		Stores: replay.Stores{Responses: s.responses, Once: s.once}}
}

// close closes all stores, the ledger last. No request is open at this point.
func (s *stores) close() {
	if s.spool != nil && s.store != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lastDrain)
		_ = s.spool.Flush(ctx) // unsent rows stay on disk
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
	if s.redis != nil {
		s.redis.Close()
	}
	if s.spool != nil {
		_ = s.spool.Close() // the spool logs its errors
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}
