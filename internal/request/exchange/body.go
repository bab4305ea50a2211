package exchange

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Body is a parsed request body: an index of its top-level members and the few values
// that routing needs. Routing, limits and logs do not parse the messages.
type Body struct {
	wire.Index
	codec.Head
	dialect *codec.Dialect // not that of the path if a client sends another dialect's body to it
}

// ReadBody reads the client's body. The call gets the dialect of the body.
func (c *Call) ReadBody(body []byte) (err *llm.Error) {
	if body, err = c.open(body); err != nil {
		return err
	}
	if c.Body, err = ReadBody(c.Dialect, c.Location, body); err == nil {
		c.Dialect = c.Body.dialect
	}
	return err
}

// ReadBody indexes a request body and reads the values that routing needs.
func ReadBody(d *codec.Dialect, at codec.Location, body []byte) (*Body, *llm.Error) {
	x, err := wire.IndexObject(body, d.Members...)
	if err == nil && d.Other != nil && at.Operation == codec.Generate && d.Other.Is(&x) {
		d = d.Other.Dialect
		x, err = wire.IndexObject(body, d.Members...)
	}
	if err != nil {
		return nil, codec.InvalidBody(err)
	}
	head, fault := d.Read(at, &x)
	if fault != nil {
		return nil, fault
	}
	if route.HasDotSegment(head.Model) {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_model", Param: "model",
			Message: "the model name has a path segment \".\" or \"..\"; write a name that GET /v1/models lists"}
	}
	head.Choices, head.Generated = max(head.Choices, 1), max(head.Generated, 1)
	return &Body{Index: x, Head: head, dialect: d}, nil
}

// Member returns the text of a member of the body, or nil.
func (b *Body) Member(name string) []byte { return b.Raw(name) }

func (b *Body) release() { b.Index = wire.Index{} }

// Renames returns the edits that rename top-level members to the names that a provider
// supports. EditExtensions handles members inside an extension.
func Renames(x *wire.Index, d *codec.Dialect, quirks []provider.Quirk) []wire.Edit {
	var edits []wire.Edit
	for _, q := range quirks {
		if slices.ContainsFunc(d.Extensions, func(ext codec.Extension) bool { return strings.HasPrefix(q.Rename, ext.Member+".") }) {
			continue
		}
		if e, ok := x.Rename(q.Rename, q.To); ok {
			edits = append(edits, e)
		}
	}
	return edits
}

// ApplyQuirks renames members of a body by a provider's quirks.
func ApplyQuirks(body []byte, d *codec.Dialect, quirks []provider.Quirk) ([]byte, *llm.Error) {
	if len(quirks) == 0 {
		return body, nil
	}
	x, err := wire.IndexObject(body)
	if err != nil {
		return nil, codec.InvalidBody(err)
	}
	return wire.Patch(body, Renames(&x, d, quirks)), nil
}

// SetMembers sets top-level members of a body.
func SetMembers(body []byte, members []llm.Member) ([]byte, *llm.Error) {
	for _, m := range members {
		x, err := wire.IndexObject(body)
		if err != nil {
			return nil, codec.InvalidBody(err)
		}
		body = wire.Patch(body, []wire.Edit{x.Set(m.Name, string(m.Value))})
	}
	return body, nil
}
