package discover

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/targets/discover/rotation"
)

// turnLease is how long a worker's state stays after the last change of it.
const turnLease = time.Hour

// etcdTurns keeps the states of workers in etcd, as PREFIXturns/ID.
type etcdTurns struct {
	*etcd
	client *clientv3.Client
	lease  clientv3.LeaseID
	leased time.Time // when the lease began
}

func (e *etcd) turns() string { return e.o.Prefix + "turns/" }

func (e *etcdTurns) List(ctx context.Context) (map[string]rotation.Kept, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	resp, err := e.client.Get(ctx, e.turns(), clientv3.WithPrefix(), clientv3.WithLimit(rotation.MaxStates))
	if err != nil {
		return nil, 0, err
	}
	states := make(map[string]rotation.Kept, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		states[strings.TrimPrefix(string(kv.Key), e.turns())] = rotation.Kept{State: rotation.Read(kv.Value), Revision: kv.ModRevision}
	}
	return states, resp.Header.Revision, nil
}

func (e *etcdTurns) Watch(ctx context.Context, after int64, tell func(worker string, k rotation.Kept)) {
	for resp := range e.client.Watch(clientv3.WithRequireLeader(ctx), e.turns(), clientv3.WithPrefix(), clientv3.WithRev(after+1)) {
		if resp.Err() != nil {
			return
		}
		for _, event := range resp.Events {
			k := rotation.Kept{}
			if event.Type == clientv3.EventTypePut {
				k = rotation.Kept{State: rotation.Read(event.Kv.Value), Revision: event.Kv.ModRevision}
			}
			tell(strings.TrimPrefix(string(event.Kv.Key), e.turns()), k)
		}
	}
}

func (e *etcdTurns) Swap(ctx context.Context, worker string, old rotation.Kept, next rotation.State) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	if time.Since(e.leased) > turnLease/2 {
		lease, err := e.client.Grant(ctx, int64(turnLease/time.Second))
		if err != nil {
			return err
		}
		e.lease, e.leased = lease.ID, time.Now()
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	key := e.turns() + worker
	_, err = e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", old.Revision)).
		Then(clientv3.OpPut(key, string(text), clientv3.WithLease(e.lease))).Commit()
	if err != nil {
		e.leased = time.Time{} // the lease may be gone
	}
	return err
}

// rotate takes part in the turns of workers until the context ends.
func (g *Gateways) rotate(ctx context.Context, d *Discovery) {
	r := &rotation.Rotation{ID: g.id, Slots: g.turns, Fatal: needsNewClient, Logger: g.logger,
		Workers: func(yield func(string, int)) {
			s := &d.status.Load().Snapshot
			for i := range s.Workers {
				if w := &s.Workers[i]; s.Share.TakesTurns(*w) {
					yield(w.ID, w.Capacity)
				}
			}
		},
		Alive: func() []string {
			if ids := g.alive.Load(); ids != nil {
				return *ids
			}
			return nil
		}}
	g.use(ctx, func(c *clientv3.Client) {
		r.Store = &etcdTurns{etcd: g.etcd, client: c}
		r.Run(ctx)
	})
}
