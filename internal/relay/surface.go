package relay

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
)

// serveSurface answers what needs no upstream.
func (r *Relay) serveSurface(s *State, w http.ResponseWriter, req *http.Request) {
	dialect := dialectOf(req)
	w.Header()[requestIDHeader(dialect)] = []string{uuid.NewString()}
	path := req.URL.Path
	switch path {
	case "/live":
		writeJSON(w, http.StatusOK, []byte(`{"status":"live"}`))
		return
	case "/health":
		r.serveHealth(w)
		return
	}
	caller, err := s.Keys.Check(req)
	if err != nil {
		r.refuse(w, dialect, err)
		return
	}
	if _, found, err := gemini.ParsePath(req.Method, req.URL.EscapedPath()); found && err != nil {
		r.refuse(w, dialect, err)
		return
	}
	id, isModel := modelID(req.URL)
	switch {
	case !isModel && path != "/dynamo/alpha/list-models":
		r.refuse(w, dialect, noSuchPath(req))
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		r.refuse(w, dialect, wrongMethod(req, "GET"))
	case isModel && id == "":
		writeJSON(w, http.StatusOK, modelLists[dialect].list(s, s.visible(caller)))
	case isModel:
		r.serveModel(s, w, dialect, caller, id)
	default:
		writeJSON(w, http.StatusOK, listForDynamo(s.visible(caller)))
	}
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
func (r *Relay) refuse(w http.ResponseWriter, dialect protocol.Name, err *llm.Error) {
	c := r.codecs[dialect]
	setRetryAfter(w.Header(), err)
	writeJSON(w, c.ErrorStatus(err), c.EncodeError(err))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // G705: it is JSON and says so, and a client that went away is told nothing
}
