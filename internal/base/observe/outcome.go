package observe

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Outcome says who is responsible for the result of an exchange.
type Outcome string

// The outcomes.
const (
	OK            Outcome = "ok"
	ClientError   Outcome = "client_error"   // the request is invalid, or exceeds the client's limits
	UpstreamError Outcome = "upstream_error" // the upstream failed, refused the gateway or cut its response
	Cancelled     Outcome = "cancelled"      // the client disconnected
	GatewayError  Outcome = "gateway_error"  // a gateway bug, or overload
)

const statusClientClosed = 499 // the status of an exchange whose client disconnected

// lossVerdicts are the verdicts of a translation that lost something.
var lossVerdicts = [...]string{"approximated", "dropped", "refused"}

// verdict is the result of an exchange.
type verdict struct {
	status  int // 0: nothing was sent
	outcome Outcome
	kind    llm.Kind // empty on success
}

// judge returns the verdict on an exchange. heard says that an upstream has responded, so
// that a rate limit or an overload is attributed to the upstream and not to the gateway.
func judge(status, upstreamStatus int, heard bool, err *llm.Error) verdict {
	v := verdict{status: status}
	switch {
	case err != nil:
		v.kind = known(err.Kind)
		if v.status == 0 {
			v.status = err.HTTPStatus()
		}
	case upstreamStatus >= http.StatusBadRequest:
		v.kind = upstreamKind(upstreamStatus)
	case status == statusClientClosed:
		v.kind = llm.Cancelled
	case status == 0 || status >= http.StatusInternalServerError:
		v.kind = llm.Internal // also a panic before the response
	case status >= http.StatusBadRequest:
		v.kind = llm.InvalidRequest
	}
	// A status that an upstream invented must not become a label.
	if v.status < 100 || v.status > 599 {
		v.status = 0
	}
	v.outcome = outcome(v.kind, upstreamStatus, heard)
	return v
}

func outcome(kind llm.Kind, upstreamStatus int, heard bool) Outcome {
	switch kind {
	case "":
		return OK
	case llm.Cancelled:
		return Cancelled
	case llm.Upstream, llm.UpstreamAuth, llm.Timeout:
		return UpstreamError
	case llm.RateLimit, llm.Quota:
		if heard {
			return UpstreamError
		}
		return ClientError
	case llm.Overloaded:
		if heard {
			return UpstreamError
		}
		return GatewayError
	case llm.InvalidRequest, llm.Authentication, llm.Permission, llm.NotFound,
		llm.MethodNotAllowed, llm.TooLarge, llm.UnsupportedMedia, llm.NotSupported:
		return ClientError
	case llm.Internal:
	}
	if upstreamStatus >= http.StatusInternalServerError {
		return UpstreamError
	}
	return GatewayError
}

// known returns the kind, or Internal for an unknown one, so that the labels are
// bounded.
func known(k llm.Kind) llm.Kind {
	switch k {
	case llm.InvalidRequest, llm.Authentication, llm.Permission, llm.NotFound, llm.MethodNotAllowed,
		llm.TooLarge, llm.UnsupportedMedia, llm.NotSupported, llm.RateLimit, llm.Quota, llm.Overloaded, llm.Timeout,
		llm.Upstream, llm.UpstreamAuth, llm.Cancelled, llm.Internal:
		return k
	}
	return llm.Internal
}

// upstreamKind derives a kind from the status alone, for a response that was relayed
// unread.
func upstreamKind(status int) llm.Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return llm.UpstreamAuth
	case http.StatusTooManyRequests:
		return llm.RateLimit
	case http.StatusServiceUnavailable, 529: // 529 is Anthropic's and Dynamo's overload
		return llm.Overloaded
	case http.StatusGatewayTimeout:
		return llm.Timeout
	}
	if status >= http.StatusInternalServerError {
		return llm.Upstream
	}
	return llm.InvalidRequest
}

// causeWord returns a word for a cause. The text of a cause is never logged: it may
// quote an address, a body or a header.
func causeWord(err error) string {
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		tlsE tls.RecordHeaderError
		netE net.Error
	)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection_refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection_reset"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "unreachable"
	case errors.As(err, &dns):
		return "dns"
	case errors.As(err, &cert), errors.As(err, &tlsE):
		return "tls"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &netE) && netE.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "eof"
	}
	return other
}
