package store

// Error is what a caller did wrong, in words for the operator. It is not an error of
// the database.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// What callers do wrong. A key that does not exist is access.ErrUnknown.
var (
	ErrExists  = &Error{"there is one with this id already; choose another id"}
	ErrNoOrg   = &Error{"there is no such organisation; create it first"}
	ErrNoTeam  = &Error{"there is no such team in the organisation; create it first"}
	ErrRevoked = &Error{"the key is revoked; create a new one"}
	ErrTooWide = &Error{"the answer has more than 10,000 groups; narrow the time or group by less"}
)
