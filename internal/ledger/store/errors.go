package store

import "github.com/isogloss-gateway/isogloss/internal/ledger/store/db"

// Error is a mistake of the caller, with a message for the operator. It is not an error of the
// database.
type Error = db.Error

// ErrMigrating is the reason of Ready while the tables are migrated.
var ErrMigrating = db.ErrMigrating

// Mistakes of callers. A key that does not exist is access.ErrUnknown.
var (
	ErrExists  = Error("the id exists already; choose another id")
	ErrNoOrg   = Error("there is no such organisation; create it first")
	ErrNoTeam  = Error("there is no such team in the organisation; create it first")
	ErrRevoked = Error("the key is revoked; create a new one")
)
