package llm

import (
	"net/http"
	"time"
)

// Kind says what the caller can do about an error. It is an open set: a value
// that is not listed here is treated as Internal.
type Kind string

// The kinds of error.
const (
	InvalidRequest   Kind = "invalid_request" // the request itself is wrong: mend it
	Authentication   Kind = "authentication"  // no key, or a wrong one
	Permission       Kind = "permission"      // a known caller may not do this
	NotFound         Kind = "not_found"       // no such model, no such path
	MethodNotAllowed Kind = "method_not_allowed"
	TooLarge         Kind = "too_large"         // the body is over the limit
	UnsupportedMedia Kind = "unsupported_media" // content type or encoding that is not read
	RateLimit        Kind = "rate_limit"        // later, after RetryAfter
	Quota            Kind = "quota"             // never, until somebody pays
	Overloaded       Kind = "overloaded"        // later, or elsewhere
	Timeout          Kind = "timeout"           // the upstream took longer than it may
	Upstream         Kind = "upstream"          // the upstream failed or cannot be reached
	UpstreamAuth     Kind = "upstream_auth"     // the upstream refused the gateway's own credential
	Cancelled        Kind = "cancelled"         // the client went away
	Internal         Kind = "internal"          // a fault of the gateway
)

// statusClientClosed is nginx's number for a client that went away; it is for
// logs and metrics only, nobody is there to receive it.
const statusClientClosed = 499

var kindStatus = map[Kind]int{
	InvalidRequest:   http.StatusBadRequest,
	Authentication:   http.StatusUnauthorized,
	Permission:       http.StatusForbidden,
	NotFound:         http.StatusNotFound,
	MethodNotAllowed: http.StatusMethodNotAllowed,
	TooLarge:         http.StatusRequestEntityTooLarge,
	UnsupportedMedia: http.StatusUnsupportedMediaType,
	RateLimit:        http.StatusTooManyRequests,
	Quota:            http.StatusTooManyRequests,
	Overloaded:       http.StatusServiceUnavailable,
	Timeout:          http.StatusGatewayTimeout,
	Upstream:         http.StatusBadGateway,
	UpstreamAuth:     http.StatusBadGateway,
	Cancelled:        statusClientClosed,
	Internal:         http.StatusInternalServerError,
}

// ContextLength is the code of a prompt that is too long, by which the codecs know it
// and agents know that they must shorten it. ERR-18
const ContextLength = "context_length_exceeded"

// Error is the one error type that crosses layers. Message is written for the
// client and must hold no secret and no upstream address; Cause is for whoever
// handles the error in code.
type Error struct {
	Kind       Kind
	Status     int    // HTTP status to answer with; 0 means the kind's own
	Code       string // stable machine code such as "model_not_found"; may be empty
	Param      string // the request member at fault; may be empty
	Message    string // what is wrong and what to do about it
	RetryAfter time.Duration
	Relayed    bool // Message is the upstream's own text: it is for the client and never for a log
	Cause      error
}

// Error returns the message, and the cause where there is one.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// HTTPStatus is the status to answer with.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	if s, ok := kindStatus[e.Kind]; ok {
		return s
	}
	return http.StatusInternalServerError
}
