package llm

import (
	"net/http"
	"time"
)

// Kind classifies errors by what the caller can do about them. A kind that is not
// listed here is treated as Internal.
type Kind string

// The kinds of error.
const (
	InvalidRequest   Kind = "invalid_request"    // the request is wrong and must be changed
	Authentication   Kind = "authentication"     // the API key is missing or wrong
	Permission       Kind = "permission"         // the caller is known but not allowed to do this
	NotFound         Kind = "not_found"          // the model or path does not exist
	MethodNotAllowed Kind = "method_not_allowed" // the path exists for another HTTP method
	TooLarge         Kind = "too_large"          // the body exceeds the limit
	UnsupportedMedia Kind = "unsupported_media"  // the content type or encoding is not supported
	NotSupported     Kind = "not_supported"      // no target of the model can do this; a retry does not help
	RateLimit        Kind = "rate_limit"         // retry after RetryAfter
	Quota            Kind = "quota"              // the budget is used up; a retry does not help
	Overloaded       Kind = "overloaded"         // retry later, or at another target
	Timeout          Kind = "timeout"            // the upstream exceeded a timeout
	Upstream         Kind = "upstream"           // the upstream failed or cannot be reached
	UpstreamAuth     Kind = "upstream_auth"      // the upstream rejected the gateway's credential
	Cancelled        Kind = "cancelled"          // the client closed the connection
	Internal         Kind = "internal"           // the gateway has a fault
)

// statusClientClosed is the status that nginx logs when the client closes the
// connection. It appears only in logs and metrics.
const statusClientClosed = 499

var kindStatus = map[Kind]int{
	InvalidRequest:   http.StatusBadRequest,
	Authentication:   http.StatusUnauthorized,
	Permission:       http.StatusForbidden,
	NotFound:         http.StatusNotFound,
	MethodNotAllowed: http.StatusMethodNotAllowed,
	TooLarge:         http.StatusRequestEntityTooLarge,
	UnsupportedMedia: http.StatusUnsupportedMediaType,
	NotSupported:     http.StatusNotImplemented,
	RateLimit:        http.StatusTooManyRequests,
	Quota:            http.StatusTooManyRequests,
	Overloaded:       http.StatusServiceUnavailable,
	Timeout:          http.StatusGatewayTimeout,
	Upstream:         http.StatusBadGateway,
	UpstreamAuth:     http.StatusBadGateway,
	Cancelled:        statusClientClosed,
	Internal:         http.StatusInternalServerError,
}

// ContextLength is the error code for a prompt that exceeds the model's context
// window. Coding agents look for it and shorten the prompt. ERR-18
const ContextLength = "context_length_exceeded"

// ModelMissing is the error code for a model whose configured target does not exist at
// its provider: it is retired, or its name is mistyped.
const ModelMissing = "model_missing"

// MalformedOutput is the error code for output that the model has not finished, because it called a
// tool in a form that cannot be read. Another attempt may succeed.
const MalformedOutput = "malformed_output"

// MissingSignature is the error code for a request that lacks a signature which the model requires.
// The gateway has written the request, so it is its own fault.
const MissingSignature = "missing_signature"

// ModelNotAllowed is the error code for a model that the gateway does not permit to the client.
const ModelNotAllowed = "model_not_allowed"

// BudgetExceeded is the error code for a request that a budget of the gateway's does not
// cover.
const BudgetExceeded = "budget_exceeded"

// Error is the error type that crosses packages. Message is sent to the client and
// must not contain secrets or upstream addresses. Cause is for code that handles the
// error.
type Error struct {
	Kind       Kind
	Status     int    // HTTP status of the response; 0 means the default of Kind
	Code       string // stable machine-readable code such as "model_not_found"; may be empty
	Param      string // the request member that caused the error; may be empty
	Message    string // what is wrong and what to do about it
	RetryAfter time.Duration
	Relayed    bool // Message comes from the upstream; it may be sent to the client but not logged
	Cause      error
}

// Error returns the message, followed by the cause if there is one.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// HTTPStatus returns the HTTP status of the response.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	if s, ok := kindStatus[e.Kind]; ok {
		return s
	}
	return http.StatusInternalServerError
}
