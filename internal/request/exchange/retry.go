package exchange

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
)

// MayRetryElsewhere reports whether another target may succeed: not if the request itself
// is invalid, and not if its total timeout has expired.
func MayRetryElsewhere(err *llm.Error, status int) bool {
	switch err.Kind {
	case llm.Upstream, llm.UpstreamAuth, llm.RateLimit, llm.Quota, llm.Overloaded:
		return true
	case llm.Timeout:
		return err.Code != upstream.CodeTotal
	default:
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusForbidden: // 403 concerns the gateway's credential
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}

// SafeToRetrySameTarget reports whether the upstream certainly does not process the request: it
// was not reached, or it responded with an error. After a timeout or a broken connection it may
// still process it. A rejected credential or an exhausted account would fail again.
func SafeToRetrySameTarget(err *llm.Error, status int, rejected bool) bool {
	switch {
	case err.Kind == llm.UpstreamAuth, err.Kind == llm.Quota:
		return false
	case err.Code == upstream.CodeUnreachable, err.Code == upstream.CodeConnect, err.Code == upstream.CodeCredential:
		return true
	}
	return rejected && status != http.StatusGatewayTimeout
}

// Panicked returns the error of a request that has panicked.
func Panicked() *llm.Error {
	return &llm.Error{Kind: llm.Internal, Message: "the gateway failed on this request; its log has the place"}
}
