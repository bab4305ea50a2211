package blockcodec

import (
	"errors"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// RequestDecoder decodes what the requests of both protocols share. It keeps the first error.
type RequestDecoder struct {
	Req *llm.Request
	Err *llm.Error
}

// Fail records an error of the field at a path.
func (d *RequestDecoder) Fail(at, what string) {
	if d.Err == nil {
		d.Err = &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: at, Message: at + ": " + what}
	}
}

// Integer returns a number that may be missing.
func (d *RequestDecoder) Integer(at string, n wire.Opt[wire.Number]) *int64 {
	text, ok := n.Get()
	if !ok {
		return nil
	}
	i, err := text.Int64()
	if err != nil || i < 0 {
		d.Fail(at, "must be a non-negative integer")
		return nil
	}
	return &i
}

// Number returns a number's text. Some clients send numbers as strings.
func Number(n wire.Opt[wire.Number]) llm.Number {
	return llm.Number(strings.Trim(string(n.Value()), `"`))
}

var wireRoles = map[string]llm.Role{"user": llm.User, "assistant": llm.Assistant, "system": llm.System}

// Role returns the role of the message at a path.
func (d *RequestDecoder) Role(at, name string) (llm.Role, bool) {
	role, ok := wireRoles[name]
	if !ok {
		d.Fail(at+".role", "want user, assistant or system, got "+strconv.Quote(name))
	}
	return role, ok
}

// Message adds a message. Tool results and the blocks around them become turns of their own, marked as one message.
// result is the protocol's name of a tool result.
func (d *RequestDecoder) Message(at, result string, t llm.Turn, blocks []llm.Block) {
	first := true
	for first || len(blocks) > 0 {
		n := 0
		for n < len(blocks) && IsResult(blocks[n]) == IsResult(blocks[0]) {
			n++
		}
		part := t
		part.Joined = !first
		if !first {
			part.Ext = llm.Ext{}
		}
		if part.Blocks = blocks[:n:n]; n > 0 && IsResult(blocks[0]) {
			if t.Role != llm.User {
				d.Fail(at+".content", result+" belongs into a user message")
			}
			part.Role = llm.ToolRole
		}
		d.Req.Turns = append(d.Req.Turns, part)
		blocks, first = blocks[n:], false
	}
}

// InvalidJSON returns an error that says where a body is invalid.
func InvalidJSON(err error) *llm.Error {
	e := &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: err.Error()}
	if at, ok := errors.AsType[*wire.Error](err); ok && at.Pointer != "" {
		e.Param = strings.ReplaceAll(strings.TrimPrefix(at.Pointer, "/"), "/", ".")
		e.Message = e.Param + ": " + at.Message
	}
	return e
}
