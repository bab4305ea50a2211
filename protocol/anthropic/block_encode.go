package anthropic

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// turn writes the blocks of one turn, results aside. Blank text, which the vendor
// refuses, is left out, and its cache mark moves to the block before it. CRQ-06, ANT-21
func (e *requestEncoder) turn(i int) []wire.Raw {
	t := e.req.Turns[i]
	at := path("turns", i)
	marks := make([]*llm.CacheMark, len(t.Blocks))
	last := -1
	for k, b := range t.Blocks {
		switch {
		case !isText(b, isBlank):
			last, marks[k] = k, b.Common().Cache
		case b.Common().Cache != nil && last >= 0 && marks[last] == nil:
			marks[last] = b.Common().Cache
		}
	}
	var out []wire.Raw
	for k, b := range t.Blocks {
		if _, result := b.(*llm.ToolResult); result || isText(b, isBlank) {
			continue
		}
		if text, ok := b.(*llm.Text); ok && k == last {
			if short := e.trim(i, text.Text); short != text.Text {
				e.report.Approximate(at, "text.trimmed", "white space at the end of an answer to be continued")
				trimmed := *text
				trimmed.Text = short
				b = &trimmed
			}
		}
		out = append(out, e.block(path(at+".blocks", k), t.Role, b, marks[k])...)
	}
	return out
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

// block writes one block of a message, which may be none.
func (e *requestEncoder) block(at string, role llm.Role, b llm.Block, mark *llm.CacheMark) []wire.Raw {
	w := Block{CacheControl: e.cache(at, mark), Extra: extraOf(b.Common().Ext)}
	switch b := b.(type) {
	case *llm.Text:
		e.foreignSeals(at, b.Seals)
		if mark == nil && isPlain(b) {
			return []wire.Raw{textBlock(b.Text)}
		}
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(b.Text))
		w.Citations = e.citations(at, role, b.Citations)
	case *llm.Refusal:
		e.report.Approximate(at, "refusal.as_text", "the protocol knows no refusal in history")
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(b.Text))
	case *llm.Thought:
		return e.thought(at, b)
	case *llm.ToolCall:
		if _, ok := e.pairs.order[b]; !ok {
			return nil // it has been refused
		}
		e.foreignSeals(at, b.Seals)
		w.Type, w.ID = wire.Some("tool_use"), wire.Some(e.pairs.ids[b])
		w.Name, w.Input = wire.Some(e.names.sent(refOf(b))), e.args(at, b)
	case *llm.Media:
		return e.mediaIn(at, role, b, w)
	case *llm.ServerCall:
		if b.Protocol == own {
			return []wire.Raw{wire.Raw(b.Raw)}
		}
		if b.Digest == "" {
			e.report.Drop(at, "server_tool.dropped", "a call of another vendor's tool says nothing here")
			return nil
		}
		e.report.Approximate(at, "server_tool.digest", "a call of another vendor's tool is sent as text")
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(b.Digest))
	case *llm.Opaque:
		if b.Protocol == own {
			return []wire.Raw{wire.Raw(b.Raw)}
		}
		e.report.Refuse(at, "block.unknown", "a block of type "+b.Type+" has no counterpart") // CRQ-41
		return nil
	default:
		return nil
	}
	return e.marshal(at, &w)
}

func (e *requestEncoder) marshal(at string, w *Block) []wire.Raw {
	raw, err := blockShape.Marshal(w)
	if err != nil {
		e.report.Refuse(at, "block.invalid", err.Error())
		return nil
	}
	return []wire.Raw{raw}
}

// textBlock writes text.
func textBlock(text string) wire.Raw {
	return append(appendString([]byte(`{"type":"text","text":`), text), '}')
}

// foreignSeals reports seals that only another vendor can read.
func (e *requestEncoder) foreignSeals(at string, seals []llm.Seal) {
	for _, s := range seals {
		e.dropIf(s.Origin != own, at+".seals", "seal.foreign")
	}
}

// citations writes the vendor's own citations where the version takes them.
func (e *requestEncoder) citations(at string, role llm.Role, list []llm.Citation) wire.Raw {
	raws := ownCitations(list)
	if len(raws) < len(list) {
		e.report.Drop(at+".citations", "citation.foreign", "citations of another vendor")
	}
	if len(raws) == 0 {
		return nil
	}
	if role != llm.Assistant && !e.version.UserTextCitations {
		e.report.Drop(at+".citations", "citations.user_text", "version "+e.version.Name+" refuses citations on the user's text")
		return nil
	}
	return array(raws)
}

func ownCitations(list []llm.Citation) []wire.Raw {
	var raws []wire.Raw
	for _, c := range list {
		if c.Protocol == own && c.Raw != "" {
			raws = append(raws, wire.Raw(c.Raw))
		}
	}
	return raws
}

// thought writes reasoning that the vendor has sealed itself; it refuses all other.
// ANT-04, ANT-05, ANT-07
func (e *requestEncoder) thought(at string, t *llm.Thought) []wire.Raw {
	seal, ok := t.SealFor(own)
	if !ok {
		e.report.Drop(at, "reasoning.foreign", "only reasoning that Anthropic has signed can be sent back to it")
		return nil
	}
	return []wire.Raw{thoughtBlock(t, seal)}
}

// thoughtBlock writes reasoning with the vendor's seal, or without any.
func thoughtBlock(t *llm.Thought, seal llm.Seal) wire.Raw {
	w := Block{Extra: extraOf(t.Ext)}
	if seal.Form == llm.Redacted {
		w.Type, w.Data = wire.Some("redacted_thinking"), wire.Some(seal.Data)
	} else {
		w.Type, w.Thinking, w.Signature = wire.Some("thinking"), wire.Some(wire.NewText(thoughtText(t))), wire.Some(seal.Data)
	}
	raw, err := blockShape.Marshal(&w)
	if err != nil { // a signature that is no text was not made by the vendor
		w.Signature, w.Data = wire.Some(""), wire.Some("")
		raw, _ = blockShape.Marshal(&w)
	}
	return raw
}

// partBreak stands between the parts of a thought, which the protocol has no
// borders for.
const partBreak = "\n\n"

func thoughtText(t *llm.Thought) string {
	parts := make([]string, 0, len(t.Parts))
	for _, p := range t.Parts {
		parts = append(parts, p.Text)
	}
	return strings.Join(parts, partBreak)
}

// args writes a call's arguments as the object that the vendor wants.
func (e *requestEncoder) args(at string, c *llm.ToolCall) wire.Raw {
	if c.Kind == llm.CustomTool {
		return member("input", quoted(c.Args))
	}
	raw, wrapped := objectArgs(c.Args)
	if wrapped {
		e.report.Approximate(at+".args", "args.wrapped", "arguments that are no object were put into one")
	}
	return raw
}

// result writes what a tool gave.
func (e *requestEncoder) result(at string, r *llm.ToolResult, id string) wire.Raw {
	w := Block{Type: wire.Some("tool_result"), ToolUseID: wire.Some(id), CacheControl: e.cache(at, r.Cache), Extra: extraOf(r.Ext)}
	if r.Failed {
		w.IsError = wire.Some(true)
	}
	if !r.Missing {
		w.Content = wire.Some(e.resultContent(at, r))
	}
	if raw := e.marshal(at, &w); raw != nil {
		return raw[0]
	}
	return nil
}

func (e *requestEncoder) resultContent(at string, r *llm.ToolResult) Content {
	if len(r.Blocks) == 0 && !r.Listed {
		return Content{Text: wire.Some(wire.NewText(""))}
	}
	if len(r.Blocks) == 1 && isPlain(r.Blocks[0]) && !r.Listed {
		return Content{Text: wire.Some(wire.NewText(r.Blocks[0].(*llm.Text).Text))}
	}
	blocks := []wire.Raw{}
	for k, b := range r.Blocks {
		if !isText(b, isBlank) {
			blocks = append(blocks, e.block(path(at+".blocks", k), llm.ToolRole, b, b.Common().Cache)...)
		}
	}
	return Content{Blocks: wire.Some(blocks)}
}

// arrayItems splits an array; what is none has no items.
func arrayItems(raw wire.Raw) []wire.Raw {
	var items []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &items, lenient) != nil {
		return nil
	}
	return items
}
