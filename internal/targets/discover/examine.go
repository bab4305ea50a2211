package discover

import (
	"context"
	"errors"
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

// ErrNoQuorum says that the members of etcd that can be reached are no majority.
var ErrNoQuorum = errors.New("the members of etcd that can be reached are no majority")

// ExamineEtcd returns the facts of a cluster, and why it cannot serve reads. It registers nothing.
func ExamineEtcd(ctx context.Context, o EtcdOptions) (f EtcdFacts, err error) {
	e, err := newEtcd(o)
	if err != nil {
		return f, err
	}
	c, err := e.connect(ctx)
	if err != nil {
		return f, err
	}
	defer func() { _ = c.Close() }() // nothing was written
	read, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	begun := time.Now()
	list, err := c.Get(read, e.workers(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if f.Latency = time.Since(begun); err == nil {
		f.Workers = list.Count
	}
	f.Members = len(e.o.Endpoints)
	for _, endpoint := range e.o.Endpoints {
		one, cancel := context.WithTimeout(ctx, etcdPatience/2)
		if status, err := c.Status(one, endpoint); err == nil {
			f.Reached++
			f.Version = status.Version
		}
		cancel()
	}
	if err != nil && f.Reached > 0 && f.Reached*2 <= f.Members {
		err = errors.Join(ErrNoQuorum, err)
	}
	return f, err
}
