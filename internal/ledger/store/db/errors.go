package db

import "errors"

// Error is a mistake of the caller, with a message for the operator. It is not an error of the
// database.
type Error string

func (e Error) Error() string { return string(e) }

// ErrFenced reports a server that is no longer the primary, or not yet.
var ErrFenced = errors.New("the database accepts no writes: it is a standby, or was replaced by another server")
