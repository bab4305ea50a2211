package admin

import (
	"errors"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/store"
)

// stored is what an error of a change means for the operator.
func stored(err error, kind, id string) error {
	var p *Problem
	var own *store.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	case errors.Is(err, access.ErrUnknown), errors.Is(err, store.ErrNothing):
		return missing(kind, id)
	case errors.Is(err, store.ErrExists):
		return conflict("exists", "there is one with the id %q already; choose another id, or change that %s", id, kind)
	case errors.As(err, &own):
		return conflict("refused", "%s", own.Error())
	}
	return unavailable(keyStore, err)
}

// changed is the answer to who changes what is no longer as it was.
func changed(kind string) *Problem {
	return conflict("changed", "somebody else has changed this %s in the meantime; read it again and repeat the change", kind)
}
