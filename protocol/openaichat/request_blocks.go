package openaichat

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// emptyContent reports whether content is null or an empty string.
func emptyContent(c wire.Opt[Content]) bool {
	t := c.Value().Text
	return c.IsNull() || t.IsSet() && t.Value().IsEmpty()
}

// decodeContent decodes a string or a list of parts. It reports whether it was a
// list.
func decodeContent(content wire.Opt[Content]) ([]llm.Block, bool) {
	c, ok := content.Get()
	if !ok {
		return nil, false
	}
	if t, ok := c.Text.Get(); ok {
		return []llm.Block{&llm.Text{Text: t.String()}}, false
	}
	parts := c.Parts.Value()
	blocks := make([]llm.Block, 0, parts.Len())
	for _, p := range parts.All() {
		blocks = append(blocks, decodePart(p))
	}
	return blocks, true
}

func decodePart(p *Part) llm.Block {
	meta := llm.Meta{Ext: extOf(p.Extra)}
	if b, ok := p.PromptCacheBreakpoint.Get(); ok {
		meta.Cache = &llm.CacheMark{TTL: b.TTL.Value(), Ext: llm.Ext{Protocol: own, Members: codec.Members(b.Extra.All())}}
	}
	switch p.Type.Value() {
	case PartText:
		return &llm.Text{Meta: meta, Text: p.Text.Value().String()}
	case PartRefusal:
		return &llm.Refusal{Meta: meta, Text: p.Refusal.Value().String()}
	case PartImageURL, PartInputAudio, PartFile:
		m := decodeMedia(meta, *p)
		keepOriginal(m, *p)
		return m
	}
	return &llm.Opaque{Meta: meta, Protocol: own, Type: string(p.Type.Value()), Raw: rawOf(p)}
}

// unseal decodes the seals that a client sent back in the carrier member, and
// marks that member as kept.
func unseal(e *llm.Ext) []llm.Seal {
	seals := codec.Uncarry(e.Get(codec.CarrierMember))
	for i := range e.Members {
		if len(seals) > 0 && e.Members[i].Name == codec.CarrierMember {
			e.Members[i].Name = originalMark(codec.CarrierMember)
		}
	}
	return seals
}

// seal attaches seals to the last block, since the wire has no place for them on
// a text.
func seal(blocks []llm.Block, seals []llm.Seal) []llm.Block {
	if len(blocks) == 0 {
		blocks = []llm.Block{&llm.Text{}}
	}
	meta := blocks[len(blocks)-1].Common()
	meta.Seals = append(meta.Seals, seals...)
	return blocks
}

// partList collects the parts of a content. It encodes a part when the next one is added.
type partList struct {
	last    Part // if there is one
	hasLast bool
	before  wire.List[Part]
}

func (l *partList) len() int {
	if l.hasLast {
		return l.before.Len() + 1
	}
	return 0
}

func (l *partList) add(p Part) {
	if l.hasLast {
		l.before.Append(&l.last)
	}
	l.last, l.hasLast = p, true
}

// content returns a plain string where the parts are a single text without other members,
// unless the content must be a list.
func (l *partList) content(list bool) Content {
	switch {
	case l.len() == 0 && !list:
		return NewContent("")
	case l.len() == 1 && !list && plain(l.last):
		return Content{Text: l.last.Text}
	case l.hasLast:
		l.before.Append(&l.last)
	}
	return Content{Parts: wire.Some(l.before)}
}

func plain(p Part) bool {
	return p.Type.Value() == PartText && !p.PromptCacheBreakpoint.IsSet() && len(p.Extra.All()) == 0
}

// part encodes one block of a system, developer or user turn.
func (e *requestEncoder) part(b llm.Block, path string) (Part, bool) {
	meta := b.Common()
	p := Part{Extra: extraOf(meta.Ext)}
	if meta.Cache != nil {
		p.PromptCacheBreakpoint = e.breakpoint(meta.Cache, path)
	}
	switch b := b.(type) {
	case *llm.Text:
		p.Type, p.Text = wire.Some(PartText), wire.Some(wire.NewText(b.Text))
		return p, true
	case *llm.Refusal:
		p.Type, p.Text = wire.Some(PartText), wire.Some(wire.NewText(b.Text))
		return p, true
	case *llm.Media:
		return e.media(b, p, path)
	case *llm.Opaque:
		if b.Protocol == own {
			var same Part
			if wire.Unmarshal([]byte(b.Raw), &same) == nil {
				return same, true
			}
		}
		e.report.Refuse(path, "block.unknown", "chat completions have no content part like "+strconv.Quote(b.Type))
	case *llm.ServerCall:
		if b.Digest == "" {
			e.report.Drop(path, "server_tool.dropped", "what a tool that the vendor ran did is left out")
			return p, false
		}
		e.report.Approximate(path, "server_tool.digest", "a call of a vendor-run tool is sent as text")
		p.Type, p.Text = wire.Some(PartText), wire.Some(wire.NewText(b.Digest))
		return p, true
	case *llm.ToolResult: // results are written behind their call
	default:
		e.report.Refuse(path, "block.misplaced", "only the assistant can think and call tools")
	}
	return p, false
}

// breakpoint sends a cache breakpoint only if the client speaks this protocol;
// most servers reject the member.
func (e *requestEncoder) breakpoint(c *llm.CacheMark, path string) wire.Opt[CacheBreakpoint] {
	if c.Ext.Protocol == own {
		return wire.Some(CacheBreakpoint{TTL: wire.NonZero(c.TTL), Extra: extraOf(c.Ext)})
	}
	e.report.Drop(path, "cache.mark", "this protocol's servers cache by themselves")
	return wire.Opt[CacheBreakpoint]{}
}

// foreign reports what turns hold that chat messages have no member for. Blocks
// that are dropped entirely are reported by the code that drops them.
func (e *requestEncoder) foreign() {
	for i := range e.in.Turns {
		t := &e.in.Turns[i]
		codec.DropExt(e.report, codec.At("turns", i), t.Ext, protocol.OpenAIChat)
		for j, b := range t.Blocks {
			if _, ok := b.(*llm.ToolResult); t.Role == llm.ToolRole && !ok {
				e.report.Refuse(blockPath(i, j), "block.misplaced", "a turn of tools holds results and nothing else")
				continue
			}
			e.foreignBlock(t, b, blockPath(i, j))
		}
	}
}

func (e *requestEncoder) foreignBlock(t *llm.Turn, b llm.Block, path string) {
	switch b := b.(type) {
	case *llm.Thought, *llm.ServerCall, *llm.Opaque:
		return
	case *llm.Text:
		e.foreignText(t, b, path)
	case *llm.ToolResult:
		for _, inner := range b.Blocks {
			e.foreignBlock(t, inner, path)
		}
	}
	_, isCall := b.(*llm.ToolCall)
	if _, isResult := b.(*llm.ToolResult); (isCall || isResult) && b.Common().Cache != nil {
		e.breakpoint(b.Common().Cache, path) // calls and results have no member for it
	}
	codec.DropExt(e.report, path, b.Common().Ext, protocol.OpenAIChat)
	seals, sent := b.Common().Seals, t.Ext.Get(originalMark(codec.CarrierMember)) != ""
	if isCall {
		sent = b.Common().Ext.Protocol == own || len(e.carried(seals)) == len(seals)
	}
	if !sent {
		e.sealed(seals, path)
	}
}

func (e *requestEncoder) foreignText(t *llm.Turn, b *llm.Text, path string) {
	if b.Phase != "" {
		e.report.Drop(path+".phase", "text.phase", "chat completions do not distinguish commentary from the final answer")
	}
	for _, c := range b.Citations {
		if t.Role != llm.Assistant || c.Protocol != own { // those of the assistant are sent with its message
			e.report.Drop(path+".citations", "citation.history", "an earlier response is sent without its citations")
			break
		}
	}
}

// sealed reports seals that are not sent.
func (e *requestEncoder) sealed(seals []llm.Seal, path string) {
	if len(seals) > 0 {
		e.report.Drop(path, "seal.foreign", "a signature that only its maker can read is left out")
	}
}
