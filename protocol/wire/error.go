package wire

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Error says what is wrong with a JSON text, and where.
type Error struct {
	Pointer string // JSON pointer (RFC 6901) to the fault; empty for the whole text
	Message string // what is wrong
	Cause   error  // may be nil; errors.Is finds jsontext.ErrDuplicateName here
}

// Error returns pointer and message.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Message
	}
	return e.Pointer + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// misfit is a value whose kind does not suit its field. A lenient decoder keeps
// it as a member without a field.
type misfit struct {
	at  *Error
	raw Raw
}

func (m *misfit) Error() string { return m.at.Error() }

func (m *misfit) Unwrap() error { return m.at }

// asError turns what a decoder ran into into an *Error.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Message: err.Error(), Cause: err}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		e.Pointer, e.Message = string(s.JSONPointer), s.Err.Error()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		e.Message = "the JSON text ends too early"
	}
	return e
}

// kindNames are the kinds of JSON values in the words of error messages.
var kindNames = map[jsontext.Kind]string{
	'n': "null", 't': "a boolean", 'f': "a boolean", '"': "a string",
	'0': "a number", '{': "an object", '[': "an array",
}
