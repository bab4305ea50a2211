package admin

import (
	"errors"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

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
