package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Codes of errors that decide about retries.
const (
	CodeTotal       = "timeout_total"
	CodeConnect     = "timeout_connect"
	CodeUnreachable = "upstream_unreachable"
	CodeSilent      = "upstream_silent"
	CodeCredential  = "upstream_credential" //nolint:gosec // the name of an error
)

// credentialError is the error of a request that could not be signed.
type credentialError struct{ err error }

func (e *credentialError) Error() string { return e.err.Error() }
func (e *credentialError) Unwrap() error { return e.err }

// ErrShutdown is the cause with which the server cancels requests that are still
// open at the end of the drain time.
var ErrShutdown = errors.New("the gateway is shutting down")

// Error describes a failure between the gateway and the upstream. The cause with which
// the context ended takes precedence, because a cancelled request fails in many ways.
// Clients of a stream get no status, and coding agents decide by the message whether to
// retry: "connection lost", "ended without", "timeout", "service unavailable".
func (t *RoundTrip) Error(err error) *llm.Error {
	if t.parent.Err() != nil {
		if errors.Is(context.Cause(t.parent), ErrShutdown) {
			return &llm.Error{Kind: llm.Overloaded, Code: "shutting_down", Message: "service unavailable: the gateway is shutting down; send the request again", RetryAfter: time.Second, Cause: err}
		}
		return ClientGone(err)
	}
	limits := t.timeouts
	var dial *net.OpError
	var unsigned *credentialError
	switch cause := context.Cause(t.ctx); {
	case errors.Is(cause, errTotal):
		return timeout(CodeTotal, "the request took longer than "+DurationText(limits.Total), err)
	case errors.Is(cause, errNoFirstToken):
		return timeout("timeout_first_token", "the upstream sent no token within "+DurationText(limits.FirstToken), err)
	case errors.Is(cause, errIdle) && t.Response == nil:
		return timeout("timeout_first_byte", "the upstream sent no response within "+DurationText(limits.FirstByte), err)
	case errors.Is(cause, errIdle):
		return timeout("timeout_idle", "the upstream sent nothing for "+DurationText(limits.Idle), err)
	case errors.As(err, &unsigned):
		return &llm.Error{Kind: llm.Upstream, Code: CodeCredential, Message: "the gateway has no valid credential for the upstream; its operator finds the reason in the log", Cause: err}
	case errors.Is(err, errOwnAddress):
		return &llm.Error{Kind: llm.Upstream, Code: "loop_detected", Message: "the provider's address is that of this gateway; fix its base_url", Cause: err}
	case errors.As(err, &dial) && dial.Op == "dial" && dial.Timeout():
		return timeout(CodeConnect, "no connection to the upstream within "+DurationText(limits.Connect), err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return &llm.Error{Kind: llm.Upstream, Code: CodeUnreachable, Message: "the upstream could not be reached", Cause: err}
	case t.Response != nil:
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "connection lost: the upstream broke off its response", Cause: err}
	case err.Error() == "http2: client connection lost": // net/http has no name for it
		return &llm.Error{Kind: llm.Upstream, Code: CodeSilent, Message: "connection lost: the connection to the upstream went silent before it responded", Cause: err}
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_no_answer", Message: "the upstream closed the connection without a response, or did not send HTTP", Cause: err}
}

// StreamError describes why a stream could not be read to its end. maxEvent is
// the largest event that was allowed.
func (t *RoundTrip) StreamError(err error, maxEvent int64) *llm.Error {
	var long *sse.TooLongError
	if errors.As(err, &long) {
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_event_too_large", Message: "the upstream sent an event larger than limits.event, " + SizeText(maxEvent), Cause: err}
	}
	return t.Error(err)
}

func timeout(code, message string, cause error) *llm.Error {
	return &llm.Error{Kind: llm.Timeout, Code: code, Message: "timeout: " + message, Cause: cause}
}

// ClientGone returns the error of a request whose client has disconnected.
func ClientGone(cause error) *llm.Error {
	return &llm.Error{Kind: llm.Cancelled, Message: "the client disconnected", Cause: cause}
}

// Truncated returns the error of a stream that ended before its response was complete.
func Truncated(cause error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the upstream's stream ended without the rest of the response", Cause: cause}
}

// KindOf maps an upstream's error status to an error kind.
func KindOf(status int) llm.Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return llm.RateLimit
	case status == http.StatusServiceUnavailable, status == 529:
		return llm.Overloaded
	case status == http.StatusGatewayTimeout:
		return llm.Timeout
	case status == http.StatusForbidden:
		return llm.Permission
	case status == http.StatusNotFound:
		return llm.NotFound
	case status < 500:
		return llm.InvalidRequest
	}
	return llm.Upstream
}

// SizeText formats a size as the configuration writes it.
func SizeText(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "MiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// DurationText formats a duration as the configuration writes it: 2m, not 2m0s.
func DurationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-len("0s")]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-len("0m")]
	}
	return s
}
