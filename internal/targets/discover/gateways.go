package discover

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover/rotation"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
)

// GatewayOptions configures Gateways.
type GatewayOptions struct {
	Etcd EtcdOptions
	Node string        // name of this node; several processes may have the same
	TTL  time.Duration // of the lease, in whole seconds; default 10 s
}

// Gateways announces this gateway in etcd, as the key PREFIXgateways/ID under a lease,
// and counts the gateways that are announced there. Everyone with access to etcd can
// write there, so entries that are not of that form are ignored, and at most 1,000 are
// counted.
type Gateways struct {
	entry
	id string
	// known holds the ids, and since when etcd no longer has each of them. An etcd that was
	// emptied lacks gateways that are alive: they announce themselves again when they have
	// connected and renew, and are counted meanwhile.
	known map[string]time.Time
	told  Share
	alive atomic.Pointer[[]string] // the known ids, in order, for the turns
	turns *limit.Turns
}

// NewGateways validates the options. It does not contact etcd.
func NewGateways(o GatewayOptions) (*Gateways, error) {
	o.TTL = cmp.Or(o.TTL, 10*time.Second)
	if o.TTL < 2*time.Second || o.TTL%time.Second != 0 {
		return nil, errors.New("gateways: ttl: it has to be whole seconds, and 2 or more")
	}
	e, err := newEtcd(o.Etcd)
	if err != nil {
		return nil, err
	}
	var own [8]byte
	_, _ = rand.Read(own[:]) // it never fails
	name := strings.Map(func(c rune) rune {
		if c == '/' || !unicode.IsPrint(c) {
			return '_'
		}
		return c
	}, o.Node)
	id := strings.ToValidUTF8(name[:min(len(name), rotation.MaxID/2)], "") + "-" + hex.EncodeToString(own[:])
	return &Gateways{id: id, turns: limit.NewTurns(), known: map[string]time.Time{id: {}},
		entry: entry{etcd: e, key: e.gateways() + id, ttl: o.TTL, logger: e.o.Logger.With("gateway", id)}}, nil
}

// watch reports the gateway's share when it changes, until the context ends. While etcd
// does not respond the share stays as it is.
func (g *Gateways) watch(ctx context.Context, tell func(Share)) {
	g.use(ctx, func(c *clientv3.Client) { g.run(ctx, c, tell) })
}

// run announces and counts until the context ends, or until a new client is needed.
func (g *Gateways) run(ctx context.Context, c *clientv3.Client, tell func(Share)) {
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	watching.Go(func() { crash.Keep(watch, g.logger, func() { g.notify(watch, c, changed) }) })
	var err error // of the last renewal
	renew := time.NewTimer(0)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			if err == nil { // else the lease ends it, and the exit does not wait
				g.leave(context.WithoutCancel(ctx))
			}
			return
		case <-renew.C:
			var wait time.Duration
			if wait, err = g.step(ctx, c, true); needsNewClient(err) {
				return
			}
			renew.Reset(wait)
		case <-changed:
		}
		g.count(ctx, c, tell)
		select { // others may write without pause
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
}

// notify signals that an entry has changed. A watch that ends is opened again; what it
// missed is found at the next renewal.
func (g *Gateways) notify(ctx context.Context, c *clientv3.Client, changed chan<- struct{}) {
	for ctx.Err() == nil {
		for range c.Watch(clientv3.WithRequireLeader(ctx), g.gateways(), clientv3.WithPrefix(), clientv3.WithFragment()) {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		pause(ctx, retryMost)
	}
}

// count lists the gateways and reports the share if it has changed.
func (g *Gateways) count(ctx context.Context, c *clientv3.Client, tell func(Share)) {
	ids, err := g.list(ctx, c)
	if err != nil {
		if ctx.Err() == nil && g.often.now() {
			g.logger.Warn("the gateways cannot be counted; the last count is kept", "gateways", len(g.known), "error", err.Error())
		}
		for id := range g.known { // an etcd that does not respond confirms nothing
			g.known[id] = time.Time{}
		}
		return
	}
	g.merge(ids, time.Now())
	ids = slices.Sorted(maps.Keys(g.known))
	g.alive.Store(&ids)
	now := g.share()
	if now != g.told {
		g.told = now
		tell(now)
	}
}

// list returns the ids of the announced gateways.
func (g *Gateways) list(ctx context.Context, c *clientv3.Client) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	resp, err := c.Get(ctx, g.gateways(), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(rotation.MaxGateways))
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	var ids []string
	for _, kv := range resp.Kvs {
		id := strings.TrimPrefix(string(kv.Key), g.gateways())
		// An entry without a lease would count for ever.
		if kv.Lease != 0 && id != "" && rotation.IsText(id, rotation.MaxID) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// merge updates the known gateways. One that is missing for as long as the TTL is removed.
// This gateway is always one of them.
func (g *Gateways) merge(ids []string, now time.Time) {
	there := make(map[string]bool, len(ids))
	for _, id := range ids {
		there[id] = true
	}
	for id, since := range g.known {
		switch {
		case id == g.id || there[id]:
			g.known[id] = time.Time{}
		case since.IsZero():
			g.known[id] = now
		case now.Sub(since) >= g.ttl:
			delete(g.known, id)
		}
	}
	for _, id := range ids {
		if _, known := g.known[id]; !known && len(g.known) < rotation.MaxGateways {
			g.known[id] = time.Time{}
		}
	}
}

func (g *Gateways) share() Share {
	ids := slices.Sorted(maps.Keys(g.known))
	rank, _ := slices.BinarySearch(ids, g.id)
	return Share{Gateways: len(ids), Rank: rank}
}
