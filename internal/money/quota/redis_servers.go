package quota

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/timing"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// servers is the list of servers of one topology. It is immutable.
type servers struct {
	topology *redis.Topology
	all      []*redisServer // in the order of the topology
}

// of returns the server of an organisation.
func (s *servers) of(org string) *redisServer {
	if len(s.all) == 1 {
		return s.all[0]
	}
	return s.all[s.topology.Index(script.Key(org, "", ""))]
}

// tag returns the hash tag of keys that are on a server.
func (s *servers) tag(r *redisServer) string {
	return s.topology.Tag(max(0, slices.Index(s.all, r)))
}

// find returns the redisServer of a server, nil if there is none.
func (s *servers) find(server *redis.Server) *redisServer {
	for _, r := range s.all {
		if r.server == server {
			return r
		}
	}
	return nil
}

func (r *redisBackend) serverOf(org string) *redisServer { return r.servers.Load().of(org) }

// has reports whether the server has the keys of an organisation.
func (r *redisServer) has(org string) bool { return r.serverOf(org) == r }

// lose starts an outage of a server.
func (r *redisBackend) lose(server *redis.Server, err error) {
	if s := r.servers.Load().find(server); s != nil {
		s.enterFallback(err)
	}
}

// put queues a change for the server of its organisation. If the queue is closed because its server was
// replaced, put tries again with the new server.
func (r *redisBackend) put(it *change) {
	for !r.serverOf(it.org).queue.put(it) {
	}
}

// keepOwn returns the changes of a batch that belong to this server. It queues each other change for the
// server of its organisation.
func (r *redisServer) keepOwn(batch []*change) []*change {
	if len(r.servers.Load().all) == 1 {
		return batch
	}
	var own []*change
	for _, it := range batch {
		if r.has(it.org) {
			own = append(own, it)
		} else {
			r.put(it)
		}
	}
	return own
}

func (r *redisBackend) newServer(server *redis.Server) *redisServer {
	s := &redisServer{redisBackend: r, server: server, queue: newQueue(r.options.Queue), woken: make(chan struct{}, 1), unregistered: make(chan struct{}, 1)}
	s.nodes.Store(1)
	s.local.Store(newEngine())
	return s
}

// followServers adopts the topology of the client and returns the servers that are gone. A new server
// that takes over keys is used when all nodes have sent it their totals and leases, as after a loss of
// data. Keys that move between existing servers keep their totals; the nodes register their leases again.
func (r *redisBackend) followServers() (gone []*redisServer) {
	old, next := r.servers.Load(), &servers{topology: r.client.Topology()}
	if old.topology == next.topology {
		return nil
	}
	nodes := int64(1)
	for _, s := range old.all {
		nodes = max(nodes, s.nodes.Load())
	}
	var added []*redisServer
	for _, server := range next.topology.Servers {
		s := old.find(server)
		if s == nil {
			s = r.newServer(server)
			s.nodes.Store(nodes)
			if slices.ContainsFunc(old.all, func(o *redisServer) bool { return o.born.Load() != 0 }) {
				s.born.Store(otherBorn)
			}
			added = append(added, s)
		}
		next.all = append(next.all, s)
	}
	r.servers.Store(next)
	for _, s := range added { // what this node has spent meanwhile has to be sent first
		if s.server.Lost() {
			s.enterFallback(errUnreached)
		} else if len(old.all) > 0 {
			s.enterFallback(errNewServer)
		}
	}
	if len(old.all) == 0 {
		return nil
	}
	r.forgetAccounts(func(k *mirrorAccount) bool { return old.of(k.org) != next.of(k.org) })
	for _, s := range next.all {
		s.signalUnregistered()
	}
	for _, s := range old.all {
		if !slices.Contains(next.all, s) {
			gone = append(gone, s)
		}
	}
	return gone
}

var (
	errUnreached = errors.New("redis cannot be reached")
	errNewServer = errors.New("redis has a new master")
	errEmptied   = errors.New("redis has lost data")
	errEvicts    = errors.New("redis has evicted data until now")
)

// forgetAccounts marks the records and leases of some accounts as lost in Redis. It queues their
// spending, from the logs of this machine, to be counted again.
func (r *redisBackend) forgetAccounts(which func(*mirrorAccount) bool) {
	var totals []usage.Total
	r.mirror.each(r.now(), func(k *mirrorAccount) {
		if !which(k) {
			return
		}
		k.forgetServer()
		if k.account.Limit.Budget > 0 && budget.Owner(k.account.ID) == k.account.ID { // setTotal includes the further budgets
			logs, _ := r.options.Logs.Spent(k.account.ID)
			for _, t := range logs {
				totals = append(totals, usage.Total{Log: t.Log, Org: k.org, Account: t.Account, Spent: t.Spent})
			}
		}
	})
	for _, t := range totals {
		r.setTotal(t)
	}
}

// run follows changes of the topology and runs the loops of each server.
func (r *redisBackend) run(ctx context.Context) {
	var wg sync.WaitGroup
	if r.options.HotRate >= 0 {
		wg.Go(func() {
			crash.Keep(ctx, r.options.Logger, func() {
				timing.Every(ctx, r.options.Slice/2, func() { r.endSlices(r.now()); r.reportDue(r.now()) })
			})
		})
	}
	running := map[*redisServer]func(){} // functions that stop the loops
	for ctx.Err() == nil {
		for _, s := range r.followServers() {
			if stop := running[s]; stop != nil {
				stop()
			}
			delete(running, s)
			for _, it := range s.queue.close() {
				r.put(it)
			}
		}
		for _, s := range r.servers.Load().all {
			if running[s] == nil {
				running[s] = s.start(ctx)
			}
		}
		select {
		case <-r.client.Changed():
		case <-ctx.Done():
		}
	}
	for _, stop := range running {
		stop()
	}
	wg.Wait()
}

// start runs the loops of a server until the returned function is called.
func (r *redisServer) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	beat := func(ctx context.Context) { timing.Every(ctx, r.options.Heartbeat, r.heartbeat) }
	for _, loop := range []func(context.Context){r.sendLoop, r.recoverLoop, beat, r.leaseLoop} {
		wg.Go(func() { crash.Keep(ctx, r.options.Logger, func() { loop(ctx) }) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// close sends the queues for at most a second and removes this node from the servers.
func (r *redisBackend) close() {
	r.endSlices(math.MaxInt64)
	r.reportAll()
	deadline := time.Now().Add(time.Second)
	var wg sync.WaitGroup
	for _, s := range r.servers.Load().all {
		wg.Go(func() { crash.Do(r.options.Logger, func() { s.leave(deadline) }) })
	}
	wg.Wait()
	r.seeder.Close()
}
