package relay

import (
	"cmp"
	"net/http"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/edge/welcome"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// serveSurface serves endpoints without an upstream, such as /health and the model lists.
func (r *Relay) serveSurface(s *State, w http.ResponseWriter, req *http.Request) {
	dialect, reads := r.dialects.Claimed(req), req.Method == http.MethodGet || req.Method == http.MethodHead
	list, id, ok := r.dialects.ModelList(req.URL.Path, dialect)
	live, probe := ingress.Probe(req.URL.Path)
	first := req.URL.Path == "/" && reads // the first page
	if _, _, err := r.dialects.Locate(req); err != nil || !ok && !probe && !first {
		r.serveUnknown(s, w, req, err)
		return
	}
	w.Header()[ingress.RequestIDHeader(dialect)] = []string{uuid.NewString()}
	if probe {
		ingress.ServeProbe(w, live, r.draining.Load())
		return
	}
	caller, err := s.Keys.Check(req)
	switch {
	case first && (err == nil || err.Kind == llm.Authentication && err.Code == ""): // it is shown without a key
		page := welcome.Page{BasePath: s.BasePath, NeedsKey: err != nil, Setups: r.dialects.Setups()}
		if err == nil {
			page.Models = s.Models.List(req.Context(), caller.Sees)
		}
		page.Serve(w, req)
	case err != nil:
		r.refuse(w, dialect, err)
	case !reads:
		w.Header().Set("Allow", "GET, HEAD")
		r.refuse(w, dialect, ingress.WrongMethod(req, "GET"))
	case id == "":
		writeJSON(w, http.StatusOK, list.List(s.Models.List(req.Context(), caller.Sees)))
	default:
		r.serveModel(s, w, dialect, list, caller, id)
	}
}

// unknown is the route of the paths that have no endpoint.
var unknown = protocol.Route{Name: "unknown"}

// serveUnknown rejects and records a request to a path that has no endpoint. err is nil
// if no dialect knows the path.
func (r *Relay) serveUnknown(s *State, w http.ResponseWriter, req *http.Request, err *llm.Error) {
	dialect, likely := r.dialects.Unknown(req)
	q := r.newRequest(s, ingress.Endpoint{Dialect: dialect, Location: protocol.Location{Route: &unknown, URLPath: req.URL.EscapedPath()}}, w, req)
	defer q.record()
	q.sendError(cmp.Or(q.identify(), err, likely))
}

// refuse rejects a request that does not reach the request path.
func (r *Relay) refuse(w http.ResponseWriter, dialect *protocol.Dialect, err *llm.Error) {
	c := dialect.Codec
	exchange.SetRetry(w.Header(), err)
	writeJSON(w, c.ErrorStatus(err), c.EncodeError(err))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // G705: it is JSON and says so, and a client that went away is told nothing
}

func (r *Relay) serveModel(s *State, w http.ResponseWriter, dialect *protocol.Dialect, list *protocol.ModelList, caller access.Caller, id string) {
	m, ok := s.Models.Find(id)
	if !ok || !caller.Sees(id) {
		r.refuse(w, dialect, s.Models.NotFound(id, caller.Sees))
		return
	}
	writeJSON(w, http.StatusOK, list.One(m))
}
