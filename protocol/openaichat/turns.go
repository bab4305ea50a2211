package openaichat

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (d *requestDecoder) turns() {
	for i, m := range d.wire.Messages.Value() {
		t := llm.Turn{Name: m.Name.Value(), Ext: extOf(m.Extra)}
		if len(m.Annotations.Value()) > 0 {
			t.Ext.Protocol = own
			keep(&t.Ext, "annotations", m.Annotations)
		}
		switch role := m.Role.Value(); role {
		case RoleSystem, RoleDeveloper, RoleUser:
			t.Role = llm.Role(role)
			t.Blocks, t.List = decodeContent(m.Content)
		case RoleAssistant:
			t.Role = llm.Assistant
			t.Blocks, t.List = d.assistant(i, &m, unseal(&t.Ext))
			if (m.ToolCalls.IsSet() || m.FunctionCall.IsSet()) && hollowContent(m.Content) {
				// Nothing to the model, but templates look at how it is spelled.
				t.Ext.Protocol, t.Ext.Members = own, append(t.Ext.Members, llm.Member{Name: spelled("content"), Value: rawOf(m.Content)})
			}
		case RoleTool, RoleFunction:
			t.Role, t.Name, t.Ext = llm.ToolRole, "", llm.Ext{}
			t.Blocks = []llm.Block{d.result(&m)}
		default:
			d.fail("messages["+strconv.Itoa(i)+"].role", "the role "+strconv.Quote(string(role))+" is not known; write system, developer, user, assistant or tool")
		}
		d.out.Turns = append(d.out.Turns, t)
	}
}

// hollowContent reports whether a content is there and says nothing.
func hollowContent(c wire.Opt[Content]) bool {
	t := c.Value().Text
	return c.IsNull() || t.IsSet() && t.Value().IsEmpty()
}

// decodeContent reads text or parts. It reports whether they were a list.
func decodeContent(content wire.Opt[Content]) ([]llm.Block, bool) {
	c, ok := content.Get()
	if !ok {
		return nil, false
	}
	if t, ok := c.Text.Get(); ok {
		return []llm.Block{&llm.Text{Text: t.String()}}, false
	}
	var blocks []llm.Block
	for _, p := range c.Parts.Value() {
		blocks = append(blocks, decodePart(p))
	}
	return blocks, true
}

func decodePart(p Part) llm.Block {
	meta := llm.Meta{Ext: extOf(p.Extra)}
	if b, ok := p.PromptCacheBreakpoint.Get(); ok {
		meta.Cache = &llm.CacheMark{TTL: b.TTL.Value(), Ext: llm.Ext{Protocol: own, Members: members(b.Extra.All())}}
		keep(&meta.Cache.Ext, "mode", b.Mode)
	}
	switch p.Type.Value() {
	case PartText:
		return &llm.Text{Meta: meta, Text: p.Text.Value().String()}
	case PartRefusal:
		return &llm.Refusal{Meta: meta, Text: p.Refusal.Value().String()}
	case PartImageURL, PartInputAudio, PartFile:
		m := decodeMedia(meta, p)
		keepOdd(m, p)
		return m
	}
	return &llm.Opaque{Meta: meta, Protocol: own, Type: string(p.Type.Value()), Raw: rawOf(p)}
}

// assistant reads what the model said in an earlier turn: its reasoning, its
// text, its refusal, its calls.
func (d *requestDecoder) assistant(at int, m *Message, carried []llm.Seal) ([]llm.Block, bool) {
	var blocks []llm.Block
	if t := decodeThought(m); t != nil {
		blocks = append(blocks, t)
	}
	said, list := decodeContent(m.Content)
	if len(carried) > 0 {
		said = seal(said, carried)
	}
	if len(said) == 1 && m.ToolCalls.IsSet() {
		if t, ok := said[0].(*llm.Text); ok && t.Text == "" && len(t.Seals) == 0 {
			said = nil // an empty text beside calls says nothing
		}
	}
	blocks = append(blocks, said...)
	if r, ok := m.Refusal.Get(); ok {
		blocks = append(blocks, &llm.Refusal{Text: r.String(), Meta: llm.Meta{Ext: llm.Ext{Protocol: own, Members: []llm.Member{{Name: refusalMark, Value: "true"}}}}})
	}
	for j, c := range m.ToolCalls.Value() {
		blocks = append(blocks, decodeCall(&c, at, j))
	}
	if f, ok := m.FunctionCall.Get(); ok {
		call := &llm.ToolCall{Kind: llm.FunctionTool, Name: f.Name.Value(), Args: f.Arguments.Value().String(), Synthetic: true,
			CallID: llm.MintID("call_", strconv.Itoa(at), f.Name.Value())}
		call.Ext = llm.Ext{Protocol: own, Members: []llm.Member{{Name: legacyMark, Value: "true"}}}
		if d.fifo == nil {
			d.fifo = map[string][]string{}
		}
		d.fifo[call.Name] = append(d.fifo[call.Name], call.CallID)
		blocks = append(blocks, call)
	}
	if a, ok := m.Audio.Get(); ok {
		blocks = append(blocks, &llm.Opaque{Protocol: own, Type: "audio", Raw: rawOf(a)})
	}
	return blocks, list
}

// unseal reads the seals that a client has sent back, and notes how they came.
func unseal(e *llm.Ext) []llm.Seal {
	seals := protocol.Uncarry(e.Get(protocol.CarrierMember))
	for i := range e.Members {
		if len(seals) > 0 && e.Members[i].Name == protocol.CarrierMember {
			e.Members[i].Name = spelled(protocol.CarrierMember)
		}
	}
	return seals
}

// seal puts seals on the last text; they had no other place on the wire.
func seal(blocks []llm.Block, seals []llm.Seal) []llm.Block {
	if len(blocks) == 0 {
		blocks = []llm.Block{&llm.Text{}}
	}
	meta := blocks[len(blocks)-1].Common()
	meta.Seals = append(meta.Seals, seals...)
	return blocks
}

func extraRaw(e wire.Extra, name string) llm.Raw {
	v, _ := e.Get(name)
	return llm.Raw(v)
}

// result reads a tool message, or one of the deprecated kind.
func (d *requestDecoder) result(m *Message) *llm.ToolResult {
	r := &llm.ToolResult{CallID: m.ToolCallID.Value(), Name: m.Name.Value(), Meta: llm.Meta{Ext: extOf(m.Extra)}}
	r.Blocks, r.Listed = decodeContent(m.Content)
	r.Missing = !m.Content.IsSet()
	if m.Role.Value() != RoleFunction {
		return r
	}
	r.Ext.Protocol, r.Ext.Members = own, append(r.Ext.Members, llm.Member{Name: legacyMark, Value: "true"})
	if waiting := d.fifo[r.Name]; len(waiting) > 0 {
		r.CallID, d.fifo[r.Name] = waiting[0], waiting[1:]
	}
	return r
}

// messages writes the turns. Results follow the turn of their calls; what they
// hold beside text follows all of them in a message of the user (CRQ-43).
func (e *requestEncoder) messages() {
	e.ids = pair(e.in.Turns, e.report)
	e.foreign()
	out := make([]Message, 0, len(e.in.Turns))
	for i := range e.in.Turns {
		switch t := &e.in.Turns[i]; t.Role {
		case llm.Assistant:
			out = e.results(append(out, e.assistant(t, i)), e.ids.answers[i])
		case llm.ToolRole:
			out = e.results(out, legacyResults(t, i))
		default:
			out = append(out, e.message(t, i))
		}
	}
	e.out.Messages = wire.Some(out)
}

// legacyResults are the results that have no id to be paired by: they stay where
// they are.
func legacyResults(t *llm.Turn, turn int) []answered {
	var out []answered
	for j, b := range t.Blocks {
		if r, ok := b.(*llm.ToolResult); ok && isLegacy(r.Ext) {
			out = append(out, answered{result: r, path: blockPath(turn, j)})
		}
	}
	return out
}

func (e *requestEncoder) results(out []Message, list []answered) []Message {
	var late []Part
	for _, a := range list {
		m, media := e.result(a)
		out, late = append(out, m), append(late, media...)
	}
	if len(late) > 0 {
		out = append(out, Message{Role: wire.Some(RoleUser), Content: wire.Some(Content{Parts: wire.Some(late)})})
	}
	return out
}

// message writes a turn of the system, the developer or the user.
func (e *requestEncoder) message(t *llm.Turn, turn int) Message {
	m := Message{Role: wire.Some(Role(t.Role)), Name: text(t.Name), Extra: extraOf(t.Ext)}
	if t.Role == llm.Developer && e.target.Gates.SystemOnly {
		m.Role = wire.Some(RoleSystem)
	}
	var parts []Part
	for j, b := range t.Blocks {
		if p, ok := e.part(b, blockPath(turn, j)); ok {
			parts = append(parts, p)
		}
	}
	m.Content = wire.Some(contentOf(parts, t.List))
	return m
}

// contentOf is plain text where that says it all.
func contentOf(parts []Part, list bool) Content {
	if len(parts) == 0 && !list {
		return NewContent("")
	}
	if len(parts) == 1 && !list && plain(parts[0]) {
		return Content{Text: parts[0].Text}
	}
	return Content{Parts: wire.Some(parts)}
}

func plain(p Part) bool {
	return p.Type.Value() == PartText && !p.PromptCacheBreakpoint.IsSet() && len(p.Extra.All()) == 0
}

// part writes one block of a turn that is not the model's own.
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
			if partShape.Unmarshal([]byte(b.Raw), &same) == nil {
				return same, true
			}
		}
		e.report.Refuse(path, "block.unknown", "chat completions have no content part like "+strconv.Quote(b.Type))
	case *llm.ServerCall:
		if b.Digest == "" {
			e.report.Drop(path, "server_tool.dropped", "what a tool that the vendor ran did is left out")
			return p, false
		}
		e.report.Approximate(path, "server_tool.digest", "a tool that the vendor ran is told as text")
		p.Type, p.Text = wire.Some(PartText), wire.Some(wire.NewText(b.Digest))
		return p, true
	case *llm.ToolResult: // it stands behind its call
	default:
		e.report.Refuse(path, "block.misplaced", "only the assistant can think and call tools")
	}
	return p, false
}

// breakpoint asks for caching only where this protocol's own client did; most
// servers refuse the member.
func (e *requestEncoder) breakpoint(c *llm.CacheMark, path string) wire.Opt[PromptCacheOptions] {
	if c.Ext.Protocol == own {
		return wire.Some(PromptCacheOptions{TTL: text(c.TTL), Extra: extraOf(c.Ext)})
	}
	e.report.Drop(path, "cache.mark", "this protocol's servers cache by themselves")
	return wire.Opt[PromptCacheOptions]{}
}

// assistant writes an earlier answer of the model.
func (e *requestEncoder) assistant(t *llm.Turn, turn int) Message {
	m := Message{Role: wire.Some(RoleAssistant), Name: text(t.Name), Extra: extraOf(t.Ext)}
	var parts []Part
	var said strings.Builder
	for j, b := range t.Blocks {
		at := blockPath(turn, j)
		switch b := b.(type) {
		case *llm.Thought:
			e.thought(&m, b, at)
		case *llm.Refusal:
			if t.List && b.Ext.Get(refusalMark) == "" {
				parts = append(parts, Part{Type: wire.Some(PartRefusal), Refusal: wire.Some(wire.NewText(b.Text)), Extra: extraOf(b.Ext)})
				continue
			}
			m.Refusal = wire.Some(wire.NewText(b.Text))
		case *llm.ToolCall:
			if !e.ids.left[b] {
				e.call(&m, b)
			}
		case *llm.Text:
			said.WriteString(b.Text)
			if p, ok := e.part(b, at); ok {
				parts = append(parts, p)
			}
		case *llm.Opaque:
			if b.Protocol == own && b.Type == "audio" {
				var a Audio
				if audioShape.Unmarshal([]byte(b.Raw), &a) == nil {
					m.Audio = wire.Some(a)
				}
				continue
			}
			e.report.Drop(at, "block.unknown", "chat completions have nothing like "+strconv.Quote(b.Type))
		case *llm.Media:
			if p, ok := e.part(b, at); ok && e.in.Ext.Protocol == own {
				parts = append(parts, p)
			} else if ok {
				e.report.Drop(at, "media.assistant", "an answer of the assistant can hold no media here")
			}
		default:
			if p, ok := e.part(b, at); ok {
				said.WriteString(p.Text.Value().String())
				parts = append(parts, p)
			}
		}
	}
	switch {
	case t.List:
		m.Content = wire.Some(Content{Parts: wire.Some(parts)})
	case len(parts) > 0:
		m.Content = wire.Some(NewContent(said.String()))
	case !m.ToolCalls.IsSet() && !m.FunctionCall.IsSet() && !m.Refusal.IsSet() && !m.Audio.IsSet():
		m.Content = wire.Some(NewContent(""))
	}
	return m
}

// result writes a tool's result, and gives back what has no place in it.
func (e *requestEncoder) result(a answered) (Message, []Part) {
	r, path := a.result, a.path
	m := Message{Role: wire.Some(RoleTool), ToolCallID: wire.Some(a.id), Extra: extraOf(r.Ext)}
	if isLegacy(r.Ext) {
		m.Role, m.ToolCallID = wire.Some(RoleFunction), wire.Opt[string]{}
	}
	if e.in.Ext.Protocol == own { // elsewhere it is the tool's name, and not the participant's
		m.Name = text(r.Name)
	}
	var parts, media []Part
	for _, b := range r.Blocks {
		p, ok := e.part(b, path)
		switch {
		case !ok:
		case p.Type.Value() == PartText:
			parts = append(parts, p)
		default:
			media = append(media, p)
		}
	}
	if r.Failed {
		e.report.Approximate(path, "tool_result.error_as_text", "a tool's failure is told in its text")
		parts = append([]Part{{Type: wire.Some(PartText), Text: wire.Some(wire.NewText("[tool error]"))}}, parts...)
	}
	if len(media) > 0 {
		e.report.Approximate(path, "tool_result.media_split", "what a tool gave beside text follows in a message of the user")
		parts = append(parts, Part{Type: wire.Some(PartText), Text: wire.Some(wire.NewText("[" + strconv.Itoa(len(media)) + " attachment(s) of this result follow in the next user message]"))})
		media = append([]Part{{Type: wire.Some(PartText), Text: wire.Some(wire.NewText("Attachment(s) of the result of tool call " + a.id + ":"))}}, media...)
	}
	m.Content = wire.Some(contentOf(joinText(parts, r.Listed), r.Listed))
	if r.Missing {
		m.Content = wire.Some(NewContent(""))
	}
	return m, media
}

// joinText makes one text of several: many servers take only a string in a tool
// message.
func joinText(parts []Part, list bool) []Part {
	if list || len(parts) < 2 {
		return parts
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, p.Text.Value().String())
	}
	return []Part{{Type: wire.Some(PartText), Text: wire.Some(wire.NewText(strings.Join(texts, "\n")))}}
}
