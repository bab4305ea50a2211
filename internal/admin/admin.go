package admin

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

const (
	prefix      = "/api/v1"
	openapiPath = "/api/openapi.json"

	maxBody     = 64 << 10
	bodyTimeout = 15 * time.Second
	// storeTimeout is far longer than a healthy store needs.
	storeTimeout = 10 * time.Second
)

// server serves the API.
type server struct {
	Options
	routes  []route
	denials denialLog
}

// New returns the API. It serves /api/ and nothing else.
func New(o Options) http.Handler {
	s := newServer(o)
	s.routes = s.allRoutes()
	mux, all := http.NewServeMux(), schemas{}
	for i := range s.routes {
		rt := &s.routes[i]
		rt.describe(all)
		mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, w, r) })
	}
	text, err := document(s.Version, s.routes, all)
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
	name, method, path, summary string
	status                      int // of a successful response
	maxBody                     int64
	in, out                     reflect.Type
	run                         func(ctx context.Context, c *call, read func(in reflect.Value) *Problem) (any, error)

	params                []param
	body, result, problem *schema // body: nil if there is none
}

// handle makes a route from a handler. I is its input, O its result.
func handle[I, O any](name, method, path, summary string, h func(context.Context, *call, *I) (*O, error)) route {
	rt := route{name: name, method: method, path: prefix + path, summary: summary, status: http.StatusOK, maxBody: maxBody, in: reflect.TypeFor[I](), out: reflect.TypeFor[O]()}
	if strings.HasPrefix(name, "create-") {
		rt.status = http.StatusCreated
	}
	timeout := storeTimeout
	if name == "verify-audit" { // reads the whole log
		timeout = time.Minute
	}
	rt.run = func(ctx context.Context, c *call, read func(reflect.Value) *Problem) (any, error) {
		in := new(I)
		if p := read(reflect.ValueOf(in).Elem()); p != nil {
			return nil, p
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return h(ctx, c, in)
	}
	return rt
}

// describe computes the schemas of the route.
func (rt *route) describe(all schemas) {
	rt.params, rt.body = all.describeInput(rt.in)
	rt.result, rt.problem = all.of(rt.out), all.of(reflect.TypeFor[Problem]())
}

// serve authorizes the request and runs it.
func (s *server) serve(rt *route, w http.ResponseWriter, r *http.Request) {
	c, p := s.authorize(rt, r)
	if p != nil {
		p.write(w)
		return
	}
	s.run(rt, c, w, r)
}

// run reads the input of a request, runs the handler and writes the result.
func (s *server) run(rt *route, c *call, w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 { // the operation may take longer than the server's timeout for reading
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a writer without a connection has no deadline
	}
	out, err := rt.run(r.Context(), c, func(in reflect.Value) *Problem { return rt.readInput(w, r, in) })
	if err != nil {
		s.fail(w, r, c, err)
		return
	}
	text, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		s.fail(w, r, c, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(rt.status)
	_, _ = w.Write(text) // the client may have disconnected
}

// fail writes the problem of an error, and logs the cause of a problem that is not the operator's.
func (s *server) fail(w http.ResponseWriter, r *http.Request, c *call, err error) {
	p := asProblem(err)
	if p.cause != nil {
		s.Logger.WarnContext(r.Context(), "admin request failed", "route", c.route, "operator", c.operator.ID, "status", p.Status, "error", p.cause)
	}
	p.write(w)
}
