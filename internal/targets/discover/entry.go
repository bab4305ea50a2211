package discover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// entry is a key in etcd under a lease. It is removed when the lease is no longer
// renewed.
type entry struct {
	*etcd
	key    string
	value  []byte
	ttl    time.Duration
	logger *slog.Logger     // names the worker or the gateway
	lease  clientv3.LeaseID // 0: not registered
	failed failures
	often  logInterval
}

// maxFailures is how often a client may fail, one call after the other, before another one replaces it: a client whose
// login was cut short by a restart of etcd can be stuck.
const maxFailures = 3

// errStuck is the last of maxFailures.
var errStuck = errors.New("several calls have failed")

// failures counts the calls that failed, one after the other.
type failures int

// add counts an error and returns it, as errStuck if it is the last of maxFailures.
func (f *failures) add(err error) error {
	if *f++; *f < maxFailures {
		return err
	}
	*f = 0
	return fmt.Errorf("%w: %w", errStuck, err)
}

// needsNewClient reports whether an error may end with a new client.
func needsNewClient(err error) bool {
	return errors.Is(err, rpctypes.ErrAuthOldRevision) || errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, errStuck)
}

// step brings etcd to the wanted state and returns when to look again.
func (e *entry) step(ctx context.Context, c *clientv3.Client, wanted bool) (time.Duration, error) {
	var err error
	switch {
	case wanted && e.lease == 0:
		err = e.enter(ctx, c)
	case wanted:
		err = e.renew(ctx, c)
	case e.lease != 0:
		if err = e.revoke(ctx, c); err == nil {
			e.logger.Warn("the engine's check fails; the worker is withdrawn")
		}
	}
	if err != nil {
		if ctx.Err() == nil && e.often.now() {
			e.logger.Warn("etcd does not take the registration; it is tried again", "key", e.key, "error", err.Error())
		}
		return jitter(retryMost / 2), e.failed.add(err)
	}
	e.failed = 0
	return jitter(e.ttl / 4), nil
}

// enter registers the entry under a new lease.
func (e *entry) enter(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	lease, err := c.Grant(ctx, int64(e.ttl/time.Second))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	// The lease is recorded before the key is put: if the context ends meanwhile, the
	// key must still be removed.
	e.lease = lease.ID
	if err := e.put(ctx, c, lease.ID); err != nil {
		return err
	}
	e.logger.Info("registered in etcd", "key", e.key, "ttl", e.ttl.String())
	return nil
}

func (e *entry) put(ctx context.Context, c *clientv3.Client, lease clientv3.LeaseID) error {
	resp, err := c.Put(ctx, e.key, string(e.value), clientv3.WithLease(lease), clientv3.WithPrevKV())
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if old := resp.PrevKv; old != nil && !bytes.Equal(old.Value, e.value) {
		e.logger.Warn("another worker was registered by this id and is replaced; ids have to be unique")
	}
	return nil
}

// renew renews the lease and checks that the entry is still registered under it: an
// etcd that was restored may have one without the other.
func (e *entry) renew(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	alive, err := c.KeepAliveOnce(ctx, e.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || err == nil && alive.TTL <= 0 {
		e.logger.Warn("the lease was lost; it is registered again")
		e.lease = 0
		return e.enter(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("keep alive: %w", err)
	}
	have, err := c.Get(ctx, e.key, clientv3.WithSerializable())
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if len(have.Kvs) == 1 && have.Kvs[0].Lease == int64(e.lease) && bytes.Equal(have.Kvs[0].Value, e.value) {
		return nil
	}
	e.logger.Warn("the key is gone or changed; it is put again", "key", e.key)
	return e.put(ctx, c, e.lease)
}

func (e *entry) revoke(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	if _, err := c.Revoke(ctx, e.lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke: %w", err)
	}
	e.lease = 0
	return nil
}

// leave removes the entry at the end. If that fails, the end of the lease does it.
func (e *entry) leave(ctx context.Context) {
	if e.lease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	c, err := e.connect(ctx)
	if err == nil {
		err = e.revoke(ctx, c)
		_ = c.Close() // it is not used again
	}
	if err != nil {
		e.logger.Warn("the registration could not be removed; it ends with its lease", "key", e.key, "error", err.Error())
		return
	}
	e.logger.Info("removed from etcd", "key", e.key)
}
