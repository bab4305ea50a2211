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

// RegisterOptions says who is registered, and where.
type RegisterOptions struct {
	Etcd   EtcdOptions // its Logger is used here too
	Worker Worker
	TTL    time.Duration // after which a registrar that died is forgotten, in whole seconds; default 10 s
	Check  string        // URL of the engine that answers 2xx while it is well; empty: it always is
	Every  time.Duration // between two checks, and how long one may take; default 2 s
	Client *http.Client  // for the checks; default: one that follows no redirects
}

// sick is how many checks in a row have to fail before a worker is withdrawn. One
// may be lost on a busy machine.
const sick = 2

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
		// No connection is kept: a check asks whether a new one can be made, too.
		o.Client = &http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return o, nil
}

// Register keeps a worker in etcd until the context ends and then takes it out.
// While the engine's check fails the worker is out, and while etcd is away it is
// tried again: the only error is one of the options.
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

// registrar is one worker's place in etcd.
type registrar struct {
	*etcd
	o     RegisterOptions
	key   string
	value []byte
	lease clientv3.LeaseID // 0: it is out
	often sometimes
}

// run returns when the context ends, after the worker was taken out, or when the
// client has to be made anew.
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
			// The client's context has ended with ours, so this takes another one.
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
			return // a new client logs in anew
		}
		renew.Reset(wait)
	}
}

// step brings etcd to what it should be and says when to look again.
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

// enter puts the worker under a new lease.
func (r *registrar) enter(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	lease, err := c.Grant(ctx, int64(r.o.TTL/time.Second))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	// It is kept before the key is put: whoever leaves while the answer is under way
	// has to take the key out all the same.
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

// renew keeps the lease alive and looks whether the worker is still under it: an
// etcd that was put back to an older state may have the one and not the other.
func (r *registrar) renew(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	alive, err := c.KeepAliveOnce(ctx, r.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || err == nil && alive.TTL <= 0 {
		r.etcd.o.Logger.Warn("the lease was lost; the worker is registered anew", "worker", r.o.Worker.ID)
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

// leave takes the worker out at the end. If that fails, the lease does it.
func (r *registrar) leave(ctx context.Context) {
	if r.lease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	c, err := r.connect(ctx)
	if err == nil {
		err = r.revoke(ctx, c)
		_ = c.Close() // nothing more is asked of it
	}
	if err != nil {
		r.etcd.o.Logger.Warn("the worker could not be taken out; its lease will do so", "worker", r.o.Worker.ID, "error", err.Error())
		return
	}
	r.etcd.o.Logger.Info("the worker has left", "worker", r.o.Worker.ID)
}

// checks says whether the engine is well, whenever it has been asked.
func (r *registrar) checks(ctx context.Context, health chan<- bool) {
	failed := sick // it is not in before it was found to be well
	for {
		if r.o.Check == "" || r.check(ctx) {
			failed = 0
		} else {
			failed++
		}
		select {
		case <-ctx.Done():
			return
		case health <- failed < sick:
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
