package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/secret"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Key is a client's key and what its holder may.
type Key struct {
	Secret      secret.String
	Criticality string // the most that its requests may say of themselves
	Concurrency int    // open requests; 0 is the gateway's own limit
}

// Keys is the set of client keys. Digests are compared rather than the keys
// themselves, all of them each time, so that timing tells nothing.
type Keys struct {
	keys    []Key
	digests [][sha256.Size]byte
}

// NewKeys returns the set of the given keys.
func NewKeys(keys []Key) *Keys {
	k := &Keys{keys: keys}
	for _, key := range keys {
		k.digests = append(k.digests, sha256.Sum256([]byte(key.Secret.Reveal())))
	}
	return k
}

// Check says who sends a request, or why it is not admitted.
func (k *Keys) Check(r *http.Request) (Caller, *llm.Error) {
	key := presented(r)
	got := sha256.Sum256([]byte(key))
	if len(k.digests) == 0 {
		return Caller{ID: string(got[:]), everything: true}, checkBrowser(r)
	}
	if key == "" {
		return Caller{}, errNoKey()
	}
	found := -1
	for i := range k.digests {
		same := subtle.ConstantTimeCompare(got[:], k.digests[i][:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return Caller{}, errWrongKey()
	}
	return Caller{ID: string(got[:]), Criticality: k.keys[found].Criticality, Concurrency: k.keys[found].Concurrency, everything: true}, nil
}

// presented is the key a request carries. Every dialect's header is read on
// every path, because SDKs of one vendor are pointed at paths of another; where
// two differ, x-api-key wins, as it does with the vendor that has both.
func presented(r *http.Request) string {
	h := r.Header
	if k := h.Get("X-Api-Key"); k != "" {
		return k
	}
	if scheme, k, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(k)
	}
	return h.Get("X-Goog-Api-Key")
}

// checkBrowser keeps web pages out of a gateway without keys. A page can point a
// name of its own at 127.0.0.1, but its requests then carry that name; and what
// it sends elsewhere than to its own server carries its origin.
func checkBrowser(r *http.Request) *llm.Error {
	if !local(r.Host) {
		return &llm.Error{Kind: llm.Permission, Code: "host_not_allowed",
			Message: "a gateway without keys answers only to localhost or an IP address; configure keys to serve it under a name"}
	}
	if origin := r.Header.Get("Origin"); origin != "" && !localPage(origin) {
		return &llm.Error{Kind: llm.Permission, Code: "origin_not_allowed",
			Message: "a gateway without keys does not answer web pages; configure keys"}
	}
	return nil
}

// LocalHost reports whether the host that a request names is this machine's own name
// or an address. A page can point a name of its own at 127.0.0.1, but its requests
// then carry that name.
func LocalHost(host string) bool { return local(host) }

// local reports whether a host, with or without a port, is this machine's own
// name or an address.
func local(host string) bool {
	name := withoutPort(host)
	return name == "" || localhost(name) || net.ParseIP(name) != nil
}

// localPage reports whether an origin is a page of this machine. An address alone
// does not make it one: pages are served from addresses too.
func localPage(origin string) bool {
	_, host, ok := strings.Cut(origin, "://")
	name := withoutPort(host)
	return ok && (localhost(name) || net.ParseIP(name).IsLoopback())
}

func localhost(name string) bool {
	name = strings.ToLower(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
