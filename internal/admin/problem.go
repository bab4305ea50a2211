package admin

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Problem is an error response in the format of RFC 9457. It never quotes a value that was sent: it
// may be a secret.
type Problem struct {
	Title  string    `json:"title" doc:"The status text."`
	Status int       `json:"status" doc:"The HTTP status."`
	Code   string    `json:"code,omitempty" doc:"Error code for programs."`
	Detail string    `json:"detail" doc:"What went wrong, and what to do about it."`
	Errors []Mistake `json:"errors,omitempty" doc:"Each mistake in the request or the configuration."`

	retry time.Duration
	cause error // for the log
}

// Mistake is an error in a request or in the configuration.
type Mistake struct {
	Line     int    `json:"line,omitzero" doc:"Line in the configuration file."`
	Location string `json:"location,omitempty" doc:"The member or parameter, such as body.limits.budget."`
	Message  string `json:"message" doc:"What is wrong."`
}

// retryAfter is the default of Retry-After.
const retryAfter = 5 * time.Second

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.cause }

func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func forbidden(code, format string, args ...any) *Problem {
	return problem(http.StatusForbidden, code, format, args...)
}

func missing(kind, id string) *Problem {
	return problem(http.StatusNotFound, "not_found", "there is no %s %q that is visible to this key; list them to find the right one", kind, id)
}

func conflict(code, format string, args ...any) *Problem {
	return problem(http.StatusConflict, code, format, args...)
}

func invalid(location, format string, args ...any) *Problem {
	return invalidInput(Mistake{Location: location, Message: fmt.Sprintf(format, args...)})
}

func invalidInput(mistakes ...Mistake) *Problem {
	p := problem(http.StatusUnprocessableEntity, "invalid", "the request is not valid; fix what errors lists and send it again")
	p.Errors = mistakes
	return p
}

func badJSON(format string, args ...any) *Problem {
	return problem(http.StatusBadRequest, "invalid", format+"; fix it and send the request again", args...)
}

// unavailable is the problem of a store that cannot be used.
func unavailable(store string, cause error) *Problem {
	p := problem(http.StatusServiceUnavailable, "store_unavailable", "%s is not available; nothing was changed. Try again later, and see the gateway's log if it persists", store)
	p.retry, p.cause = retryAfter, cause
	return p
}

// refused is the problem of a rejected credential.
func refused(e *llm.Error) *Problem {
	p := problem(e.HTTPStatus(), e.Code, "%s", e.Message)
	p.retry, p.cause = e.RetryAfter, e.Cause
	if p.Status == http.StatusServiceUnavailable && p.retry == 0 {
		p.retry = retryAfter
	}
	return p
}

// SetHeader sets the headers that clients act on.
func (p *Problem) SetHeader(h http.Header) {
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retry.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="isogloss admin"`)
	}
}

// write sends the problem.
func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	p.SetHeader(w.Header())
	w.WriteHeader(p.Status)
	_ = json.MarshalWrite(w, p) // the client may have disconnected
}

// asProblem returns the problem of an error.
func asProblem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	p = problem(http.StatusInternalServerError, "internal", "internal error; see the gateway's log")
	p.cause = err
	return p
}

// joinRoles joins the names of roles for a message.
func joinRoles(names []access.Role) string {
	text := make([]string, len(names))
	for i, n := range names {
		text[i] = string(n)
	}
	return strings.Join(text, ", ")
}
