// Package access knows who the caller is. Today a caller is whoever holds one of
// the keys in the configuration; with none configured, everyone who can reach
// the loopback interface is one.
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

// Keys is the set of client keys. Digests are compared rather than the keys
// themselves, all of them each time, so that timing tells nothing.
type Keys struct {
	digests [][sha256.Size]byte
}

// NewKeys returns the set of the given keys.
func NewKeys(keys []secret.String) *Keys {
	k := &Keys{}
	for _, s := range keys {
		k.digests = append(k.digests, sha256.Sum256([]byte(s.Reveal())))
	}
	return k
}

// Check admits a request or says why not.
func (k *Keys) Check(r *http.Request) *llm.Error {
	if len(k.digests) == 0 {
		return checkBrowser(r)
	}
	key := presented(r)
	if key == "" {
		return &llm.Error{Kind: llm.Authentication, Message: "no API key was sent; send one as 'Authorization: Bearer KEY', 'x-api-key: KEY' or 'x-goog-api-key: KEY'"}
	}
	got := sha256.Sum256([]byte(key))
	found := 0
	for i := range k.digests {
		found |= subtle.ConstantTimeCompare(got[:], k.digests[i][:])
	}
	if found == 0 {
		return &llm.Error{Kind: llm.Authentication, Message: "this API key is not known to the gateway"}
	}
	return nil
}

// Caller tells one caller from another, without telling their keys.
func Caller(r *http.Request) string {
	sum := sha256.Sum256([]byte(presented(r)))
	return string(sum[:])
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
