package openapi

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// Problem is an error response in the format of RFC 9457. It never quotes a value that was sent: it
// may be a secret.
type Problem struct {
	Title  string    `json:"title" doc:"The status text."`
	Status int       `json:"status" doc:"The HTTP status."`
	Code   string    `json:"code,omitempty" doc:"Error code for programs."`
	Detail string    `json:"detail" doc:"What went wrong, and what to do about it."`
	Errors []Mistake `json:"errors,omitempty" doc:"Each mistake in the request or the configuration."`

	Retry time.Duration `json:"-"` // for Retry-After; 0: none
	Cause error         `json:"-"` // for the log
}

// Mistake is an error in a request or in the configuration.
type Mistake struct {
	Line     int    `json:"line,omitzero" doc:"Line in the configuration file."`
	Location string `json:"location,omitempty" doc:"The member or parameter, such as body.limits.budget."`
	Message  string `json:"message" doc:"What is wrong."`
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// CloseUnread closes the connection after a response to a request whose body was not read. A connection of HTTP/2 stays
// open, because other requests share it.
func CloseUnread(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// NewProblem returns a problem.
func NewProblem(status int, code, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// InvalidInput returns the problem of a request with mistakes.
func InvalidInput(mistakes ...Mistake) *Problem {
	p := NewProblem(http.StatusUnprocessableEntity, "invalid", "the request is not valid; fix what errors lists and send it again")
	p.Errors = mistakes
	return p
}

func badJSON(format string, args ...any) *Problem {
	return NewProblem(http.StatusBadRequest, "invalid", format+"; fix it and send the request again", args...)
}

// SetHeader sets the headers that clients act on.
func (p *Problem) SetHeader(h http.Header) {
	if p.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.Retry.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="isogloss admin"`)
	}
}

// Write sends the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	p.SetHeader(w.Header())
	w.WriteHeader(p.Status)
	_ = json.MarshalWrite(w, p) // the client may have disconnected
}
