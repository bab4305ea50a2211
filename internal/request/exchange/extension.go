package exchange

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// EditExtensions checks the extension members of a call. It returns the edits that the
// provider's configuration requires, and their losses.
func (c *Call) EditExtensions(t *Target) (edits []wire.Edit, losses []llm.Loss, err *llm.Error) {
	p := t.Provider
	for _, ext := range c.Dialect.Extensions {
		value := c.Body.Raw(ext.Member)
		if value == nil {
			continue
		}
		if err := ext.Check(value); err != nil {
			return nil, nil, err
		}
		switch p.Extensions {
		case provider.ForwardExtensions:
			edits = append(edits, c.renameInExtension(ext.Member, p.Quirks)...)
			edits = append(edits, c.saltExtension(ext, t)...)
		case provider.DropExtensions:
			e, _ := c.Body.Remove(ext.Member)
			edits = append(edits, e)
			losses = append(losses, llm.Loss{Path: ext.Member, Verdict: llm.Dropped, Code: ext.Member + ".unsupported"})
		default:
			return nil, nil, &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: ext.Member,
				Message: "the provider '" + p.Name + "' does not take " + ext.Member + "; leave it out, or set '" + ext.Member + ": forward' or '" + ext.Member + ": drop' for the provider"}
		}
	}
	return edits, losses, nil
}

// saltExtension returns the edit that replaces a client's own salt in an extension. With it two tenants could share
// a prefix.
func (c *Call) saltExtension(ext codec.Extension, t *Target) []wire.Edit {
	salt := c.CacheSalt(t)
	if ext.CacheSalt == "" || salt == "" {
		return nil
	}
	inner, err := c.Body.Object(ext.Member)
	if err != nil || inner.Raw(ext.CacheSalt) == nil {
		return nil
	}
	return []wire.Edit{inner.Set(ext.CacheSalt, wire.Quote(salt))}
}

// renameInExtension returns the edits that rename members of an extension. It is separate
// from Renames because an extension that is removed must not be edited too.
func (c *Call) renameInExtension(member string, quirks []provider.Quirk) []wire.Edit {
	inner, err := c.Body.Object(member)
	if err != nil {
		return nil
	}
	var edits []wire.Edit
	for _, q := range quirks {
		from, ok := strings.CutPrefix(q.Rename, member+".")
		if !ok {
			continue
		}
		if e, ok := inner.Rename(from, strings.TrimPrefix(q.To, member+".")); ok {
			edits = append(edits, e)
		}
	}
	return edits
}

// CheckExtensions rejects extension members that a translation would lose.
func (c *Call) CheckExtensions(t *Target, mode llm.Mode) *llm.Error {
	p := t.Provider
	if mode == llm.Loose || p.Extensions == provider.DropExtensions {
		return nil
	}
	for _, ext := range c.Dialect.Extensions {
		if c.Body.Raw(ext.Member) != nil {
			return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: ext.Member,
				Message: "the provider '" + p.Name + "' speaks " + string(p.Protocol) + ", which has no " + ext.Member + "; leave it out, or set '" + ext.Member + ": drop' for the provider"}
		}
	}
	return nil
}
