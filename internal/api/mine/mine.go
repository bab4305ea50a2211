// Package mine shows clients what they use, and lets people keep their own keys: endpoints of the client port and a page
// over them. Whatever it shows or changes belongs to the client of the request.
package mine

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/api/signin"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Options are what the endpoints need. A *store.Store implements Keys and Audit.
type Options struct {
	Visitors func(r *http.Request) (access.Visitor, *llm.Error)
	SignIn   func() *signin.Server // sessions of browsers
	Keys     Keys
	Ledger   Ledger
	Audit    Audit
	Budgets  func(ctx context.Context, id, org string, accounts []quota.Account) ([]codec.Budget, error)
	Peppers  access.Peppers
	Cell     string         // in the text of new keys; empty: none
	Errors   *codec.Dialect // in whose form errors are
	Logger   *slog.Logger
}

// Keys stores keys.
type Keys interface {
	Key(ctx context.Context, id string) (access.Record, error)
	Keys(ctx context.Context, f store.KeyFilter, after string, limit int) ([]access.Record, error)
	CreateOwnKey(ctx context.Context, r access.Record, most int) error
	RevokeKey(ctx context.Context, id string, at time.Time) (access.Record, error)
	RotateKey(ctx context.Context, id string, next access.Digest, oldUntil time.Time) (access.Record, error)
}

// Ledger has the requests of all clients.
type Ledger interface {
	Usage(ctx context.Context, q store.UsageQuery) ([]store.Sum, error)
	Rows(ctx context.Context, q store.RowQuery) ([]usage.Row, error)
	Refusals(ctx context.Context, q store.RefusalQuery) ([]store.Refused, error)
}

// Audit stores who has changed what.
type Audit interface {
	Audit(ctx context.Context, e store.Entry) error
}

// Bounds of a request.
const (
	timeout  = 5 * time.Second
	slots    = 8 // requests that query the store at once
	maxBody  = 16 << 10
	endpoint = "usage" // name of the endpoints in the scopes of keys
)

// server serves the endpoints and the page.
type server struct {
	Options
	slots chan struct{}
}

// Before returns a handler that serves the endpoints and the page, and everything else with rest.
func Before(o Options, rest http.Handler) http.Handler {
	s := &server{o, make(chan struct{}, slots)}
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /v1/key": s.showKey, "POST /v1/key": s.createKey, "DELETE /v1/key/{id}": s.revokeKey,
		"POST /v1/key/{id}/rotate": s.rotateKey, "GET /v1/usage": s.showUsage,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(h, w, r) })
	}
	mux.HandleFunc("GET "+signin.VisitPath, s.showPage)
	mux.HandleFunc("POST "+signin.VisitPath, s.postPage)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := r.URL.Path
		if p == "/v1/usage" || p == "/v1/key" || strings.HasPrefix(p, "/v1/key/") || p == signin.VisitPath {
			mux.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// handler returns the result of a request.
type handler func(ctx context.Context, v access.Visitor, r *http.Request) (any, *llm.Error)

// serve authenticates a request and writes its result as JSON.
func (s *server) serve(h handler, w http.ResponseWriter, r *http.Request) {
	id := uuid.NewString()
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	out, fault := s.call(h, r)
	if fault != nil {
		if fault.Cause != nil {
			s.Logger.Warn("a client's own usage or keys cannot be shown", "error", fault.Cause, "request", id)
		}
		exchange.SetRetry(w.Header(), fault)
		write(w, s.Errors.Codec.ErrorStatus(fault), s.Errors.Codec.EncodeError(fault))
		return
	}
	status := http.StatusOK
	if _, made := out.(*keyMade); made && !strings.HasSuffix(r.URL.Path, "/rotate") {
		status = http.StatusCreated
	}
	text, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		s.Logger.Error("a client's own usage cannot be written", "error", err)
		status, text = http.StatusInternalServerError, nil
	}
	write(w, status, text)
}

// call authenticates a request and calls a handler, with bounds.
func (s *server) call(h handler, r *http.Request) (any, *llm.Error) {
	v, fault := s.Visitors(r)
	if fault != nil {
		return nil, fault
	}
	if v.Caller.Key == "" {
		return nil, &llm.Error{Kind: llm.NotFound, Code: "no_usage", Message: "the gateway does not record what you use; its operator can give you a key of its store"}
	}
	if fault := v.Caller.MayUse(endpoint); fault != nil {
		return nil, fault
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, unavailable(ctx.Err())
	}
	return h(ctx, v, r)
}

// unavailable is the error of a store that does not respond.
func unavailable(cause error) *llm.Error {
	return &llm.Error{Kind: llm.Overloaded, Code: "store_unavailable", RetryAfter: time.Second, Cause: cause, Message: "the gateway's store is not available; nothing was changed. Try again"}
}

func invalid(param, message string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: param, Message: message}
}

// read decodes the body of a request. A page of another origin cannot declare JSON without a preflight.
func read(r *http.Request, into any) *llm.Error {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
		return invalid("", "the body must be JSON; send it with 'Content-Type: application/json'")
	}
	err := json.UnmarshalRead(r.Body, into, json.RejectUnknownMembers(true))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return invalid("", "the body is larger than 16 KiB")
	case err != nil:
		return invalid("", "the body is not the JSON object that this endpoint expects; its members are in the documentation")
	}
	return nil
}

func write(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) //nolint:gosec // JSON, declared as such; the client may have disconnected
}
