package ingress

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Public is what the configuration sets for the client port. A setting that is not used adds
// nothing to a request.
type Public struct {
	BasePath string         // prefix of all paths
	Origins  []string       // of web pages that may call the gateway; "*" is every origin
	Proxies  []netip.Prefix // whose X-Forwarded-For is believed
}

// Handler adds the settings to a handler.
func (p Public) Handler(h http.Handler) http.Handler {
	if p.BasePath != "" {
		h = underPath(p.BasePath, h)
	}
	if len(p.Origins) > 0 {
		h = cors(p.Origins, h)
	}
	if len(p.Proxies) > 0 {
		h = behindProxies(p.Proxies, h)
	}
	return h
}

// Paths are handlers for exact paths, which come before those of models.
type Paths map[string]http.Handler

// Before returns a handler that serves the paths, and all others with h.
func (p Paths) Before(h http.Handler) http.Handler {
	return &pathsBefore{h, p}
}

type pathsBefore struct {
	rest  http.Handler
	paths Paths
}

func (b *pathsBefore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := b.paths[r.URL.Path]; h != nil && r.URL.RawPath == "" {
		h.ServeHTTP(w, r)
		return
	}
	b.rest.ServeHTTP(w, r)
}

// underPath serves the paths below a prefix, and probes without it.
func underPath(prefix string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(r.URL.Path, prefix)
		if ok && path == "" {
			path = "/"
		}
		if ok && strings.HasPrefix(path, "/") {
			inner := *r
			u := *r.URL
			u.Path, u.RawPath = path, strings.TrimPrefix(r.URL.RawPath, prefix)
			inner.URL = &u
			r = &inner
		} else if _, probe := Probe(r.URL.Path); !probe {
			http.Error(w, "paths of this gateway begin with "+prefix, http.StatusNotFound)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// exposed are the response headers that a web page may read.
const exposed = "X-Request-Id, Request-Id, Retry-After, Isogloss-Target, Isogloss-Attempts, Isogloss-Fidelity, Isogloss-Upstream-Request-Id"

// cors allows web pages of the given origins to call the gateway. "*" is every origin.
// Credentials of the browser are never allowed: a page sends its key in a header.
func cors(origins []string, h http.Handler) http.Handler {
	every := slices.Contains(origins, "*")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header, origin := w.Header(), r.Header.Get("Origin")
		header.Add("Vary", "Origin")
		if origin == "" || !every && !slices.Contains(origins, origin) {
			h.ServeHTTP(w, r)
			return
		}
		header.Set("Access-Control-Allow-Origin", origin)
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			header.Set("Access-Control-Expose-Headers", exposed)
			h.ServeHTTP(w, r)
			return
		}
		header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			header.Set("Access-Control-Allow-Headers", asked)
		}
		header.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	})
}

// behindProxies sets the address of a request that comes from a trusted proxy to the
// client's.
func behindProxies(trusted []netip.Prefix, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if client, ok := forwardedFor(trusted, r); ok {
			inner := *r
			inner.RemoteAddr = netip.AddrPortFrom(client, 0).String()
			r = &inner
		}
		h.ServeHTTP(w, r)
	})
}

// maxForwarded limits the addresses of X-Forwarded-For that are read.
const maxForwarded = 32

// forwardedFor returns the last address in X-Forwarded-For that is not a trusted proxy.
// It reports false if the request does not come from a trusted proxy, or if an address
// cannot be read: then the peer's own address holds.
func forwardedFor(trusted []netip.Prefix, r *http.Request) (netip.Addr, bool) {
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !isTrusted(peer.Addr().Unmap()) {
		return netip.Addr{}, false
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= max(0, len(hops)-maxForwarded); i-- {
		a, err := parseHop(hops[i])
		if err != nil {
			return netip.Addr{}, false
		}
		if !isTrusted(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// parseHop reads an address of X-Forwarded-For. Some proxies add a port.
func parseHop(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	if p, err := netip.ParseAddrPort(text); err == nil {
		return p.Addr().Unmap(), nil
	}
	a, err := netip.ParseAddr(text)
	return a.Unmap(), err
}
