package admin

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
)

const (
	prefix      = "/api/v1"
	openapiPath = "/api/openapi.json"

	// storeTimeout is far longer than a healthy store needs.
	storeTimeout = 10 * time.Second
)

// server serves the API.
type server struct {
	Options
	routes  []route
	denials denialLog
	runs    limit.PerOwner // by operator
	exports limit.PerOwner
}

// New returns the API. It serves /api/ and nothing else.
func New(o Options) http.Handler {
	s := newServer(o)
	s.routes = s.allRoutes()
	mux, operations := http.NewServeMux(), make([]*openapi.Operation, len(s.routes))
	for i := range s.routes {
		rt := &s.routes[i]
		operations[i] = &rt.Operation
		mux.HandleFunc(rt.Method+" "+rt.Path, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, w, r) })
	}
	text, err := openapi.Document(openapi.Info{
		Title: "Isogloss admin API", Version: s.Version,
		Description: "Keys, teams, organisations, usage, targets, configuration and audit of an Isogloss gateway. Every path needs an operator's key.",
	}, "An operator's key: gw_admin_…", operations...)
	mux.HandleFunc("GET "+openapiPath, func(w http.ResponseWriter, r *http.Request) { // the only route without a key
		if err != nil {
			s.fail(w, r, &call{route: "openapi"}, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // the client may have disconnected
	})
	mux.Handle("/", notFound(mux))
	return s.protect(mux)
}

// newServer returns a server without routes, with the defaults of its options.
func newServer(o Options) *server {
	s := &server{Options: o}
	s.Version = cmp.Or(s.Version, "dev")
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	s.denials.now = s.Now
	return s
}

// call is a request of an operator who may use the route.
type call struct {
	operator access.Record
	address  string
	route    string // name of the operation
}

// route is an operation of the API.
type route struct {
	openapi.Operation
	run func(ctx context.Context, c *call, read func(in any) *openapi.Problem) (any, error)
	// raw replaces run in an operation that writes its response itself. An error means that it has not
	// written one.
	raw func(w http.ResponseWriter, r *http.Request, c *call, read func(in any) *openapi.Problem) error
}

// handle makes a route from a handler. I is its input, O its result.
func handle[I, O any](name, method, path, summary string, h func(context.Context, *call, *I) (*O, error)) route {
	rt := route{Operation: openapi.For[I, O](name, method, prefix+path, summary)}
	if strings.HasPrefix(name, "create-") {
		rt.Status = http.StatusCreated
	}
	timeout := storeTimeout
	if name == "verify-audit" { // reads the whole log
		timeout = time.Minute
	}
	rt.run = func(ctx context.Context, c *call, read func(any) *openapi.Problem) (any, error) {
		in := new(I)
		if p := read(in); p != nil {
			return nil, p
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return h(ctx, c, in)
	}
	return rt
}

// serve authorizes the request and runs it.
func (s *server) serve(rt *route, w http.ResponseWriter, r *http.Request) {
	c, p := s.authorize(rt, r)
	if p != nil {
		p.Write(w)
		return
	}
	s.run(rt, c, w, r)
}

// run reads the input of a request, runs the handler and writes the result.
func (s *server) run(rt *route, c *call, w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 { // the operation may take longer than the server's timeout for reading
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a writer without a connection has no deadline
	}
	read := func(in any) *openapi.Problem { return rt.Read(w, r, in) }
	if rt.raw != nil {
		if err := rt.raw(w, r, c, read); err != nil {
			s.fail(w, r, c, err)
		}
		return
	}
	out, err := rt.run(r.Context(), c, read)
	if err != nil {
		s.fail(w, r, c, err)
		return
	}
	if err := writeJSON(w, rt.Status, out); err != nil {
		s.fail(w, r, c, err)
	}
}

// writeJSON writes a result. An error means that it has not.
func writeJSON(w http.ResponseWriter, status int, out any) error {
	text, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have disconnected
	return nil
}

// fail writes the problem of an error, and logs the cause of a problem that is not the operator's.
func (s *server) fail(w http.ResponseWriter, r *http.Request, c *call, err error) {
	p := asProblem(err)
	if p.Cause != nil {
		s.Logger.WarnContext(r.Context(), "admin request failed", "route", c.route, "operator", c.operator.ID, "status", p.Status, "error", p.Cause)
	}
	p.Write(w)
}
