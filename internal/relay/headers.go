package relay

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Headers are never copied and then pruned: a new set is built from these lists,
// so that what nobody thought of stays behind.

// upstreamHeaders are a client's headers that a provider may see.
var upstreamHeaders = []string{"Accept", "Content-Type", "Idempotency-Key", "X-Client-Request-Id"}

// dialectHeaders are those that mean something to providers of the same dialect
// only.
var dialectHeaders = map[protocol.Name][]string{
	protocol.OpenAIChat:      {"Openai-Beta"},
	protocol.OpenAIResponses: {"Openai-Beta"},
	protocol.Anthropic:       {"Anthropic-Version", "Anthropic-Beta"},
}

// clientHeaders are a provider's headers that a client may see.
var clientHeaders = []string{
	"Content-Type", "Retry-After", "Retry-After-Ms", "X-Should-Retry",
	"Openai-Model", "Openai-Processing-Ms", "Openai-Version",
}

// anyoneHeaders are those among them that mean the same in every dialect.
var anyoneHeaders = []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry"}

// vendorOf is whose headers a dialect has.
func vendorOf(dialect protocol.Name) protocol.Name {
	if dialect == protocol.OpenAIResponses {
		return protocol.OpenAIChat
	}
	return dialect
}

// tells reports whether a client is told a header of its upstream. The content
// type is that of the bytes: a translated answer has its own.
func (x *exchange) tells(name string) bool {
	if name == "Content-Type" {
		return x.translation == nil
	}
	if x.speaks != nil && vendorOf(x.speaks.Name()) != vendorOf(x.endpoint.dialect) {
		return slices.Contains(anyoneHeaders, name)
	}
	return slices.Contains(clientHeaders, name) || rateLimitHeader(name)
}

// rateLimitHeader reports whether a header is about rate limits; their names
// differ from provider to provider.
func rateLimitHeader(name string) bool {
	return strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Priority-")
}

// copyHeaders copies the listed headers.
func copyHeaders(to, from http.Header, names []string) {
	for _, n := range names {
		if v := from[n]; len(v) > 0 {
			to[n] = v
		}
	}
}

// answerHeaders sets what the client is told about an answer and where it is from.
func (x *exchange) answerHeaders(h http.Header) {
	if x.seen.Target != "" {
		h["Isogloss-Target"] = []string{headerText(x.seen.Target)}
		h["Isogloss-Attempts"] = []string{x.attempts()}
		h["Isogloss-Fidelity"] = []string{x.fidelity}
	}
	if x.translation != nil {
		h["Content-Type"] = []string{"application/json"}
		if x.ask.stream && x.translation.rewrite == nil {
			h["Content-Type"] = []string{"text/event-stream"}
		}
	}
	if x.upstream == nil {
		return
	}
	key := x.target.Provider.Key.Reveal()
	for n, v := range x.upstream.Header {
		if x.tells(n) && !quotes(key, v...) {
			h[n] = v
		}
	}
	if id := x.seen.UpstreamID; id != "" && !quotes(key, id) {
		h["Isogloss-Upstream-Request-Id"] = []string{id}
	}
}

// quotes reports whether one of the values holds the gateway's own credential.
func quotes(key string, values ...string) bool {
	return key != "" && slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, key) })
}

// headerText is text as a header may hold it: where a route is a pattern, a
// target's name is of the client's choice.
func headerText(s string) string {
	const most = 256
	odd := func(c rune) bool { return c < ' ' || c > '~' }
	if len(s) <= most && strings.IndexFunc(s, odd) < 0 {
		return s
	}
	return strings.Map(func(c rune) rune {
		if odd(c) {
			return '?'
		}
		return c
	}, s[:min(len(s), most)])
}

// streamHeaders sets what keeps the proxies in front of us from holding a stream
// back.
func streamHeaders(h http.Header) {
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"}
}

// setRetryAfter tells the client when to come back, in whole seconds.
func setRetryAfter(h http.Header, err *llm.Error) {
	if err.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(err.RetryAfter.Seconds())), 10))
	}
}

// sizeText writes a size as the configuration does.
func sizeText(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "MiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// durationText writes a duration as the configuration does: 2m, not 2m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-len("0s")]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-len("0m")]
	}
	return s
}
