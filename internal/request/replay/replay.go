// Package replay stores responses and replays them for requests that repeat an
// Idempotency-Key or match a cached request.
package replay

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/request/cache"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	keyHeader   = "Idempotency-Key"
	cacheHeader = "Isogloss-Cache"
)

// Stores holds the stores of responses.
type Stores struct {
	Responses *cache.Cache // nil: responses are not cached
	Once      *cache.Once  // nil: the upstream handles Idempotency-Key
}

// Caller is the owner of stored responses.
type Caller struct{ Key, Org string }

// Replay finds and records the stored response of one request. The zero value stores
// nothing.
type Replay struct {
	Cached bool // the response is from the cache

	stores Stores
	run    *cache.Run // of the request's Idempotency-Key; nil without one
	store  bool       // the response may be cached
	key    cache.Key  // cache key of the request
	copy   *cache.Recorder
}

// Find returns the response to an earlier request with the same Idempotency-Key, or nil. If there is none
// it starts recording the response that the delivery sends. Call it before references in the body are
// expanded: the key belongs to the bytes that the client sends, and another node may know other responses.
func (p *Replay) Find(ctx context.Context, s Stores, c Caller, r *route.Route, d *exchange.Delivery) (*cache.Response, *llm.Error) {
	p.stores = s
	key := d.Call.Client.Header.Get(keyHeader)
	if c.Key == "" || key == "" || s.Once == nil { // without keys all callers look the same
		return nil, nil
	}
	response, err := p.runOnce(ctx, c, key, r, d)
	if response != nil {
		d.Writer.SetHeader("Idempotent-Replayed", "true")
		d.Result.Recalled = "replay"
	}
	return response, err
}

// FindCached returns the cached response to the request, or nil. If there is none and it may be cached, it
// starts recording the response. Call it after Find.
func (p *Replay) FindCached(ctx context.Context, c Caller, r *route.Route, d *exchange.Delivery) *cache.Response {
	if c.Key == "" || p.stores.Responses == nil {
		return nil
	}
	return p.lookUp(ctx, c, r, d)
}

// runOnce claims an Idempotency-Key, or returns the response of the request that claimed
// it before.
func (p *Replay) runOnce(ctx context.Context, c Caller, key string, r *route.Route, d *exchange.Delivery) (*cache.Response, *llm.Error) {
	v := p.stores.Once.Begin(ctx, cache.Tenant(c.Org, c.Key), c.Key, key, cacheRequest(d.Call, r.Name))
	fault := &llm.Error{Kind: llm.InvalidRequest, Param: keyHeader, RetryAfter: v.RetryAfter}
	switch v.State {
	case cache.First:
		p.run = v.Run
		p.record(p.stores.Once.Recorder(), d)
		return nil, nil
	case cache.Done:
		return v.Response, nil
	case cache.Running:
		fault.Status, fault.Code, fault.Message = http.StatusConflict, "idempotency_running", "a request with this Idempotency-Key is still being answered; wait for it"
	case cache.NoResponse:
		fault.Status, fault.Code, fault.Message = http.StatusConflict, "idempotency_spent",
			"a request with this Idempotency-Key was sent and its response is not stored any more; it may have been charged, so send it again with a new key only if you want it twice"
	case cache.Mismatch:
		fault.Status, fault.Code, fault.Message = http.StatusUnprocessableEntity, "idempotency_mismatch", "this Idempotency-Key was used for another request; use a new one"
	case cache.Invalid:
		fault.Code, fault.Message = "invalid_value", "the Idempotency-Key is not 1 to "+strconv.Itoa(cache.MaxKey)+" printable characters"
	default:
		fault.Kind, fault.Code, fault.Message = llm.Overloaded, "idempotency_unavailable",
			"it cannot be known at present whether this Idempotency-Key was used; try again, or send the request without it"
	}
	return nil, fault
}

// record makes the writer copy the response.
func (p *Replay) record(r *cache.Recorder, d *exchange.Delivery) {
	p.copy = r
	d.Writer.Copy(r)
}

// cacheRequest returns the properties of a request that determine its response.
func cacheRequest(c *exchange.Call, destination string) *cache.Request {
	var betas []string
	for _, rule := range c.Dialect.Headers.Request {
		if rule.Beta {
			betas = append(betas, c.Client.Header.Values(rule.Name)...)
		}
	}
	if mode := c.Client.Header.Get(exchange.ModeHeader); mode != "" {
		betas = append(betas, exchange.ModeHeader+": "+mode)
	}
	return &cache.Request{Endpoint: c.Name, Dialect: string(c.Dialect.Name), Version: c.Version, Path: c.Client.URL.RequestURI(),
		Betas: betas, Route: destination, Body: c.Body.Text()}
}

// lookUp returns a cached response, or starts recording this one.
func (p *Replay) lookUp(ctx context.Context, c Caller, r *route.Route, d *exchange.Delivery) *cache.Response {
	control := cache.ControlOf(d.Call.Client.Header)
	if control == cache.Bypass || !d.Call.Cacheable.Allows(d.Call.Body.All()) || !d.Call.Params.Cacheable() {
		return nil
	}
	p.store, p.key = true, p.stores.Responses.Key(cache.Tenant(c.Org, c.Key), cacheRequest(d.Call, destination(r)))
	if control == cache.Normal {
		if response := p.stores.Responses.Get(ctx, p.key); response != nil {
			p.store, p.Cached, d.Result.Recalled = false, true, "hit"
			d.Writer.SetHeader(cacheHeader, "hit")
			d.Writer.SetHeader("Age", strconv.Itoa(response.Age(time.Now())))
			return response
		}
	}
	d.Writer.SetHeader(cacheHeader, "miss")
	if p.copy == nil {
		p.record(p.stores.Responses.Recorder(), d)
	}
	return nil
}

// destination returns the names of a route's targets and its parameters. A cached response
// is not replayed after they change.
func destination(r *route.Route) string {
	var b strings.Builder
	b.WriteString(r.Name + r.Params.Key())
	for _, t := range r.Targets {
		b.WriteString("\n" + t.String() + " " + t.Provider.BaseURL.String())
	}
	return b.String()
}

// Send sends a stored response.
func Send(a *cache.Response, d *exchange.Delivery) {
	d.Result.Status = a.Status
	d.Path.Charge()
	d.Writer.Start(a.Status, func(h http.Header) {
		maps.Copy(h, a.Header)
		if a.Stream {
			exchange.SetNoBuffering(h)
		} else {
			h["Content-Length"] = []string{strconv.Itoa(len(a.Body))}
		}
	})
	if err := d.Writer.Write(a.Body, time.Now()); err != nil {
		d.Result.Err = upstream.ClientGone(err)
	}
}

// Store stores the recorded response after the request has ended. finish is its finish
// reason. cut says that the response was truncated.
func (p *Replay) Store(d *exchange.Delivery, finish string, cut bool) {
	if p.run == nil && !p.store {
		return
	}
	body, whole := p.copy.Body()
	h := d.Writer.Header()
	a := &cache.Response{Status: d.Result.Status, Body: body, Stream: d.Call.Body.Stream && d.Result.Status == http.StatusOK, At: time.Now(),
		Header: http.Header{"Content-Type": h["Content-Type"], "Isogloss-Target": h["Isogloss-Target"], "Isogloss-Fidelity": h["Isogloss-Fidelity"]}}
	err := d.Result.Err
	if p.store && whole && err == nil && cacheable(d.Target, finish) {
		p.stores.Responses.Put(p.key, a)
	}
	switch {
	case p.run == nil:
	case d.Result.Attempts == 0:
		p.run.Release()
	case whole && !cut && (err == nil || !a.Stream && err.Kind != llm.Cancelled):
		p.run.Finish(a)
	default:
		p.run.FinishWithoutResponse()
	}
}

// cacheable reports whether a response ended with a finish reason that the same request
// would produce again. Embeddings have no finish reason.
func cacheable(t *exchange.Target, finish string) bool {
	if finish == "" {
		return true
	}
	return t.Dialect != nil && slices.ContainsFunc(t.Dialect.Finishes, func(f string) bool { return strings.EqualFold(f, finish) })
}
