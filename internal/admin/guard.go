package admin

import (
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

// guard lets through who may use a route. It runs before anything of the request but
// its headers is read, for every operation that the API has.
func (s *server) guard(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	c := &call{address: address(r), route: ctx.Operation().OperationID}
	operator, fault := s.Operators.Operator(r)
	if fault != nil {
		s.deny(r, c, refused(fault)).write(w)
		return
	}
	c.operator = operator
	if p := permit(operator, c.route); p != nil {
		s.deny(r, c, p).write(w)
		return
	}
	if ctx.Operation().RequestBody != nil && !isJSON(r) {
		problem(http.StatusUnsupportedMediaType, "content_type", "a body is read as JSON only; send it with 'Content-Type: application/json'").write(w)
		return
	}
	next(huma.WithValue(ctx, callKey{}, c))
}

// isJSON wants the type to be said. A page in a browser cannot say it without asking
// first, and nobody answers that question here.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json" && r.Header.Get("Content-Encoding") == ""
}

// address is where a request comes from, without the port, which tells nothing.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// shield keeps browsers' habits out and makes answers leave no trace: other pages
// cannot send changes, a name that a page points at loopback is not answered, nothing
// is cached and nothing is guessed to be a page.
func (s *server) shield(next http.Handler) http.Handler {
	pages := http.NewCrossOriginProtection()
	pages.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		forbidden("origin_not_allowed", "a page of another origin may not change anything here; send the request from a program, or from a page of this address").write(w)
	}))
	inner := pages.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if s.Loopback && !access.LocalHost(r.Host) {
			forbidden("host_not_allowed", "the admin API on loopback answers only to localhost or an IP address; use one of them, or give it TLS and another address").write(w)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// nowhere answers what no operation does, without reading a body.
func nowhere(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // so that nobody waits for the rest of a body
		if allowed := otherMethods(mux, r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			problem(http.StatusMethodNotAllowed, "method_not_allowed", "this path takes %s; %s lists all paths", strings.Join(allowed, ", "), openapiPath).write(w)
			return
		}
		problem(http.StatusNotFound, "no_such_path", "there is no such path; %s lists them", openapiPath).write(w)
	})
}

// otherMethods are those that a path takes.
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
