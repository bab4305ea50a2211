package codec

import (
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// exceptions maps the exceptions of Amazon's services to kinds. The names are in lower case,
// because event streams write them with a small first letter.
var exceptions = map[string]llm.Kind{
	"validationexception":            llm.InvalidRequest,
	"throttlingexception":            llm.RateLimit,
	"toomanyrequestsexception":       llm.RateLimit,
	"servicequotaexceededexception":  llm.Quota,
	"modelnotreadyexception":         llm.Overloaded,
	"serviceunavailableexception":    llm.Overloaded,
	"modeltimeoutexception":          llm.Timeout,
	"modelerrorexception":            llm.Upstream,
	"modelstreamerrorexception":      llm.Upstream,
	"internalserverexception":        llm.Upstream,
	"internalfailureexception":       llm.Upstream,
	"resourcenotfoundexception":      llm.NotFound,
	"accessdeniedexception":          llm.Permission,
	"unrecognizedclientexception":    llm.UpstreamAuth,
	"invalidsignatureexception":      llm.UpstreamAuth,
	"incompletesignatureexception":   llm.UpstreamAuth,
	"missingauthenticationtoken":     llm.UpstreamAuth,
	"expiredtokenexception":          llm.UpstreamAuth,
	"invalidclienttokenid":           llm.UpstreamAuth,
	"requestentitytoolargeexception": llm.TooLarge,
}

// KindOfException returns the kind of an exception of Amazon's services.
func KindOfException(name string) (llm.Kind, bool) {
	kind, ok := exceptions[strings.ToLower(name)]
	return kind, ok
}

// ExceptionName returns the exception that the headers of a response name, or "".
func ExceptionName(h http.Header) string {
	name, _, _ := strings.Cut(h.Get("X-Amzn-Errortype"), ":") // a URL may follow
	return name
}

// CloudError completes an error with what clouds send outside of the dialect's form. It sets
// the kind from Amazon's exception, because the status may be that of a client's mistake, and
// the retry delay from the headers or from Google's RetryInfo.
func CloudError(e *llm.Error, h http.Header, body []byte) {
	switch kind, _ := KindOfException(ExceptionName(h)); kind {
	case llm.RateLimit, llm.Quota, llm.Overloaded, llm.Timeout, llm.Upstream:
		e.Kind, e.Status = kind, 0
	default: // the dialect's form says more
	}
	if e.RetryAfter = RetryAfter(h); e.RetryAfter > 0 {
		return
	}
	if m := retryInfo.FindSubmatch(body); m != nil {
		e.RetryAfter, _ = delay(string(m[1]), time.Second)
	}
}

// retryInfo matches the delay of google.rpc.RetryInfo.
var retryInfo = regexp.MustCompile(`google\.rpc\.RetryInfo"[^{}]*"retryDelay"\s*:\s*"([0-9.]+)s"`)
