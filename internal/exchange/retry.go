package exchange

import (
	"context"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Overloaded returns the error of a request that gets no slot or no memory.
func Overloaded(why *limit.Refusal) *llm.Error {
	e := &llm.Error{Kind: llm.Overloaded, Code: "overloaded_" + why.Reason, Message: why.Error(), RetryAfter: why.RetryAfter}
	switch why.Reason {
	case limit.Cancelled:
		return upstream.ClientGone(context.Canceled)
	case limit.Key:
		e.Kind, e.Code = llm.RateLimit, "concurrency_limit"
	case limit.TooLarge:
		e.Kind, e.Code = llm.TooLarge, ""
	}
	return e
}

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
