package codec

import (
	"net/http"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// maxRetryAfter is the maximum of RetryAfter.
const maxRetryAfter = 24 * time.Hour

// RetryAfter returns the delay that the headers Retry-After-Ms, X-Ms-Retry-After-Ms (Azure) and
// Retry-After request, at most one day. It returns 0 if there is none. It ignores the date form of
// Retry-After, because a codec reads no clock.
func RetryAfter(h http.Header) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if d, ok := delay(h.Get(name), time.Millisecond); ok {
			return d
		}
	}
	d, _ := delay(h.Get("Retry-After"), time.Second)
	return d
}

func delay(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0) { // also if n is NaN
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(maxRetryAfter))), true
}

// statusOverloaded is Anthropic's status for an overloaded service, which other servers
// use too.
const statusOverloaded = 529

// KindOfStatus returns the kind of an error by its HTTP status. It also returns the status
// to send to the client, or 0 for the default of the kind.
func KindOfStatus(status int) (llm.Kind, int) {
	switch status {
	case http.StatusUnauthorized:
		return llm.UpstreamAuth, 0
	case http.StatusPaymentRequired:
		return llm.Quota, 0
	case http.StatusForbidden:
		return llm.Permission, 0
	case http.StatusNotFound:
		return llm.NotFound, 0
	case http.StatusRequestEntityTooLarge:
		return llm.TooLarge, 0
	case http.StatusTooManyRequests:
		return llm.RateLimit, 0
	case http.StatusServiceUnavailable, statusOverloaded:
		return llm.Overloaded, 0
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return llm.Timeout, 0
	}
	if status >= 400 && status < 500 {
		return llm.InvalidRequest, status
	}
	return llm.Upstream, 0
}

// InvalidResponse is the error of an upstream's response that cannot be decoded.
func InvalidResponse(message string, cause error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: message, Cause: cause}
}

// MaxOpenBlocks limits how many blocks of a stream may be open at once, in dialects in which the upstream numbers
// the blocks.
const MaxOpenBlocks = 1 << 10

// TooManyBlocks is the error of a stream that has more than MaxOpenBlocks open blocks.
func TooManyBlocks() *llm.Error {
	return InvalidResponse("the upstream's response has too many open blocks", nil)
}

// Truncated is the error of a stream that ended before its response was complete.
func Truncated() *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the upstream's stream ended before the response was complete"}
}

// MaxEmbedTexts limits the texts of a translated request for embeddings. OpenAI has the same limit. Without it, many
// empty texts would make a large request, because another dialect writes much more than two quotes for each.
const MaxEmbedTexts = 2048

// TooManyTexts is the error of a request with more than MaxEmbedTexts texts.
func TooManyTexts(param string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "too_many_texts", Param: param, Message: "a request for embeddings of another vendor has at most " + strconv.Itoa(MaxEmbedTexts) + " texts; send several requests"}
}
