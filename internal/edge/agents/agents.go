// Package agents knows the habits of particular clients: where their SDKs put the API key,
// and by which headers they choose versions and beta features.
package agents

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// KeyHint tells a client how to send its key.
const KeyHint = "send one as 'Authorization: Bearer KEY', 'x-api-key: KEY' or 'x-goog-api-key: KEY'"

// signatureHint tells a client that signs its requests how to send a key instead.
const signatureHint = "the request has an AWS signature, which the gateway cannot verify; set AWS_BEARER_TOKEN_BEDROCK to a key of the gateway, " +
	"or turn the signature off and send the key as a header: Claude Code does so with CLAUDE_CODE_SKIP_BEDROCK_AUTH=1 and ANTHROPIC_AUTH_TOKEN"

// HintFor tells the client of a request how to send its key.
func HintFor(r *http.Request) string {
	if strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-") {
		return signatureHint
	}
	return KeyHint
}

// PinnedLeaf tells an operator what a new leaf certificate means for people.
const PinnedLeaf = "people who signed in with Claude Code must sign in again: it accepts only the certificate that they have confirmed"

// Key returns the API key of a request. It reads the headers of every SDK on every path,
// because SDKs of one vendor are used with paths of another. If several are set, x-api-key
// wins. deploy/haproxy/cells.cfg has the same order.
func Key(r *http.Request) string {
	h := r.Header
	if k := h.Get("X-Api-Key"); k != "" {
		return k
	}
	if scheme, k, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(k)
	}
	return cmp.Or(h.Get("X-Goog-Api-Key"), h.Get("Api-Key")) // Google's and Azure's
}

// Credentials returns everything in a request that may be a credential.
func Credentials(r *http.Request) []string {
	h := r.Header
	_, token, _ := strings.Cut(h.Get("Authorization"), " ")
	list := []string{h.Get("X-Api-Key"), h.Get("X-Goog-Api-Key"), h.Get("Api-Key"), strings.TrimSpace(token), r.URL.Query().Get("key")}
	for _, c := range r.Cookies() {
		list = append(list, c.Value)
	}
	return list
}

// WithoutKey removes the parameter in which Google's SDKs send a key from a query and
// leaves the rest as it is. A pair that cannot be read is removed too: a server may read a
// key in it.
func WithoutKey(query string) string {
	pairs := strings.Split(query, "&")
	return strings.Join(slices.DeleteFunc(pairs, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		return err != nil || name == "key" || strings.Contains(pair, ";")
	}), "&")
}

// FeatureHeaders returns the headers by which SDKs choose versions and beta features. None
// of them holds a credential.
func FeatureHeaders() []string { return []string{"Anthropic-Version", "Anthropic-Beta", "Openai-Beta"} }
