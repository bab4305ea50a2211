package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// retryAfter is the default of Retry-After.
const retryAfter = 5 * time.Second

func forbidden(code, format string, args ...any) *openapi.Problem {
	return openapi.NewProblem(http.StatusForbidden, code, format, args...)
}

func missing(kind, id string) *openapi.Problem {
	return openapi.NewProblem(http.StatusNotFound, "not_found", "there is no %s %q that is visible to this key; list them to find the right one", kind, id)
}

func conflict(code, format string, args ...any) *openapi.Problem {
	return openapi.NewProblem(http.StatusConflict, code, format, args...)
}

func invalid(location, format string, args ...any) *openapi.Problem {
	return openapi.InvalidInput(openapi.Mistake{Location: location, Message: fmt.Sprintf(format, args...)})
}

// unavailable is the problem of a store that cannot be used.
func unavailable(store string, cause error) *openapi.Problem {
	p := openapi.NewProblem(http.StatusServiceUnavailable, "store_unavailable", "%s is not available; nothing was changed. Try again later, and see the gateway's log if it persists", store)
	p.Retry, p.Cause = retryAfter, cause
	return p
}

// refused is the problem of a rejected credential.
func refused(e *llm.Error) *openapi.Problem {
	p := openapi.NewProblem(e.HTTPStatus(), e.Code, "%s", e.Message)
	p.Retry, p.Cause = e.RetryAfter, e.Cause
	if p.Status == http.StatusServiceUnavailable && p.Retry == 0 {
		p.Retry = retryAfter
	}
	return p
}

// asProblem returns the problem of an error.
func asProblem(err error) *openapi.Problem {
	var p *openapi.Problem
	if errors.As(err, &p) {
		return p
	}
	p = openapi.NewProblem(http.StatusInternalServerError, "internal", "internal error; see the gateway's log")
	p.Cause = err
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

// storeProblem returns the problem of an error from a store.
func storeProblem(err error, kind, id string) error {
	var p *openapi.Problem
	var own store.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	case errors.Is(err, access.ErrUnknown), errors.Is(err, store.ErrNotFound):
		return missing(kind, id)
	case errors.Is(err, store.ErrExists):
		return conflict("exists", "the id %q exists already; choose another id, or change that %s", id, kind)
	case errors.As(err, &own):
		return conflict("refused", "%s", own.Error())
	}
	return unavailable(keyStoreName, err)
}

// concurrentChange is the problem of a change that another one has overtaken.
func concurrentChange(kind string) *openapi.Problem {
	return conflict("changed", "this %s was changed concurrently; read it again and repeat the change", kind)
}
