package models

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/edge/welcome"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Surface serves the endpoints without an upstream: probes, the first page and the lists of models.
type Surface struct {
	View
	Dialects *ingress.Table
	Keys     interface {
		Check(r *http.Request) (access.Caller, *llm.Error)
	}
	BasePath string // of client paths
	Draining bool   // the gateway is shutting down
	Usage    bool   // there is the page My usage
}

// Serve serves a request. It reports false if the path is not one of these endpoints.
func (s *Surface) Serve(w http.ResponseWriter, req *http.Request) bool {
	dialect, reads := s.Dialects.Claimed(req), req.Method == http.MethodGet || req.Method == http.MethodHead
	list, id, ok := s.Dialects.ModelList(req.URL.Path, dialect)
	live, probe := ingress.Probe(req.URL.Path)
	first := req.URL.Path == "/" && reads // the first page
	if !ok && !probe && !first {
		return false
	}
	w.Header()[ingress.RequestIDHeader(dialect)] = []string{uuid.NewString()}
	if probe {
		ingress.ServeProbe(w, live, s.Draining)
		return true
	}
	caller, err := s.Keys.Check(req)
	switch {
	case first && (err == nil || err.Kind == llm.Authentication && err.Code == ""): // it is shown without a key
		page := welcome.Page{BasePath: s.BasePath, NeedsKey: err != nil, Setups: s.Dialects.Setups(), Usage: s.Usage}
		if err == nil {
			page.Models = s.List(req.Context(), caller.Sees)
		}
		page.Serve(w, req)
	case err != nil:
		refuse(w, dialect, err)
	case !reads:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, dialect, ingress.WrongMethod(req, "GET"))
	case id == "":
		writeJSON(w, http.StatusOK, list.List(s.List(req.Context(), caller.Sees)))
	default:
		m, ok := s.Find(id)
		if !ok || !caller.Sees(id) {
			refuse(w, dialect, s.NotFound(id, caller.Sees))
			return true
		}
		writeJSON(w, http.StatusOK, list.One(m))
	}
	return true
}

func refuse(w http.ResponseWriter, dialect *codec.Dialect, err *llm.Error) {
	exchange.SetRetry(w.Header(), err)
	writeJSON(w, dialect.Codec.ErrorStatus(err), dialect.Codec.EncodeError(err))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // G705: it is JSON and says so, and a client that went away is told nothing
}
