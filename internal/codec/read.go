package codec

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// ReadModel reads the model and the stream flag of a request from the members with these
// names.
func ReadModel(body *wire.Index, modelMember, streamMember string) (Head, *llm.Error) {
	model := body.Raw(modelMember)
	if model.Kind() != '"' {
		return Head{}, &llm.Error{Kind: llm.InvalidRequest, Code: "missing_required_parameter", Param: modelMember,
			Message: "the request has no model; write \"" + modelMember + "\": \"NAME\" with a name that GET /v1/models lists"}
	}
	// The only error is an unpaired surrogate. It becomes U+FFFD, which no configured name
	// contains.
	name, _ := jsontext.AppendUnquote(nil, model)
	head := Head{Model: string(name)}
	switch body.Raw(streamMember).Kind() {
	case 't':
		head.Stream = true
	case 'f', 0:
	default:
		return Head{}, WrongType(streamMember, "true or false")
	}
	return head, nil
}

// WrongType is the error for a member whose value has the wrong type. want describes the
// right one.
func WrongType(member, want string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_type", Param: member, Message: "\"" + member + "\" must be " + want}
}

// maxCount is more than any limit that vendors have, and small enough for products of two
// not to overflow.
const maxCount = 1 << 31

// Count reads a count. It returns 0 if the value is missing or not a count.
func Count(value wire.Raw) int64 { return min(int64(wire.ParseCount(value)), maxCount) }

// ReadCount reads how many responses a request asks for. It returns 0 if the value is missing
// or less. A value that is not a number is an error, because upstreams differ in how they
// read it.
func ReadCount(member string, value wire.Raw) (int64, *llm.Error) {
	switch value.Kind() {
	case 0, 'n':
		return 0, nil
	case '0', '"':
		if f, err := strconv.ParseFloat(strings.Trim(string(value), `"`), 64); err == nil && f <= maxCount {
			return Count(value), nil
		}
	}
	return 0, WrongType(member, "a number, at most "+strconv.Itoa(maxCount))
}

// maxText is the largest bound that is not read from a string. It is the number of output
// tokens that the gateway reserves for a request without a bound.
const maxText = 4096

// MaxOutput returns the largest of the bounds on output tokens that an upstream may read.
// Only some upstreams read a number in a string. Such a bound counts only if it is larger
// than the reservation of a request without a bound.
func MaxOutput(bounds ...wire.Raw) (most int64) {
	for _, b := range bounds {
		if n := Count(b); b.Kind() == '0' || n > maxText {
			most = max(most, n)
		}
	}
	return most
}

// SetMember returns a Dialect.SetModel for a member of this name.
func SetMember(name string) func(*wire.Index, string) wire.Edit {
	return func(body *wire.Index, model string) wire.Edit { return body.Set(name, wire.Quote(model)) }
}

// SetTrue returns a Dialect.SetStream for a member of this name.
func SetTrue(name string) func(*wire.Index) wire.Edit {
	return func(body *wire.Index) wire.Edit { return body.Set(name, "true") }
}

// InvalidBody converts an error of wire.IndexObject into an error for the client.
func InvalidBody(err error) *llm.Error {
	e := &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: "invalid request body: " + err.Error()}
	if fault, ok := errors.AsType[*wire.Error](err); ok {
		e.Param = strings.TrimPrefix(fault.Pointer, "/")
		e.Message = "invalid request body: " + fault.Message
	}
	return e
}
