package admin

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// authorize identifies the operator and checks the table of roles. It runs for every route, before the
// body is read.
func (s *server) authorize(rt *route, r *http.Request) (*call, *openapi.Problem) {
	c := &call{address: access.Peer(r), route: rt.Name}
	if p := s.identify(r, c, access.AdminAPI); p != nil {
		return nil, p
	}
	operator := c.operator
	if p := Permit(operator, c.route); p != nil {
		return nil, s.deny(r, c, p)
	}
	if p := rt.checkBody(r); p != nil {
		return nil, p
	}
	return c, nil
}

// checkBody rejects a body that is not declared as JSON.
func (rt *route) checkBody(r *http.Request) *openapi.Problem {
	if !rt.HasBody() || isJSON(r) {
		return nil
	}
	return openapi.NewProblem(http.StatusUnsupportedMediaType, "content_type", "a body must be JSON; send it with 'Content-Type: application/json'")
}

// identify sets the operator of a call, who may use the API.
func (s *server) identify(r *http.Request, c *call, api string) *openapi.Problem {
	operator, fault := s.Operators.Operator(r)
	if fault != nil {
		return s.deny(r, c, refused(fault))
	}
	c.operator = operator
	if fault := operator.MayOperate(api); fault != nil {
		return s.deny(r, c, refused(fault))
	}
	return nil
}

// isJSON reports whether the body is declared as JSON. A page of another origin needs a CORS
// preflight to send this type, and the API answers none.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json" && r.Header.Get("Content-Encoding") == ""
}

// protect keeps browsers out: it refuses changes from pages of other origins and, on loopback,
// unknown host names (DNS rebinding). It disables caching and content sniffing.
func (s *server) protect(next http.Handler) http.Handler {
	pages := http.NewCrossOriginProtection()
	pages.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		forbidden("origin_not_allowed", "pages of another origin may not make changes; send the request from a program, or from a page of this address").Write(w)
	}))
	inner := pages.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if s.Loopback && !access.LocalHost(r.Host) {
			forbidden("host_not_allowed", "on loopback the admin API accepts only localhost or an IP address as host; use one of them, or configure TLS and another address").Write(w)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// notFound answers requests that no route matches, without reading a body.
func notFound(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		openapi.CloseUnread(w, r)
		if allowed := otherMethods(mux, r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			openapi.NewProblem(http.StatusMethodNotAllowed, "method_not_allowed", "this path supports %s; %s lists all paths", strings.Join(allowed, ", "), openapiPath).Write(w)
			return
		}
		openapi.NewProblem(http.StatusNotFound, "no_such_path", "there is no such path; %s lists them", openapiPath).Write(w)
	})
}

// otherMethods returns the methods that a path supports.
func otherMethods(mux *http.ServeMux, r *http.Request) []string {
	var found []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch} {
		other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(other); strings.HasPrefix(pattern, method+" ") {
			found = append(found, method)
		}
	}
	slices.Sort(found)
	return found
}
