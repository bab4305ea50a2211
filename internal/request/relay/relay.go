// Package relay is the request path, from the client's connection to the upstream's and
// back. It reads from top to bottom:
//
//	identify authenticate the caller
//	accept   read the body and index it
//	admit    check the caller's scopes and take a slot
//	repeat   replay the response to a request with the same Idempotency-Key
//	expand   replace references to stored responses by their contents
//	plan     choose the candidate targets and their order
//	recall   replay a cached response
//	reserve  reserve what the request can cost
//	serve    try one candidate after another; attempt.go is one try
//	fail     send an error in the client's dialect
//	record   charge, meter and log, once
//
// A lane writes the request for a target and delivers the target's response: verbatim
// relays bytes between two sides of one dialect, translate goes through the neutral
// model. An attempt that fails before the client has a part of a response may be
// followed by another; serve.go has that policy.
package relay

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/edge/framing"
	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/lane/translate"
	"github.com/isogloss-gateway/isogloss/internal/request/lane/verbatim"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/request/replay"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// State is an immutable configuration of the request path. A reload creates a new State,
// and a request keeps the one with which it started.
type State struct {
	exchange.Settings
	Routes    *route.Table
	Keys      Keys
	Books     Books
	Paths     map[provider.Path]*provider.Provider // forwarded paths
	KeepAlive time.Duration                        // interval of comment lines on idle streams; 0 sends none
	Retries   exchange.Retries
	Overload  limit.Config
	Models    models.View // of the routes
	BasePath  string      // of client paths
}

// Keys authenticates requests.
type Keys interface {
	Check(r *http.Request) (access.Caller, *llm.Error)
}

// Books holds the ledger, the quotas and the response caches.
type Books struct {
	billing.Books
	replay.Stores
}

// Relay serves the data path.
type Relay struct {
	dialects  *ingress.Table
	observer  *observe.Observer
	client    *upstream.Client
	fleet     *fleet.Fleet
	pins      *conversation.Pins
	Owners    *conversation.Owners // Run keeps them in a store
	responses *conversation.Responses
	verbatim  *verbatim.Lane
	translate *translate.Lane
	watcher   Watcher // nil: capture is disabled
	state     atomic.Pointer[State]
	draining  atomic.Bool
}

// pingInterval is how long a translated stream may be idle, in dialects that have pings.
const pingInterval = 15 * time.Second

// New returns a relay without a state. It is ready after Use.
func New(list []*codec.Dialect, observer *observe.Observer) *Relay {
	r := &Relay{dialects: ingress.NewTable(list), observer: observer, client: upstream.NewClient(), fleet: fleet.New(observer.Logger()),
		pins: conversation.NewPins(), Owners: conversation.NewOwners(), responses: conversation.NewResponses()}
	r.translate = &translate.Lane{Seals: conversation.NewSeals(), Responses: r.responses, Memory: r.fleet.TakeMemory, Ping: pingInterval}
	r.verbatim = &verbatim.Lane{Translate: r.translate}
	r.client.Logger = observer.Logger()
	observer.Watch(r.fleet.Snapshot)
	return r
}

// Use sets the state of further requests. It copies s and binds the routes to their live state.
func (r *Relay) Use(s *State) {
	bound := *s
	bound.Routes = route.New(r.fleet.Bind(s.Routes.Routes(), s.Overload))
	bound.Models.Routes = bound.Routes
	r.responses.SetMaxBytes(s.Limits.Conversations)
	r.state.Store(&bound)
}

// Targets lists the targets of all routes, in the order of the configuration.
func (r *Relay) Targets() []fleet.TargetStatus {
	return r.fleet.Targets(r.state.Load().Routes.Routes())
}

// Models returns the view of the models in use.
func (r *Relay) Models() models.View { return r.state.Load().Models }

// Client returns the connections to upstreams.
func (r *Relay) Client() *upstream.Client { return r.client }

// Drain makes /ready and its other names report that the gateway is shutting down.
func (r *Relay) Drain() { r.draining.Store(true) }

// Close ends the health checks and closes idle upstream connections.
func (r *Relay) Close() {
	r.fleet.Close()
	r.client.Close()
}

// ServeHTTP serves requests to models. Forwarded paths are in forward.go, and endpoints without an upstream in
// models.Surface. Its stack frame is kept small, because open streams
// wait in it.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if q := r.locate(r.state.Load(), w, req); q != nil {
		q.handle()
	} else {
		r.serveRest(w, req)
	}
}

// Run serves a request to a model as the caller that keys returns. It reports false if the
// path is not that of a model endpoint.
func (r *Relay) Run(keys Keys, w http.ResponseWriter, req *http.Request) bool {
	s := *r.state.Load()
	s.Keys = keys
	q := r.locate(&s, w, req)
	if q != nil {
		q.handle()
	}
	return q != nil
}

// locate starts a request if its path is that of a model endpoint. Otherwise it returns
// nil.
//
//go:noinline
func (r *Relay) locate(s *State, w http.ResponseWriter, req *http.Request) *request {
	e, found, err := r.dialects.Locate(req)
	if !found || err != nil {
		return nil
	}
	return r.newRequest(s, e, w, req)
}

// serveRest serves forwarded paths and endpoints without an upstream.
func (r *Relay) serveRest(w http.ResponseWriter, req *http.Request) {
	s := r.state.Load()
	// An escaped path, such as one with %2F for a slash, does not match a listed path.
	if p, ok := s.Paths[provider.Path{Method: req.Method, Path: req.URL.Path}]; ok && req.URL.RawPath == "" {
		r.forward(s, p, w, req)
		return
	}
	exchange.NewClientWriter(w).DiscardBody()
	surface := models.Surface{View: s.Models, Dialects: r.dialects, Keys: s.Keys, BasePath: s.BasePath, Draining: r.draining.Load(), Usage: s.Books.Quotas != nil}
	if _, _, err := r.dialects.Locate(req); err != nil || !surface.Serve(w, req) {
		r.serveUnknown(s, w, req, err)
	}
}

// unknown is the route of the paths that have no endpoint.
var unknown = codec.Route{Name: "unknown"}

// serveUnknown rejects and records a request to a path that has no endpoint. err is nil
// if no dialect knows the path.
func (r *Relay) serveUnknown(s *State, w http.ResponseWriter, req *http.Request, err *llm.Error) {
	dialect, likely := r.dialects.Unknown(req)
	q := r.newRequest(s, ingress.Endpoint{Dialect: dialect, Location: codec.Location{Route: &unknown, URLPath: req.URL.EscapedPath()}}, w, req)
	defer q.record()
	q.sendError(cmp.Or(q.identify(), err, likely))
}

// request is one client request on its way through the steps. The Delivery holds the
// values shared with the lanes: the call, the client's writer, the record and the
// account.
type request struct {
	exchange.Delivery
	call   exchange.Call // the Delivery points to it
	relay  *Relay
	state  *State
	ctx    context.Context // ends when the client disconnects
	caller access.Caller
	class  limit.Class
	slot   limit.Permit // the request's concurrency slot
	memory []func()     // release the memory that a large body takes
	plan
	progress
	replay replay.Replay
	tape   *capture.Recorder // nil if the exchange is not captured
	cut    bool              // the response was truncated and cannot carry an error
}

// progress holds the attempts of a request so far.
type progress struct {
	servedAt  time.Time    // start of the first attempt
	attempt   *attempt     // the current attempt
	nextSlot  limit.Permit // concurrency slot of the next attempt's target
	failed    []failedAttempt
	unwritten *llm.Error // why the request could not be encoded for the first target
	whole     bool       // an upstream refuses to stream the response
	none      attempt    // the current attempt before the first one
}

// newRequest creates the request to an endpoint.
func (r *Relay) newRequest(s *State, e ingress.Endpoint, w http.ResponseWriter, req *http.Request) *request {
	id := uuid.NewString() // version 4, as requirement 130 of docs/evidence/seeds.md demands
	ctx, record := r.observer.Begin(req.Context(), id, e.Name, string(e.Dialect.Name), req.Header)
	q := &request{relay: r, state: s, ctx: ctx}
	q.call = exchange.Call{ID: id, Dialect: e.Dialect, Location: e.Location, Client: req, Settings: &s.Settings}
	q.Delivery = exchange.Delivery{Call: &q.call, Writer: exchange.NewClientWriter(w), Record: record, Path: q}
	q.Writer.SetForm(e.Dialect, e.Location)
	q.Writer.SetCork(framing.CorkOf(req))
	q.Writer.SetHeader(ingress.RequestIDHeader(e.Dialect), id)
	q.attempt = &q.none
	return q
}

// handle runs the steps. Thousands of open streams wait in it, so its stack frame is kept
// small: a waiting stream needs 8 KiB. TestWaitingStream checks that.
func (q *request) handle() {
	defer q.record()
	done, err := q.prepare()
	if err == nil && !done {
		err = q.serve()
	}
	if err != nil {
		q.sendError(err)
	}
}

// prepare runs the steps before the first attempt. done reports whether a stored response
// was sent.
func (q *request) prepare() (done bool, err *llm.Error) {
	for _, step := range [...]func(*request) *llm.Error{(*request).identify, (*request).accept, (*request).admit, (*request).match} {
		if err := step(q); err != nil {
			return false, err
		}
	}
	if done, err = q.repeat(); done || err != nil {
		return done, err
	}
	for _, step := range [...]func(*request) *llm.Error{(*request).expand, (*request).choose} {
		if err := step(q); err != nil {
			return false, err
		}
	}
	if done, err = q.recall(); done || err != nil {
		return done, err
	}
	return false, q.reserve()
}
