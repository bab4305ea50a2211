package wire

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Error describes invalid JSON.
type Error struct {
	Pointer string // JSON pointer (RFC 6901) to the invalid value; empty for the whole text
	Message string
	Cause   error // may be nil, or match jsontext.ErrDuplicateName
}

// Error returns the pointer and the message.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Message
	}
	return e.Pointer + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// misfit is the error for a value that has the wrong kind for its field. Lenient
// decoding keeps the value as a member without a field.
type misfit struct {
	at  *Error
	raw Raw
}

func (m *misfit) Error() string { return m.at.Error() }

func (m *misfit) Unwrap() error { return m.at }

// asError converts a decoder's error to an *Error.
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

// kindNames names the kinds of JSON values in error messages.
var kindNames = map[jsontext.Kind]string{
	'n': "null", 't': "a boolean", 'f': "a boolean", '"': "a string",
	'0': "a number", '{': "an object", '[': "an array",
}
