package exchange

import (
	"net/http"
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Retries is how often a request is tried.
type Retries struct {
	// Maximum number of attempts per request, on all targets; 1 turns retries off.
	// Retries on one provider are also limited to a fifth of its requests.
	Attempts int `key:"attempts" default:"3" minimum:"1" maximum:"10" example:"2"`
	// Whether a request may be sent once more to the same target if its HTTP/2
	// connection went silent before a response. The upstream may have processed the
	// first one, so you may pay for both. The default is false.
	SameTargetUnanswered bool `key:"same_target_unanswered" example:"true"`
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

// ReasonOf returns why an attempt failed: its error status, or the error's code or kind.
func ReasonOf(status int, err *llm.Error) string {
	if status >= http.StatusMultipleChoices {
		return strconv.Itoa(status)
	}
	return billing.FaultOf(err)
}

// Panicked returns the error of a request that has panicked.
func Panicked() *llm.Error {
	return &llm.Error{Kind: llm.Internal, Message: "the gateway failed on this request; its log has the place"}
}
