package discover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// EtcdFacts is what an etcd cluster says of itself.
type EtcdFacts struct {
	Version string
	Members int           // of the configured endpoints
	Reached int           // of them
	Workers int64         // that are registered
	Latency time.Duration // of a read that a majority of the members confirms
}

// ExamineEtcd returns the facts of a cluster. The error says why it cannot serve reads; the facts have what is known in
// spite of that. It registers nothing.
func ExamineEtcd(ctx context.Context, o EtcdOptions) (f EtcdFacts, err error) {
	e, err := newEtcd(o)
	if err != nil {
		return f, err
	}
	f.Members = len(e.o.Endpoints)
	c, err := e.connect(ctx)
	if err != nil {
		return f, err
	}
	defer func() { _ = c.Close() }() // nothing was written
	one, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, endpoint := range e.o.Endpoints {
		asked.Go(func() {
			status, fault := c.Status(one, endpoint)
			mu.Lock()
			defer mu.Unlock()
			if fault != nil {
				err = fmt.Errorf("%s: %w", endpoint, fault)
				return
			}
			f.Reached++
			f.Version = status.Version
		})
	}
	asked.Wait()
	if f.Reached == 0 {
		return f, err
	}
	one, cancel = context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	begun := time.Now()
	list, err := c.Get(one, e.workers(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	switch f.Latency = time.Since(begun); {
	case err != nil && f.Reached*2 <= f.Members:
		return f, errors.Join(ErrNoQuorum, err)
	case err != nil:
		return f, err
	}
	f.Workers = list.Count
	return f, nil
}

// ErrNoQuorum says that the members of etcd that can be reached are no majority.
var ErrNoQuorum = errors.New("the members of etcd that can be reached are no majority")
