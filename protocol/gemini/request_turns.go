package gemini

import (
	"slices"
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

const (
	roleUser  = "user"
	roleModel = "model"
)

// opening is a user text in front of a conversation that begins with an assistant
// turn, which the API rejects.
const opening = "(the conversation begins)"

// turns encodes all turns from the first on.
func (e *requestEncoder) turns(first int) {
	turns := e.req.Turns
	for i := first; i < len(turns); {
		if turns[i].Role == llm.Assistant {
			i = e.answer(i)
			continue
		}
		e.turn(i)
		i++
	}
}

// add appends a part, unless it is nil.
func (c *content) add(p *Part) {
	if p != nil {
		c.parts.Append(p)
	}
}

// turn encodes a user, system or developer turn.
func (e *requestEncoder) turn(i int) {
	t := &e.req.Turns[i]
	path := codec.At("turns", i)
	c := content{own: t.Ext.Protocol == own, role: roleUser, extra: extra(t.Ext, "")}
	for j, b := range t.Blocks {
		at := path + "." + codec.At("blocks", j)
		switch b := b.(type) {
		case *llm.ToolResult:
			if !e.answered[b] {
				e.report.Refuse(at, "tool_result.orphan", "no call before it has the id "+strconv.Quote(b.CallID))
			}
		case *llm.Text:
			if t.Role != llm.User && t.Role != llm.ToolRole && b.Text != "" {
				b = &llm.Text{Meta: b.Meta, Text: "<system>" + b.Text + "</system>"}
				c.own = false
				e.report.Approximate(at, "system.mid_folded", "system text in mid-conversation is a marked text of the user")
			}
			c.add(e.part(b, at))
		default:
			c.add(e.part(b, at))
		}
	}
	if t.Role == llm.ToolRole && c.parts.Len() == 0 {
		return // its results are written behind their calls
	}
	if t.Joined && c.own && len(e.contents) > 0 && e.contents[len(e.contents)-1].own {
		last := &e.contents[len(e.contents)-1]
		last.parts.Join(c.parts)
		return
	}
	e.add(c)
}

// add appends a content. Adjacent contents of one role are merged, because roles
// must alternate (CRQ-12). Function responses stay alone (GEM-05), and contents
// of clients of this protocol stay unchanged.
func (e *requestEncoder) add(c content) {
	if c.parts.Len() == 0 && !c.own {
		return
	}
	if len(e.contents) == 0 && c.role == roleModel && !c.own {
		e.report.Approximate("turns", "turns.user_inserted", "a text of the user stands before the assistant's first")
		e.contents = append(e.contents, content{role: roleUser, parts: wire.ListOf(Part{Text: wire.Some(wire.NewText(opening))})})
	}
	if n := len(e.contents); n > 0 {
		last := &e.contents[n-1]
		if last.role == c.role && !last.results && !c.results && (!last.own || !c.own) {
			last.parts.Join(c.parts)
			return
		}
	}
	e.contents = append(e.contents, c)
}

// answer encodes consecutive assistant turns and the results of their calls. It
// returns the index of the next turn.
func (e *requestEncoder) answer(i int) int {
	turns := e.req.Turns
	var calls []*llm.ToolCall
	for ; i < len(turns) && turns[i].Role == llm.Assistant; i++ {
		calls = append(calls, e.assistant(i)...)
	}
	if len(calls) == 0 {
		return i
	}
	end := i
	for end < len(turns) && turns[end].Role != llm.Assistant {
		end++
	}
	e.results(calls, i, end)
	return i
}

// assistant encodes one assistant turn and returns its calls.
func (e *requestEncoder) assistant(i int) (calls []*llm.ToolCall) {
	t := &e.req.Turns[i]
	path := codec.At("turns", i)
	c := content{own: t.Ext.Protocol == own, role: roleModel, extra: extra(t.Ext, "")}
	sealed := generation(e.target.Model) < 3 || slices.ContainsFunc(t.Blocks, sealedCall)
	for j, b := range t.Blocks {
		at := path + "." + codec.At("blocks", j)
		call, ok := b.(*llm.ToolCall)
		if !ok {
			c.add(e.part(b, at))
			continue
		}
		p := e.call(call, at)
		if !sealed { // only the first of several parallel calls has a signature (GEM-08)
			sealed = true
			p.ThoughtSignature = wire.Some(skipSignature)
			e.report.Approximate(at, "seal.skipped", "the call was made by another model; the documented stand-in for a signature is sent")
		}
		c.add(&p)
		calls = append(calls, call)
	}
	e.add(c)
	return calls
}
