package admin

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Problem is an error as it is answered, in the form of RFC 9457. It never quotes a
// value that was sent, because that may have been a secret.
type Problem struct {
	Title  string    `json:"title" doc:"The status in words."`
	Status int       `json:"status" doc:"The status of the answer."`
	Code   string    `json:"code,omitempty" doc:"What went wrong, for programs."`
	Detail string    `json:"detail" doc:"What went wrong, and what to do about it."`
	Errors []Mistake `json:"errors,omitempty" nullable:"false" doc:"Each mistake in what was sent or configured."`

	retry time.Duration
	cause error // for the log
}

// Mistake is one thing that is wrong with a request or with the configuration.
type Mistake struct {
	Line     int    `json:"line,omitzero" doc:"Of the configuration file."`
	Location string `json:"location,omitempty" doc:"The member, such as body.limits.budget."`
	Message  string `json:"message" doc:"What is wrong."`
}

// retryAfter is for errors that do not say when to come back.
const retryAfter = 5 * time.Second

// Error gives the detail.
func (p *Problem) Error() string { return p.Detail }

// Unwrap gives what lies behind it.
func (p *Problem) Unwrap() error { return p.cause }

// GetStatus gives the status to answer with.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders gives the headers that belong to it.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retry.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="isogloss admin"`)
	}
	return h
}

// ContentType is that of RFC 9457.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func forbidden(code, format string, args ...any) *Problem {
	return problem(http.StatusForbidden, code, format, args...)
}

func missing(kind, id string) *Problem {
	return problem(http.StatusNotFound, "not_found", "there is no %s %q that this key may see; list them to find the right one", kind, id)
}

func conflict(code, format string, args ...any) *Problem {
	return problem(http.StatusConflict, code, format, args...)
}

func invalid(location, format string, args ...any) *Problem {
	p := problem(http.StatusUnprocessableEntity, "invalid", "what was sent is not valid; mend what errors lists and send it again")
	p.Errors = []Mistake{{Location: location, Message: fmt.Sprintf(format, args...)}}
	return p
}

// unavailable is the answer where a store cannot be asked: nothing is known, so
// nothing is denied.
func unavailable(store string, cause error) *Problem {
	p := problem(http.StatusServiceUnavailable, "store_unavailable", "%s cannot be asked at the moment; nothing was changed. Try again, and look at the gateway's log if it stays so", store)
	p.retry, p.cause = retryAfter, cause
	return p
}

// refused is why a credential was not taken.
func refused(e *llm.Error) *Problem {
	p := problem(e.HTTPStatus(), e.Code, "%s", e.Message)
	p.retry, p.cause = e.RetryAfter, e.Cause
	if p.Status == http.StatusServiceUnavailable && p.retry == 0 {
		p.retry = retryAfter
	}
	return p
}

// plain turns the library's own errors into ours, without the values that it quotes.
func plain(_ huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := problem(e.Status, "invalid", "%s; mend what errors lists and send it again", e.Detail)
	switch {
	case e.Status == http.StatusRequestEntityTooLarge:
		p.Code, p.Detail = "too_large", fmt.Sprintf("the body is over %d bytes; send less at once", maxBody)
	case e.Status == http.StatusRequestTimeout:
		p.Code, p.Detail = "too_slow", "the body did not arrive in time; send it again"
	case e.Status >= http.StatusInternalServerError:
		p.Code, p.Detail = "internal", "a fault of the gateway; its log says more"
		return p, nil
	}
	for _, d := range e.Errors {
		if d != nil {
			p.Errors = append(p.Errors, Mistake{Location: d.Location, Message: d.Message})
		}
	}
	return p, nil
}

// write answers with a problem where no operation does.
func (p *Problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.MarshalWrite(w, p) // the client may be gone
}

// asProblem gives every error that a handler returns its answer.
func asProblem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	p = problem(http.StatusInternalServerError, "internal", "a fault of the gateway; its log says more")
	p.cause = err
	return p
}

// list writes names for a sentence.
func list(names []access.Role) string {
	text := make([]string, len(names))
	for i, n := range names {
		text[i] = string(n)
	}
	return strings.Join(text, ", ")
}
