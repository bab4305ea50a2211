// Package signals reads from the metrics of inference engines whether they are
// saturated: they have a queue, or their KV cache is nearly full.
//
//	engine := reader.Engine(url, header)  // for each target of a new configuration
//	reader.Keep(urls)                     // the others are no longer read
//	engine.Saturated()                    // for each request
//
// What an engine sends is not trusted. A response is limited in bytes and time,
// redirects are not followed, and values that are impossible or old are ignored. An
// engine can only say that it is saturated, which moves it behind others.
package signals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
)

const (
	usualEvery = 5 * time.Second
	valid      = 3  // intervals after which a value is old
	rest       = 12 // intervals after a failed read

	timeout    = 2 * time.Second // of one read
	maxBody    = 1 << 20         // bytes of one response
	maxOpen    = 16              // reads at once
	maxEngines = 10_000          // engines that are read
)

// Reader reads the metrics of engines. The zero value is ready to use. It is safe for
// concurrent use.
type Reader struct {
	Logger *slog.Logger // of panics; default: no log

	every time.Duration // from the end of one round to the next; 0: 5 s

	mu      sync.Mutex
	engines map[string]*Engine // by URL
	stop    context.CancelFunc // nil: nothing is read yet
	closed  bool
	running sync.WaitGroup
}

// Engine is an engine whose metrics are read. A nil Engine is never saturated.
type Engine struct {
	req   *http.Request
	next  time.Time                 // when it is read again; only the reader's goroutine uses it
	until atomic.Pointer[time.Time] // how long the engine counts as saturated; nil: it is not
}

// Saturated reports whether the engine had a queue or a nearly full KV cache when its
// metrics were last read, unless that was long ago.
func (e *Engine) Saturated() bool {
	if e == nil {
		return false
	}
	until := e.until.Load()
	return until != nil && time.Now().Before(*until)
}

// Engine returns the engine whose metrics are at a URL, and begins to read them with a
// header. It returns nil if the URL's host is not an address: what a name resolves to is
// not checked here. It also returns nil if there are too many engines.
func (r *Reader) Engine(at string, header http.Header) *Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.engines[at]
	if old != nil && maps.EqualFunc(old.req.Header, header, slices.Equal) {
		return old
	}
	if r.closed || old == nil && len(r.engines) >= maxEngines {
		return nil
	}
	u, err := url.Parse(at)
	if err != nil {
		return nil
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil {
		return nil
	}
	if r.stop == nil {
		var ctx context.Context
		ctx, r.stop = context.WithCancel(context.Background())
		r.engines = map[string]*Engine{}
		r.running.Go(func() { r.run(ctx) })
	}
	e := &Engine{req: &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header}}
	r.engines[at] = e
	return e
}

// Keep drops all engines but those at the URLs.
func (r *Reader) Keep(urls map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.engines {
		if !urls[at] {
			delete(r.engines, at)
		}
	}
}

// Close stops reading.
func (r *Reader) Close() {
	r.mu.Lock()
	r.closed = true
	if r.stop != nil {
		r.stop()
	}
	r.mu.Unlock()
	r.running.Wait()
}

// run reads all engines, again and again. Gateways that start together do not read
// together.
func (r *Reader) run(ctx context.Context) {
	every := r.every
	if every == 0 {
		every = usualEvery
	}
	c := client{names: names(), every: every, logger: cmp.Or(r.Logger, slog.New(slog.DiscardHandler)), transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: timeout}).DialContext, MaxIdleConnsPerHost: 1, IdleConnTimeout: valid * every, MaxResponseHeaderBytes: 64 << 10}}
	defer c.transport.CloseIdleConnections()
	wait := time.NewTimer(rand.N(every/5 + 1)) //nolint:gosec // not a secret
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		c.round(ctx, r.due(time.Now()))
		wait.Reset(every - every/10 + rand.N(every/5+1)) //nolint:gosec // not a secret
	}
}

// due returns the engines to read.
func (r *Reader) due(now time.Time) []*Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*Engine
	for _, e := range r.engines {
		if !now.Before(e.next) {
			list = append(list, e)
		}
	}
	return list
}

// client reads metrics.
type client struct {
	transport *http.Transport
	names     map[string]kind
	every     time.Duration
	logger    *slog.Logger
}

// round reads engines, a few at once.
func (c client) round(ctx context.Context, list []*Engine) {
	var reading sync.WaitGroup
	defer reading.Wait()
	slots := make(chan struct{}, maxOpen)
	for _, e := range list {
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		reading.Go(func() {
			defer func() { <-slots }()
			if !crash.Do(c.logger, func() { c.update(ctx, e) }) {
				e.next = time.Now().Add(rest * c.every)
			}
		})
	}
}

// update reads an engine. One that cannot be read is left alone for a while: it may have
// no metrics.
func (c client) update(ctx context.Context, e *Engine) {
	began := time.Now()
	l, err := c.read(ctx, e)
	switch {
	case err != nil:
		e.next = began.Add(rest * c.every) // what was read before grows old
	case l.saturated():
		until := began.Add(valid * c.every)
		e.until.Store(&until)
	default:
		e.until.Store(nil)
	}
}

// read requests the metrics once. It uses the transport directly, which follows no
// redirect and uses no proxy.
func (c client) read(ctx context.Context, e *Engine) (load, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := c.transport.RoundTrip(e.req.WithContext(ctx))
	if err != nil {
		return load{}, err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode != http.StatusOK {
		return load{}, fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return load{}, err
	}
	if len(text) > maxBody {
		return load{}, errors.New("the response is too large")
	}
	return parse(text, c.names)
}
