package exchange

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/upstream"
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
