package exchange

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Upstream and client headers are built from these lists, never copied and pruned, so
// that unknown headers are not forwarded.

// upstreamHeaders are the client's headers that are sent to every provider.
var upstreamHeaders = []string{"Accept", "Content-Type", idempotencyKey, "X-Client-Request-Id"}

const idempotencyKey = "Idempotency-Key"

// UpstreamHeaders returns the client's headers that are sent to every provider, and those
// in more.
func (c *Call) UpstreamHeaders(more http.Header) http.Header {
	h := make(http.Header, 8)
	for _, n := range upstreamHeaders {
		if v := c.Client.Header[n]; len(v) > 0 {
			h[n] = v
		}
	}
	if keys := h[idempotencyKey]; c.CallerID != "" && len(keys) > 0 {
		h[idempotencyKey] = []string{upstreamKey(c.CallerID, keys[0])}
	}
	h[hopsHeader] = hops[min(c.hops(), maxHops-1)]
	maps.Copy(h, more)
	return h
}

// hopsHeader is the header with the number of gateways that a request has passed. It ends
// loops: of gateways whose providers lead back to them.
const hopsHeader = "Isogloss-Hops"

// maxHops is the number of gateways that a request may pass.
const maxHops = 4

// hops are the values of hopsHeader.
var hops = [maxHops][]string{{"1"}, {"2"}, {"3"}, {"4"}}

// hops returns the number of gateways that the request has passed. A value that no gateway
// sends counts as too many.
func (c *Call) hops() int {
	sent := c.Client.Header[hopsHeader]
	if len(sent) == 0 {
		return 0
	}
	i := slices.IndexFunc(hops[:], func(v []string) bool { return slices.Equal(v, sent) })
	if i < 0 {
		return maxHops
	}
	return i + 1
}

// CheckHops rejects a request that has passed too many gateways. No gateway retries the
// status.
func (c *Call) CheckHops() *llm.Error {
	if c.hops() < maxHops {
		return nil
	}
	return &llm.Error{Kind: llm.InvalidRequest, Code: "loop_detected",
		Message: "the request has passed " + strconv.Itoa(maxHops) + " gateways; check that no provider's base_url leads back to a gateway"}
}

// upstreamKey returns the Idempotency-Key of an upstream request. It depends on the caller:
// callers share the provider's credential, and the upstream would send the response of one
// to another that chose the same key.
func upstreamKey(caller, key string) string {
	m := hmac.New(sha256.New, []byte(caller))
	_, _ = m.Write([]byte(key)) // a hash never fails
	return hex.EncodeToString(m.Sum(nil))
}

// clientHeaders are the provider's headers that are sent to every client.
var clientHeaders = []string{"Retry-After", "Retry-After-Ms", shouldRetry}

// shouldRetry is the header by which SDKs decide whether they retry, whatever the status.
const shouldRetry = "X-Should-Retry"

// rateLimits is the prefix of the rate limit headers that most providers send. They pass
// between dialects of one vendor only.
const rateLimits = "X-Ratelimit-"

// PassesHeader reports whether an upstream header is sent to the client. The lane sets
// Content-Type itself.
func (c *Call) PassesHeader(t *Target, name string) bool {
	if slices.Contains(clientHeaders, name) {
		return true
	}
	own := &c.Dialect.Headers
	if d := t.Dialect; d != nil && d != c.Dialect && (own.Vendor == "" || d.Headers.Vendor != own.Vendor) {
		return false
	}
	if strings.HasPrefix(name, rateLimits) || slices.ContainsFunc(own.RateLimits, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return !c.Limited
	}
	return slices.Contains(own.Response, name)
}

// CopyHeaders copies the upstream headers that the client may see.
func (c *Call) CopyHeaders(h http.Header, t *Target, from http.Header) {
	for n, v := range from {
		if c.PassesHeader(t, n) && !HasPrivate(t.Provider, v...) {
			h[n] = v
		}
	}
}

// resourceName matches a model that is a resource of an AWS account.
var resourceName = regexp.MustCompile(`arn:aws[^\s=]*`)

// HeaderText returns the names of targets without characters that a header cannot hold and
// without the operator's account. If a route is a pattern, the client chooses a part of the
// target's name.
func HeaderText(s string) string {
	const maxLength = 256
	if strings.Contains(s, "arn:") {
		s = resourceName.ReplaceAllString(s, "(arn)")
	}
	odd := func(c rune) bool { return c < ' ' || c > '~' }
	if len(s) <= maxLength && strings.IndexFunc(s, odd) < 0 {
		return s
	}
	return strings.Map(func(c rune) rune {
		if odd(c) {
			return '?'
		}
		return c
	}, s[:min(len(s), maxLength)])
}
