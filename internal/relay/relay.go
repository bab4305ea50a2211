// Package relay is the request path, from the client's socket to the upstream's
// and back. It reads from top to bottom:
//
//	identify who is it
//	accept   read the body and index it
//	admit    may they, and is there room
//	plan     which upstreams, and in which order
//	recall   was it answered before
//	reserve  what it may cost
//	attempt  one try upstream: its body, its call, its first sign of an answer
//	answer   write to the client
//	record   count it, log it, once
//
// An attempt that fails before the client has seen anything of an answer may be
// followed by another: serve.go decides.
//
// Where client and upstream speak the same dialect, bytes are relayed and not
// decoded: the request is edited only where the configuration says so, and the
// answer passes unchanged while a tap reads usage, finish reason and errors from
// it. Where they do not, translate.go takes both through the neutral model.
package relay

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/balance"
	"github.com/isogloss-gateway/isogloss/internal/capture"
	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// State is what a configuration amounts to on the request path. It does not
// change; a new configuration is a new State, and a request keeps the one that
// it began with.
type State struct {
	Routes    *route.Table
	Keys      Keys
	Books     Books
	Paths     map[provider.Path]*provider.Provider // listed extra paths
	Limits    Limits
	KeepAlive time.Duration // comment lines on idle streams; 0 sends none
	Fidelity  llm.Mode      // what is done about losses between dialects; empty means llm.Default
	Retries   Retries
	Overload  limit.Config
	Gates     *provider.Gates
	Created   time.Time // what GET /v1/models reports
}

// Keys knows who sends a request, or why it is not admitted.
type Keys interface {
	Check(r *http.Request) (access.Caller, *llm.Error)
}

// Retries bound what is done for a request that an upstream has failed.
type Retries struct {
	Attempts int // in all; less than two means that nothing is tried again
}

// Limits bound what comes from outside, in bytes.
type Limits struct {
	Body   int64 // a request's body
	Event  int64 // one server-sent event
	Answer int64 // an answer that is held whole

	// Conversations are what is kept of them for clients that name what was said
	// before; 0 keeps nothing.
	Conversations int64
}

// Relay serves the data path.
type Relay struct {
	codecs     map[protocol.Name]protocol.Translator
	observer   *observe.Observer
	transports *transports
	live       *live
	seals      *sealStore
	past       *pastStore
	watcher    Watcher // nil: nobody ever looks on
	state      atomic.Pointer[State]
	draining   atomic.Bool
}

// New returns a relay without a state: it is not ready until Use was called.
func New(codecs []protocol.Translator, observer *observe.Observer) *Relay {
	r := &Relay{codecs: map[protocol.Name]protocol.Translator{}, observer: observer, transports: newTransports(), live: newLive(), seals: newSealStore(), past: newPastStore()}
	for _, c := range codecs {
		r.codecs[c.Name()] = c
	}
	observer.Watch(r.snapshot)
	return r
}

// Use makes a state the one that further requests begin with.
func (r *Relay) Use(s *State) {
	r.live.bind(s)
	r.state.Store(s)
}

// Drain makes /health say that no more requests should be sent here.
func (r *Relay) Drain() { r.draining.Store(true) }

// Close ends the checks of targets and lets go of idle upstream connections.
func (r *Relay) Close() {
	r.live.fleet.Close()
	r.transports.close()
}

// ServeHTTP finds what a path is for. Requests to models go through the steps of
// exchange; the rest of the surface is in surface.go.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s := r.state.Load()
	if x := r.open(s, w, req); x != nil {
		r.exchange(x)
		return
	}
	r.serveRest(s, w, req)
}

// serveRest serves what does not lead to a model.
func (r *Relay) serveRest(s *State, w http.ResponseWriter, req *http.Request) {
	// A path that is not written as everyone writes it (%2F for a slash) is not
	// the one that was listed.
	if p, ok := s.Paths[provider.Path{Method: req.Method, Path: req.URL.Path}]; ok && req.URL.RawPath == "" {
		r.forward(s, p, w, req)
		return
	}
	(&output{rc: http.NewResponseController(w)}).hurry()
	r.serveSurface(s, w, req)
}

// exchange is one request to a model. A stream waits below it, and thousands do:
// what stands on the stack from here on is kept small, so that 8 KiB are enough,
// and that a stack which had to be larger for a while is made smaller again. That
// is done where less than a quarter of it is in use, see TestWaitingStream.
func (r *Relay) exchange(x *exchange) {
	defer r.record(x)
	done, err := r.ready(x)
	if err == nil && !done {
		err = r.serve(x)
	}
	if err != nil {
		r.fail(x, err)
	}
}

// ready takes the steps before anybody is asked. It reports whether nobody need be.
func (r *Relay) ready(x *exchange) (done bool, err *llm.Error) {
	for _, step := range [...]func(*exchange) *llm.Error{r.identify, r.accept, r.admit, r.plan} {
		if err := step(x); err != nil {
			return false, err
		}
	}
	if done, err = r.recall(x); done || err != nil {
		return done, err
	}
	return false, r.reserve(x)
}

// exchange carries what a request has gathered on its way: what is true of it
// whoever answers, and the attempt that is under way.
type exchange struct {
	state     *State
	endpoint  endpoint
	dialect   protocol.Translator // the client's
	client    *http.Request
	out       *output
	seen      *observe.Exchange
	ctx       context.Context // ends when the client goes away
	caller    access.Caller
	class     limit.Class
	permit    limit.Permit // for the exchange, given back at its end
	ask       *projection
	named     *named // nil where the request says all by itself
	route     *route.Route
	line      []candidate     // who can be asked, in the order in which they are
	session   balance.Session // what it shares with others
	skipped   []trial         // who is not, and why
	trials    []trial         // what came of the attempts that failed
	taken     limit.Permit    // for the next attempt
	began     time.Time       // when the first attempt was made
	unwritten *llm.Error      // why the request could not be written for the first target
	cut       bool            // the answer broke off where its form has no way to say so
	account   *account        // nil where nothing is counted
	memory    memory
	tape      *capture.Tape // nil where nobody looks on

	*attempt
	first   attempt      // most exchanges need only this one
	nearest [2]candidate // and no more than these
}

// attempt is one try upstream, with what was made for it and what came of it.
type attempt struct {
	target   route.Target
	speaks   protocol.Translator // the upstream's dialect
	call     context.Context     // ends with the client's, or when a limit is reached
	hangUp   context.CancelCauseFunc
	body     []byte // what the upstream is sent
	path     string // where, after its base URL
	upstream *http.Response
	idle     *time.Timer // hangs up when the upstream is silent for too long
	reading  atomic.Pointer[timely]
	total    *time.Timer // hangs up when the exchange has lasted for too long
	tap      protocol.Tap
	place    limit.Permit
	busy     bool       // the target's live state counts it
	asked    time.Time  // when it was sent
	heard    time.Time  // when the answer's headers came
	early    *llm.Usage // what was told before anything was said
	streams  bool       // the upstream was asked for a stream
	refused  bool       // the upstream's status is that of an error
	hide     bool       // usage was asked for by us: the client does not see its event
	fidelity string

	translation *translation // nil in the verbatim lane
	taped       *capture.Try // nil where nobody looks on
}

// open begins an exchange where a request's path leads to a model.
func (r *Relay) open(s *State, w http.ResponseWriter, req *http.Request) *exchange {
	e, ok := endpointOf(req)
	if !ok {
		return nil
	}
	return r.begin(s, e, w, req)
}

func (r *Relay) begin(s *State, e endpoint, w http.ResponseWriter, req *http.Request) *exchange {
	id := uuid.NewString() // requirement 130 of the seeds: version 4
	ctx, seen := r.observer.Begin(req.Context(), id, e.name, string(e.dialect), req.Header)
	x := &exchange{state: s, endpoint: e, dialect: r.codecs[e.dialect], ctx: ctx, client: req, seen: seen,
		out: newOutput(w, requestIDHeader(e.dialect), id)}
	x.attempt = &x.first
	x.fidelity = exact
	return x
}
