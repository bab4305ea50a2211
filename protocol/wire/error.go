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

// misfit is the error for a value that its field cannot hold. Lenient decoding keeps the
// value as a member without a field, if raw is set.
type misfit struct {
	at      int // offset of the value in the text
	message string
	raw     Raw
}

func (m *misfit) Error() string { return m.message }

// asError converts an error of the JSON library to an *Error.
func asError(err error) *Error {
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
