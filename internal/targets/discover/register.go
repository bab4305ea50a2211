package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover/rotation"
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
	if w.ID == "" || w.Model == "" || w.Protocol == "" || !rotation.IsText(w.ID, maxText) {
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
	r := &registrar{o: o, entry: entry{etcd: e, key: e.workers() + o.Worker.ID, value: value, ttl: o.TTL,
		logger: e.o.Logger.With("worker", o.Worker.ID, "model", o.Worker.Model, "url", o.Worker.URL)}}
	e.use(ctx, func(c *clientv3.Client) { r.run(ctx, c) })
	return nil
}

// registrar maintains one worker in etcd.
type registrar struct {
	entry
	o    RegisterOptions
	well bool // the engine's last checks were good; it outlives a client, or the worker would be withdrawn with it
}

// run maintains the worker until the context ends and removes it then, or until a new
// client is needed.
func (r *registrar) run(ctx context.Context, c *clientv3.Client) {
	check, stop := context.WithCancel(ctx)
	health := make(chan bool)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		crash.Keep(check, r.logger, func() { r.checks(check, health) })
	}()
	defer func() { stop(); <-ended }()

	renew := time.NewTimer(0)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			// The client's context has ended, so this needs another one.
			r.leave(context.WithoutCancel(ctx))
			return
		case now := <-health:
			if now == r.well {
				continue
			}
			r.well = now
		case <-renew.C:
		}
		wait, err := r.step(ctx, c, r.well)
		if needsNewClient(err) {
			return
		}
		renew.Reset(wait)
	}
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
