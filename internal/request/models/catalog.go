// Package models lists the models that clients can name. It expands patterns from the
// providers' own lists, adds what is known of each model, and finds the names that a
// mistyped one may stand for. It also serves the endpoints that need no upstream, which
// mostly are about models.
package models

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
	"unicode"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Limits of providers' lists.
const (
	maxAge      = 10 * time.Minute // then a request for a list has it fetched again in the background
	retryAfter  = 30 * time.Second // after a failure
	fetchTime   = 10 * time.Second // of one fetch
	firstWait   = 2 * time.Second  // of a request whose lists were never fetched
	maxBytes    = 8 << 20          // of a list
	maxEntries  = 5000             // of a list
	maxIDLength = 256              // of a model's id in a list
	maxFetches  = 8                // at once
	maxLists    = 256              // in the cache
)

// Catalog caches the model lists of providers. It fetches a list at its first use, and renews
// it in the background.
type Catalog struct {
	transport http.RoundTripper
	dialects  map[protocol.Name]*codec.Dialect
	logger    *slog.Logger
	slots     chan struct{}

	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	lists map[source]*list
}

// source identifies a list: accounts of one vendor have different models.
type source struct {
	protocol protocol.Name
	url      string
	auth     provider.Auth
	key      string
}

// List is the response of a provider to the request for its list.
type List struct {
	Models []codec.Model
	Status int       // 0: there was no response
	Date   time.Time // by the provider's clock; zero: it does not say it
}

// CredentialError is the error of a request that could not be signed, because there is no credential.
type CredentialError struct{ Err error }

func (e *CredentialError) Error() string { return e.Err.Error() }
func (e *CredentialError) Unwrap() error { return e.Err }

// HasList reports whether a provider can list its models.
func (c *Catalog) HasList(p *provider.Provider) bool {
	d := c.dialects[p.Protocol]
	return d != nil && d.UpstreamModels != nil
}

// Examine fetches a provider's list, which the catalog does not use.
func (c *Catalog) Examine(ctx context.Context, p *provider.Provider) (l List, err error) {
	err = crash.Try(c.logger, func() (err error) {
		l, err = c.read(ctx, p, c.dialects[p.Protocol])
		return err
	})
	return l, err
}

// list is the list of one provider. Catalog.mu protects it.
type list struct {
	models  []codec.Model
	byID    map[string]int
	fetched time.Time     // of the last attempt; zero: none ended
	failed  bool          // the last attempt failed; models are those of an earlier one
	busy    chan struct{} // closed when the current attempt ends; nil: there is none
}

// NewCatalog returns a catalog without lists.
func NewCatalog(dialects []*codec.Dialect, transport http.RoundTripper, logger *slog.Logger) *Catalog {
	c := &Catalog{transport: transport, dialects: map[protocol.Name]*codec.Dialect{}, logger: logger, slots: make(chan struct{}, maxFetches), lists: map[source]*list{}}
	for _, d := range dialects {
		c.dialects[d.Name] = d
	}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
}

// Close ends all fetches.
func (c *Catalog) Close() {
	c.end()
	c.running.Wait()
}

// refresh has the lists of providers fetched that are missing or old. It waits for those
// that were never fetched, for a short time.
func (c *Catalog) refresh(ctx context.Context, providers []*provider.Provider) {
	if c == nil {
		return
	}
	var missing []chan struct{}
	c.mu.Lock()
	for _, p := range providers {
		if busy := c.startLocked(p); busy != nil {
			missing = append(missing, busy)
		}
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	for _, busy := range missing {
		select {
		case <-busy:
		case <-ctx.Done():
			return
		}
	}
}

// startLocked starts a fetch if the provider's list is missing or old. It returns the
// channel of a fetch to wait for: that of a list which was never fetched.
func (c *Catalog) startLocked(p *provider.Provider) chan struct{} {
	d := c.dialects[p.Protocol]
	if d == nil || d.UpstreamModels == nil || p.Workers != "" {
		return nil
	}
	key := sourceOf(p, d)
	l := c.lists[key]
	if l == nil {
		if len(c.lists) >= maxLists { // of configurations that were replaced
			clear(c.lists)
		}
		l = &list{}
		c.lists[key] = l
	}
	age := maxAge
	if l.failed {
		age = retryAfter
	}
	if l.busy == nil && (l.fetched.IsZero() || time.Since(l.fetched) > age) && c.ctx.Err() == nil {
		l.busy = make(chan struct{})
		c.running.Go(func() { c.fetch(p, d, l) })
	}
	if l.fetched.IsZero() {
		return l.busy
	}
	return nil
}

func sourceOf(p *provider.Provider, d *codec.Dialect) source {
	key := p.Key.Reveal()
	if p.Cloud != nil {
		key = p.Cloud.Fingerprint()
	}
	return source{p.Protocol, p.URL(d.UpstreamModels.Path).String(), p.Auth, key}
}

// fetch fetches a list and stores it.
func (c *Catalog) fetch(p *provider.Provider, d *codec.Dialect, l *list) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-c.ctx.Done():
	}
	var models []codec.Model
	err := crash.Try(c.logger, func() (err error) {
		models, err = c.get(p, d)
		return err
	}, "provider", p.Name)
	byID := make(map[string]int, len(models))
	for i, m := range models {
		byID[m.ID] = i
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if !l.failed && c.ctx.Err() == nil {
			c.logger.Debug("the provider's model list could not be read", "provider", p.Name, "error", err.Error())
		}
	} else {
		l.models, l.byID = models, byID
	}
	l.failed, l.fetched = err != nil, time.Now()
	close(l.busy)
	l.busy = nil
}

// get reads a provider's list.
func (c *Catalog) get(p *provider.Provider, d *codec.Dialect) ([]codec.Model, error) {
	ctx, cancel := context.WithTimeout(c.ctx, fetchTime)
	defer cancel()
	l, err := c.read(ctx, p, d)
	return l.Models, err
}

// read reads a provider's list. If it fails, the result has what is known of the response.
func (c *Catalog) read(ctx context.Context, p *provider.Provider, d *codec.Dialect) (l List, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL(d.UpstreamModels.Path).String(), http.NoBody)
	if err != nil {
		return l, err
	}
	for _, h := range d.Headers.Request {
		if h.Default != "" {
			req.Header.Set(h.Name, h.Default)
		}
	}
	for name, values := range p.Headers {
		req.Header[name] = values
	}
	if err := p.Sign(ctx, req); err != nil {
		return l, &CredentialError{err}
	}
	resp, err := c.transport.RoundTrip(req) // follows no redirect, which would carry the key elsewhere
	if err != nil {
		return l, err
	}
	defer func() { _ = resp.Body.Close() }() // a close after reading has no useful error
	l.Status = resp.StatusCode
	l.Date, _ = http.ParseTime(resp.Header.Get("Date")) // zero: the server does not say it
	if resp.StatusCode != http.StatusOK {
		return l, fmt.Errorf("status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	if err != nil {
		return l, err
	}
	if len(body) > maxBytes {
		return l, fmt.Errorf("the list is larger than %d MiB", maxBytes>>20)
	}
	models, err := d.UpstreamModels.Read(body)
	l.Models = sane(models)
	return l, err
}

// sane returns the models with usable ids, each once.
func sane(models []codec.Model) []codec.Model {
	seen := map[string]bool{}
	out := models[:0]
	for _, m := range models {
		if printable(m.ID) && !seen[m.ID] && len(out) < maxEntries {
			seen[m.ID] = true
			if !printable(m.Name) {
				m.Name = ""
			}
			out = append(out, m)
		}
	}
	return out
}

// printable reports whether a name can be written into lists and messages.
func printable(s string) bool {
	if s == "" || len(s) > maxIDLength {
		return false
	}
	for _, r := range s {
		if r == unicode.ReplacementChar || r == '*' || !unicode.IsGraphic(r) {
			return false
		}
	}
	return true
}

// known returns the models of a provider's list, or nil if it has none.
func (c *Catalog) known(p *provider.Provider) (models []codec.Model, byID map[string]int) {
	if c == nil {
		return nil, nil
	}
	d := c.dialects[p.Protocol]
	if d == nil || d.UpstreamModels == nil || p.Workers != "" {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lists[sourceOf(p, d)]; l != nil {
		return l.models, l.byID
	}
	return nil, nil
}
