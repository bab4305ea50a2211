package admin

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

const (
	prefix      = "/api/v1"
	openapiPath = "/api/openapi.json"

	maxBody = 64 << 10
	// patience is how long a store may take. It is far more than one takes that works,
	// and less than people wait.
	patience = 10 * time.Second
	// bodyPatience is longer, because the connection's deadline stays after the body was
	// read, and a request whose connection is past it is cancelled.
	bodyPatience = 15 * time.Second
)

// server is the API with what it works on.
type server struct {
	Options
	denials budget
}

// New returns the API. It serves /api/ and nothing else.
func New(o Options) http.Handler {
	s := &server{Options: o}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	s.denials = budget{now: s.Now}
	mux := http.NewServeMux()
	api := humago.New(mux, settings(o.Version))
	api.UseMiddleware(s.guard)
	for _, r := range s.routes() {
		r.register(s, api)
	}
	s.serveDocument(mux, api)
	mux.Handle("/", nowhere(mux))
	return s.shield(mux)
}

// settings is how the library is used: one strict JSON format, no pages of its own,
// no links in answers.
func settings(version string) huma.Config {
	if version == "" {
		version = "dev"
	}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "Isogloss admin API", Version: version,
				Description: "Keys, teams, organisations, usage, targets, configuration and audit of an Isogloss gateway. Every path needs an operator's key."},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"operator": {Type: "http", Scheme: "bearer", Description: "An operator's key: gw_admin_…"}},
			},
			Security: []map[string][]string{{"operator": {}}},
		},
		Formats:                      map[string]huma.Format{"application/json": strict, "json": strict},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{plain},
	}
}

// serveDocument serves the one thing that needs no key. It tells what is on the page
// of the manual, and programs that write clients want it.
func (s *server) serveDocument(mux *http.ServeMux, api huma.API) {
	schemas := api.OpenAPI().Components.Schemas.Map()
	for _, unused := range []string{"ErrorModel", "ErrorDetail"} { // the library's own; ours is Problem
		delete(schemas, unused)
	}
	document, err := api.OpenAPI().MarshalJSON()
	mux.HandleFunc("GET "+openapiPath, func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			problem(http.StatusInternalServerError, "internal", "the document cannot be written; report this as a fault of the gateway").write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document) // the client may be gone
	})
}

// call is one request of an operator who may use the route.
type call struct {
	operator access.Record
	address  string
	route    string // the name of the operation
}

// callKey is the context's name for the call. The library hands its handlers a
// context and what was sent, so there is no other way from the guard to them; handle
// takes it out again in one place.
type callKey struct{}

// route is one operation and how it is put into the API.
type route struct {
	op       huma.Operation
	register func(*server, huma.API)
}

type handler[I, O any] func(context.Context, *call, *I) (*O, error)

// handle describes an operation.
func handle[I, O any](name, method, path, summary string, h handler[I, O]) route {
	op := huma.Operation{
		OperationID: name, Method: method, Path: prefix + path, Summary: summary,
		MaxBodyBytes: maxBody, BodyReadTimeout: bodyPatience,
	}
	if strings.HasPrefix(name, "create-") {
		op.DefaultStatus = http.StatusCreated
	}
	register := func(s *server, api huma.API) {
		op := op
		op.Responses = map[string]*huma.Response{"default": problemResponse(api)}
		huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
			c, ok := ctx.Value(callKey{}).(*call)
			if !ok {
				return nil, problem(http.StatusUnauthorized, "", "this request has not passed the guard; report this as a fault of the gateway")
			}
			ctx, cancel := context.WithTimeout(ctx, patienceFor(name))
			defer cancel()
			out, err := h(ctx, c, in)
			if err != nil {
				return nil, s.fault(ctx, c, err)
			}
			return out, nil
		})
	}
	return route{op: op, register: register}
}

// patienceFor is how long a request may take.
func patienceFor(route string) time.Duration {
	if route == "verify-audit" { // it reads all of it
		return time.Minute
	}
	return patience
}

// fault is the answer to an error, which is logged where it is not the operator's.
func (s *server) fault(ctx context.Context, c *call, err error) error {
	p := asProblem(err)
	if p.cause != nil {
		s.Logger.WarnContext(ctx, "admin request failed", "route", c.route, "operator", c.operator.ID, "status", p.Status, "error", p.cause)
	}
	return p
}
