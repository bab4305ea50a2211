package relay

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/llm"
)

// endpoint is a path that leads to a model.
type endpoint struct {
	name    string // in logs and metrics
	path    string // on the gateway, and after the provider's base URL
	collect bool   // a stream of it can be collected into one body
}

var endpoints = map[string]endpoint{
	"/v1/chat/completions": {name: "chat_completions", path: "/v1/chat/completions", collect: true},
	"/v1/completions":      {name: "completions", path: "/v1/completions"},
	"/v1/embeddings":       {name: "embeddings", path: "/v1/embeddings"},
	"/v1/rerank":           {name: "rerank", path: "/v1/rerank"},
}

// serveSurface answers what needs no upstream.
func (r *Relay) serveSurface(s *State, w http.ResponseWriter, req *http.Request) {
	w.Header()["X-Request-Id"] = []string{uuid.NewString()}
	path := req.URL.Path
	switch path {
	case "/live":
		writeJSON(w, http.StatusOK, []byte(`{"status":"live"}`))
		return
	case "/health":
		r.serveHealth(w)
		return
	}
	if err := s.Keys.Check(req); err != nil {
		r.refuse(w, err)
		return
	}
	id, isModel := modelID(req.URL)
	switch {
	case !isModel && path != "/v1/models" && path != "/dynamo/alpha/list-models":
		r.refuse(w, noSuchPath(req))
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		r.refuse(w, wrongMethod(req, "GET"))
	case path == "/v1/models":
		writeJSON(w, http.StatusOK, listModels(s))
	case isModel:
		r.serveModel(s, w, id)
	default:
		writeJSON(w, http.StatusOK, listForDynamo(s))
	}
}

// modelID is the model that a path under /v1/models/ names. Ids may hold slashes,
// written as they are or escaped.
func modelID(u *url.URL) (string, bool) {
	id, ok := strings.CutPrefix(u.Path, "/v1/models/")
	return id, ok && id != ""
}

func (r *Relay) serveHealth(w http.ResponseWriter) {
	if r.draining.Load() {
		writeJSON(w, http.StatusServiceUnavailable, []byte(`{"status":"draining"}`))
		return
	}
	writeJSON(w, http.StatusOK, []byte(`{"status":"ready"}`))
}

func noSuchPath(req *http.Request) *llm.Error {
	return &llm.Error{Kind: llm.NotFound, Code: "unknown_url",
		Message: "there is nothing at " + req.Method + " " + printable(req.URL.Path) + "; a provider's own path is served only where its configuration lists it under paths"}
}

func wrongMethod(req *http.Request, want string) *llm.Error {
	return &llm.Error{Kind: llm.MethodNotAllowed, Message: printable(req.URL.Path) + " takes " + want + ", not " + req.Method}
}

// printable cuts what a client has sent down to what may stand in a message.
func printable(s string) string {
	const most = 128
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, s)
}

// refuse answers a request that never became an exchange.
func (r *Relay) refuse(w http.ResponseWriter, err *llm.Error) {
	setRetryAfter(w.Header(), err)
	writeJSON(w, err.HTTPStatus(), r.codec.EncodeError(err))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // G705: it is JSON and says so, and a client that went away is told nothing
}
