package openaichat

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (d *requestDecoder) turns() {
	for i, m := range d.wire.Messages.Value().All() {
		t := llm.Turn{Name: m.Name.Value(), Ext: extOf(m.Extra)}
		if m.Annotations.Value().Len() > 0 {
			t.Ext.Protocol = own
			keep(&t.Ext, "annotations", m.Annotations)
		}
		switch role := m.Role.Value(); role {
		case RoleSystem, RoleDeveloper, RoleUser:
			t.Role = llm.Role(role)
			t.Blocks, t.List = decodeContent(m.Content)
		case RoleAssistant:
			t.Role = llm.Assistant
			t.Blocks, t.List = d.assistant(i, m, unseal(&t.Ext))
			if (m.ToolCalls.IsSet() || m.FunctionCall.IsSet()) && emptyContent(m.Content) {
				// The model does not see the difference, but chat templates do.
				t.Ext.Protocol, t.Ext.Members = own, append(t.Ext.Members, llm.Member{Name: originalMark("content"), Value: rawOf(m.Content)})
			}
		case RoleTool, RoleFunction:
			t.Role, t.Name, t.Ext = llm.ToolRole, "", llm.Ext{}
			t.Blocks = []llm.Block{d.result(m)}
		default:
			d.fail("messages["+strconv.Itoa(i)+"].role", "the role "+strconv.Quote(string(role))+" is not known; write system, developer, user, assistant or tool")
		}
		d.out.Turns = append(d.out.Turns, t)
	}
}

// assistant decodes an assistant message: reasoning, text, refusal and calls.
func (d *requestDecoder) assistant(at int, m *Message, carried []llm.Seal) ([]llm.Block, bool) {
	blocks := decodeThoughts(m)
	said, list := decodeContent(m.Content)
	if len(carried) > 0 {
		said = seal(said, carried)
	}
	if len(said) == 1 && m.ToolCalls.IsSet() {
		if t, ok := said[0].(*llm.Text); ok && t.Text == "" && len(t.Seals) == 0 {
			said = nil // empty text beside calls has no meaning
		}
	}
	blocks = append(blocks, said...)
	if r, ok := m.Refusal.Get(); ok {
		blocks = append(blocks, &llm.Refusal{Text: r.String(), Meta: llm.Meta{Ext: llm.Ext{Protocol: own, Members: []llm.Member{{Name: refusalMark, Value: "true"}}}}})
	}
	for j, c := range m.ToolCalls.Value().All() {
		blocks = append(blocks, decodeCall(c, at, j))
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

// messages encodes the turns. Tool results follow the turn of their calls;
// content other than text follows them in a user message (CRQ-43).
func (e *requestEncoder) messages() {
	e.ids = pair(e.in.Turns, e.longestID(), e.report)
	e.foreign()
	var out wire.List[Message]
	for i := range e.in.Turns {
		switch t := &e.in.Turns[i]; t.Role {
		case llm.Assistant:
			m := e.assistant(t, i)
			out.Append(&m)
			e.results(&out, e.ids.answers[i])
		case llm.ToolRole:
			e.results(&out, legacyResults(t, i))
		default:
			m := e.message(t, i)
			out.Append(&m)
		}
	}
	e.out.Messages = wire.Some(out)
}

// message encodes a system, developer or user turn.
func (e *requestEncoder) message(t *llm.Turn, turn int) Message {
	m := Message{Role: wire.Some(Role(t.Role)), Name: wire.NonZero(t.Name), Extra: extraOf(t.Ext)}
	if t.Role == llm.Developer && e.target.Gates.SystemOnly {
		m.Role = wire.Some(RoleSystem)
	}
	var parts partList
	for j, b := range t.Blocks {
		if p, ok := e.part(b, blockPath(turn, j)); ok {
			parts.add(p)
		}
	}
	m.Content = wire.Some(parts.content(t.List))
	return m
}

// assistant encodes an assistant turn.
func (e *requestEncoder) assistant(t *llm.Turn, turn int) Message {
	m := Message{Role: wire.Some(RoleAssistant), Name: wire.NonZero(t.Name), Extra: extraOf(t.Ext)}
	var parts partList
	var said strings.Builder
	for j, b := range t.Blocks {
		at := blockPath(turn, j)
		switch b := b.(type) {
		case *llm.Thought:
			e.thought(&m, b, at)
		case *llm.Refusal:
			if t.List && b.Ext.Get(refusalMark) == "" {
				parts.add(Part{Type: wire.Some(PartRefusal), Refusal: wire.Some(wire.NewText(b.Text)), Extra: extraOf(b.Ext)})
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
				parts.add(p)
			}
		case *llm.Opaque:
			if b.Protocol == own && b.Type == "audio" {
				var a Audio
				if wire.Unmarshal([]byte(b.Raw), &a) == nil {
					m.Audio = wire.Some(a)
				}
				continue
			}
			e.report.Drop(at, "block.unknown", "chat completions have nothing like "+strconv.Quote(b.Type))
		case *llm.Media:
			if p, ok := e.part(b, at); ok && e.in.Ext.Protocol == own {
				parts.add(p)
			} else if ok {
				e.report.Drop(at, "media.assistant", "an assistant message cannot hold media")
			}
		default:
			if p, ok := e.part(b, at); ok {
				said.WriteString(p.Text.Value().String())
				parts.add(p)
			}
		}
	}
	switch {
	case t.List:
		m.Content = wire.Some(parts.content(true))
	case parts.len() > 0:
		m.Content = wire.Some(NewContent(said.String()))
	case !m.ToolCalls.IsSet() && !m.FunctionCall.IsSet() && !m.Refusal.IsSet() && !m.Audio.IsSet():
		m.Content = wire.Some(NewContent(""))
	}
	return m
}
