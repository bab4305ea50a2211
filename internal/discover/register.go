package discover

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// RegisterOptions configures Register.
type RegisterOptions struct {
	Etcd   EtcdOptions // its Logger is also used here
	Worker Worker
	TTL    time.Duration // of the lease, in whole seconds; default 10 s
	Check  string        // health check URL of the engine, 2xx is healthy; empty: no check
	Every  time.Duration // between two checks, and the timeout of one; default 2 s
	Client *http.Client  // for the checks; default: one that follows no redirects
}

// maxFailedChecks is the number of failed checks in a row after which the worker is removed. A
// single one may fail on a busy machine.
const maxFailedChecks = 2

func (o RegisterOptions) withDefaults() (RegisterOptions, error) {
	o.TTL = cmp.Or(o.TTL, 10*time.Second)
	o.Every = cmp.Or(o.Every, 2*time.Second)
	if o.TTL < 2*time.Second || o.TTL%time.Second != 0 {
		return o, errors.New("register: ttl: it has to be whole seconds, and 2 or more")
	}
	w := o.Worker
	if w.ID == "" || w.Model == "" || w.Protocol == "" || strings.ContainsFunc(w.ID, unprintable) {
		return o, errors.New("register: the worker needs an id, a model and a protocol")
	}
	for name, text := range map[string]string{"url": w.URL, "check": o.Check} {
		if u, err := url.Parse(text); name == "check" && text == "" {
			continue
		} else if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return o, fmt.Errorf("register: %s: write http://host:port or https://host:port", name)
		}
	}
	if o.Client == nil {
		// Without keep-alive, a check also tests whether a new connection can be made.
		o.Client = &http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return o, nil
}

// Register keeps a worker in etcd until the context ends and then removes it. It
// removes the worker while the engine's check fails, and retries while etcd is down: it
// fails only for invalid options.
func Register(ctx context.Context, o RegisterOptions) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	e, err := newEtcd(o.Etcd)
	if err != nil {
		return err
	}
	value, err := json.Marshal(o.Worker)
	if err != nil {
		return err
	}
	r := &registrar{etcd: e, o: o, key: e.workers() + o.Worker.ID, value: value}
	e.use(ctx, func(c *clientv3.Client) { r.run(ctx, c) })
	return nil
}

// registrar maintains one worker in etcd.
type registrar struct {
	*etcd
	o     RegisterOptions
	key   string
	value []byte
	lease clientv3.LeaseID // 0: not registered
	often logInterval
}

// run maintains the worker until the context ends and removes it then, or until a new
// client is needed.
func (r *registrar) run(ctx context.Context, c *clientv3.Client) {
	check, stop := context.WithCancel(ctx)
	health := make(chan bool)
	ended := make(chan struct{})
	go func() { defer close(ended); r.checks(check, health) }()
	defer func() { stop(); <-ended }()

	well := false
	renew := time.NewTimer(0)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			// The client's context has ended, so this needs another one.
			r.leave(context.WithoutCancel(ctx))
			return
		case now := <-health:
			if now == well {
				continue
			}
			well = now
		case <-renew.C:
		}
		wait, err := r.step(ctx, c, well)
		if errors.Is(err, rpctypes.ErrAuthOldRevision) || errors.Is(err, rpctypes.ErrInvalidAuthToken) {
			return // a new client authenticates again
		}
		renew.Reset(wait)
	}
}

// step brings etcd to the wanted state and returns when to look again.
func (r *registrar) step(ctx context.Context, c *clientv3.Client, well bool) (time.Duration, error) {
	var err error
	switch {
	case well && r.lease == 0:
		err = r.enter(ctx, c)
	case well:
		err = r.renew(ctx, c)
	case r.lease != 0:
		if err = r.revoke(ctx, c); err == nil {
			r.etcd.o.Logger.Warn("the engine's check fails; the worker is withdrawn", "worker", r.o.Worker.ID)
		}
	}
	if err != nil {
		if ctx.Err() == nil && r.often.now() {
			r.etcd.o.Logger.Warn("etcd does not take the worker; it is tried again", "worker", r.o.Worker.ID, "error", err.Error())
		}
		return jitter(retryMost / 2), err
	}
	return jitter(r.o.TTL / 4), nil
}

// enter registers the worker under a new lease.
func (r *registrar) enter(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	lease, err := c.Grant(ctx, int64(r.o.TTL/time.Second))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	// The lease is recorded before the key is put: if the context ends meanwhile, the
	// key must still be removed.
	r.lease = lease.ID
	if err := r.put(ctx, c, lease.ID); err != nil {
		return err
	}
	r.etcd.o.Logger.Info("the worker is registered", "worker", r.o.Worker.ID, "model", r.o.Worker.Model, "url", r.o.Worker.URL, "ttl", r.o.TTL.String())
	return nil
}

func (r *registrar) put(ctx context.Context, c *clientv3.Client, lease clientv3.LeaseID) error {
	resp, err := c.Put(ctx, r.key, string(r.value), clientv3.WithLease(lease), clientv3.WithPrevKV())
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if old := resp.PrevKv; old != nil && !bytes.Equal(old.Value, r.value) {
		r.etcd.o.Logger.Warn("another worker was registered by this id and is replaced; ids have to be unique", "worker", r.o.Worker.ID)
	}
	return nil
}

// renew renews the lease and checks that the worker is still registered under it: an
// etcd that was restored may have one without the other.
func (r *registrar) renew(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	alive, err := c.KeepAliveOnce(ctx, r.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || err == nil && alive.TTL <= 0 {
		r.etcd.o.Logger.Warn("the lease was lost; the worker is registered again", "worker", r.o.Worker.ID)
		r.lease = 0
		return r.enter(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("keep alive: %w", err)
	}
	have, err := c.Get(ctx, r.key, clientv3.WithSerializable())
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if len(have.Kvs) == 1 && have.Kvs[0].Lease == int64(r.lease) && bytes.Equal(have.Kvs[0].Value, r.value) {
		return nil
	}
	r.etcd.o.Logger.Warn("the worker's key is gone or changed; it is put again", "worker", r.o.Worker.ID)
	return r.put(ctx, c, r.lease)
}

func (r *registrar) revoke(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	if _, err := c.Revoke(ctx, r.lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke: %w", err)
	}
	r.lease = 0
	return nil
}

// leave removes the worker at the end. If that fails, the end of the lease does it.
func (r *registrar) leave(ctx context.Context) {
	if r.lease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	c, err := r.connect(ctx)
	if err == nil {
		err = r.revoke(ctx, c)
		_ = c.Close() // it is not used again
	}
	if err != nil {
		r.etcd.o.Logger.Warn("the worker could not be taken out; its lease will do so", "worker", r.o.Worker.ID, "error", err.Error())
		return
	}
	r.etcd.o.Logger.Info("the worker has left", "worker", r.o.Worker.ID)
}

// checks reports the result of each check of the engine.
func (r *registrar) checks(ctx context.Context, health chan<- bool) {
	failed := maxFailedChecks // not registered before the first successful check
	for {
		if r.o.Check == "" || r.check(ctx) {
			failed = 0
		} else {
			failed++
		}
		select {
		case <-ctx.Done():
			return
		case health <- failed < maxFailedChecks:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.o.Every):
		}
	}
}

func (r *registrar) check(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, r.o.Every)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.o.Check, nil)
	if err != nil {
		return false
	}
	resp, err := r.o.Client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return err == nil && resp.StatusCode/100 == 2
}
