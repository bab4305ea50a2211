package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Keys is the set of keys of the configuration file. A check compares digests, always all of them,
// so that its time reveals nothing.
type Keys struct {
	keys      []Key
	digests   [][sha256.Size]byte
	wrongKeys *Failures
	tenants   []string
}

// NewKeys returns the set of the given keys.
func NewKeys(keys []Key) *Keys {
	k := &Keys{keys: keys, wrongKeys: NewFailures()}
	for _, key := range keys {
		digest := sha256.Sum256([]byte(key.Secret.Reveal()))
		k.digests, k.tenants = append(k.digests, digest), append(k.tenants, "key:"+hex.EncodeToString(digest[:]))
	}
	return k
}

// Renew returns the set of other keys, for a new configuration. It keeps the counts of wrong
// keys. The receiver may be nil.
func (k *Keys) Renew(keys []Key) *Keys {
	renewed := NewKeys(keys)
	if k != nil {
		renewed.wrongKeys = k.wrongKeys
	}
	return renewed
}

// Check authenticates a client.
func (k *Keys) Check(r *http.Request) (Caller, *llm.Error) {
	key := agents.Key(r)
	if len(k.digests) == 0 {
		got := sha256.Sum256([]byte(key))
		return Caller{ID: string(got[:]), unrestricted: true}, CheckBrowser(r)
	}
	if caller, ok := k.find(key); ok {
		return caller, nil
	}
	return Caller{}, k.wrongKeys.reject(r, key, time.Now())
}

// find returns the caller with a key.
func (k *Keys) find(key string) (Caller, bool) {
	got := sha256.Sum256([]byte(key))
	found := -1
	for i := range k.digests {
		same := subtle.ConstantTimeCompare(got[:], k.digests[i][:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return Caller{}, false
	}
	return Caller{ID: string(got[:]), Criticality: k.keys[found].Criticality, Concurrency: k.keys[found].Concurrency, Tenant: k.tenants[found], unrestricted: true}, true
}

// CheckBrowser rejects web pages where no keys are checked. A page can resolve its own name to
// 127.0.0.1, but its requests carry that name as host. Requests to another server carry the page's
// origin, or, if the page cannot read the response, as with an image, only that they are
// cross-site. A link to the first page is no harm.
func CheckBrowser(r *http.Request) *llm.Error {
	if !isLocalHost(r.Host) {
		return &llm.Error{Kind: llm.Permission, Code: "host_not_allowed",
			Message: "without keys only localhost or an IP address is accepted as host; configure keys to serve the gateway under a name"}
	}
	origin := r.Header.Get("Origin")
	if origin != "" && !isLocalOrigin(origin) || origin == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.URL.Path != "/" {
		return &llm.Error{Kind: llm.Permission, Code: "origin_not_allowed",
			Message: "a gateway without keys does not accept requests of web pages; configure keys"}
	}
	return nil
}

// WithoutPages returns a handler that rejects requests as CheckBrowser does.
func WithoutPages(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := CheckBrowser(r); err != nil {
			http.Error(w, err.Message, err.HTTPStatus())
			return
		}
		h.ServeHTTP(w, r)
	})
}

// WithoutForeignHosts returns a handler that accepts only localhost and IP addresses as host. Unlike
// WithoutPages it accepts links from other sites.
func WithoutForeignHosts(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocalHost(r.Host) {
			http.Error(w, "on loopback only localhost or an IP address is accepted as host; use one of them", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// LocalHost reports whether the host of a request is localhost or an IP address. A page can resolve
// its own name to 127.0.0.1, but its requests carry that name.
func LocalHost(host string) bool { return isLocalHost(host) }

// isLocalHost reports whether a host, with or without a port, is localhost or an IP address.
func isLocalHost(host string) bool {
	name := withoutPort(host)
	return name == "" || isLocalhostName(name) || net.ParseIP(name) != nil
}

// isLocalOrigin reports whether an origin is a page of this machine. A non-loopback address is not:
// pages are served from addresses too.
func isLocalOrigin(origin string) bool {
	_, host, ok := strings.Cut(origin, "://")
	name := withoutPort(host)
	return ok && (isLocalhostName(name) || net.ParseIP(name).IsLoopback())
}

func isLocalhostName(name string) bool {
	name = strings.ToLower(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
