package openaichat

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// result decodes a tool message or a deprecated function message.
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

// legacyResults returns the results of deprecated function messages, which have
// no id to pair by and stay in place.
func legacyResults(t *llm.Turn, turn int) []pairedResult {
	var out []pairedResult
	for j, b := range t.Blocks {
		if r, ok := b.(*llm.ToolResult); ok && isLegacy(r.Ext) {
			out = append(out, pairedResult{result: r, path: blockPath(turn, j)})
		}
	}
	return out
}

// results encodes tool results. A message of the user with the parts that tool messages
// cannot hold follows them.
func (e *requestEncoder) results(out *wire.List[Message], list []pairedResult) {
	var late partList
	for _, a := range list {
		m := e.result(a, &late)
		out.Append(&m)
	}
	if late.len() > 0 {
		out.Append(&Message{Role: wire.Some(RoleUser), Content: wire.Some(late.content(true))})
	}
}

// result encodes a tool result. It adds the parts that a tool message cannot hold to late.
func (e *requestEncoder) result(a pairedResult, late *partList) Message {
	r, path := a.result, a.path
	m := Message{Role: wire.Some(RoleTool), ToolCallID: wire.Some(a.id), Extra: extraOf(r.Ext)}
	if isLegacy(r.Ext) {
		m.Role, m.ToolCallID = wire.Some(RoleFunction), wire.Opt[string]{}
	}
	if e.in.Ext.Protocol == own { // in other protocols it is the tool's name, not a participant's
		m.Name = wire.NonZero(r.Name)
	}
	var parts partList
	if r.Failed {
		e.report.Approximate(path, "tool_result.error_as_text", "a tool's failure is only part of its text")
		parts.add(textPart("[tool error]"))
	}
	media := 0
	for _, b := range r.Blocks {
		p, ok := e.part(b, path)
		switch {
		case !ok:
		case p.Type.Value() == PartText:
			parts.add(p)
		default:
			if media++; media == 1 {
				late.add(textPart("Attachment(s) of the result of tool call " + a.id + ":"))
			}
			late.add(p)
		}
	}
	if media > 0 {
		e.report.Approximate(path, "tool_result.media_split", "what a tool gave beside text follows in a message of the user")
		parts.add(textPart("[" + strconv.Itoa(media) + " attachment(s) of this result follow in the next user message]"))
	}
	m.Content = wire.Some(parts.content(r.Listed))
	if parts := m.Content.Value().Parts; !r.Listed && parts.Value().Len() > 1 { // many servers accept only a string in a tool message
		m.Content = wire.Some(NewContent(joinText(parts.Value())))
	}
	if r.Missing {
		m.Content = wire.Some(NewContent(""))
	}
	return m
}

// joinText joins the texts of parts, one per line.
func joinText(parts wire.List[Part]) string {
	var all strings.Builder
	for i, p := range parts.All() {
		if i > 0 {
			all.WriteByte('\n')
		}
		all.WriteString(p.Text.Value().String())
	}
	return all.String()
}

func textPart(s string) Part {
	return Part{Type: wire.Some(PartText), Text: wire.Some(wire.NewText(s))}
}

// pairing maps results to calls and gives both their id. Servers require the
// results of a turn directly behind it, and each id only once.
type pairing struct {
	ids     map[*llm.ToolCall]string
	left    map[*llm.ToolCall]bool // calls that are dropped because they have no result
	answers map[int][]pairedResult // results by the turn of their call
}

// pairedResult is a result together with its call.
type pairedResult struct {
	result *llm.ToolResult
	id     string
	path   string
}

// sentCall is a call of the conversation.
type sentCall struct {
	call     *llm.ToolCall
	turn     int
	path     string
	answered bool
}

func (p *pairing) of(c *llm.ToolCall) string { return p.ids[c] }

// pair finds the call of every result: the nearest earlier call with the same id
// that has no result yet (CRQ-02, CRQ-34). longest limits the ids.
func pair(turns []llm.Turn, longest int, report *llm.Report) *pairing {
	p := &pairing{ids: map[*llm.ToolCall]string{}, left: map[*llm.ToolCall]bool{}, answers: map[int][]pairedResult{}}
	used := codec.UniqueIDs{}
	var calls []*sentCall
	open := map[string][]*sentCall{} // calls without a result, by their id
	for i := range turns {
		for j, b := range turns[i].Blocks {
			path := blockPath(i, j)
			switch b := b.(type) {
			case *llm.ToolCall:
				if !isLegacy(b.Ext) {
					p.ids[b] = freeID(b.CallID, longest, used)
					c := &sentCall{call: b, turn: i, path: path}
					calls, open[b.CallID] = append(calls, c), append(open[b.CallID], c)
				}
			case *llm.ToolResult:
				if !isLegacy(b.Ext) {
					p.answer(b, path, open, report)
				}
			}
		}
	}
	for _, c := range calls {
		if !c.answered && c.turn+1 < len(turns) {
			report.Refuse(c.path, "tool_call.unanswered", "the call "+strconv.Quote(c.call.CallID)+" has no result; send one for every call")
			p.left[c.call] = true
		}
	}
	return p
}

// answer pairs a result with the last open call of its id.
func (p *pairing) answer(r *llm.ToolResult, path string, open map[string][]*sentCall, report *llm.Report) {
	same := open[r.CallID]
	if len(same) == 0 {
		report.Refuse(path, "tool_result.orphan", "there is no call with the id "+strconv.Quote(r.CallID)+" for this result")
		return
	}
	c := same[len(same)-1]
	open[r.CallID], c.answered = same[:len(same)-1], true
	p.answers[c.turn] = append(p.answers[c.turn], pairedResult{r, p.ids[c.call], path})
}

// freeID returns an id that servers accept and that no other call of the
// conversation uses.
func freeID(id string, longest int, used codec.UniqueIDs) string {
	return used.Add(func(n int) string {
		switch {
		case n > 1:
			return llm.SafeName(id+" "+strconv.Itoa(n), longest, idByte)
		case namesFunction(id):
			return id
		}
		return llm.SafeName(id, longest, idByte)
	})
}

// longestID returns the length of the longest id that the server accepts.
func (e *requestEncoder) longestID() int {
	if e.target.Gates.LongIDs {
		return math.MaxInt
	}
	return maxID
}

// idByte reports whether servers accept b in an id. A server gets its own ids back unchanged.
func idByte(b byte) bool { return b > ' ' && b < 0x7f && b != '"' && b != '\\' }

// namesFunction reports whether an id has the form functions.NAME:NUMBER. Kimi makes such ids and
// reads the function's name from them when they are sent back.
func namesFunction(id string) bool {
	rest, ok := strings.CutPrefix(id, "functions.")
	name, number, numbered := strings.Cut(rest, ":")
	return ok && numbered && name != "" && number != "" && len(name) <= maxName && len(number) <= maxID &&
		strings.Trim(number, "0123456789") == "" && llm.SafeName(name, maxName, llm.WordByte) == name
}

func blockPath(turn, block int) string {
	return codec.At("turns", turn) + "." + codec.At("blocks", block)
}

// decodeCall decodes a call of an assistant message; at and j are the indexes of
// the message and of the call.
func decodeCall(c *ToolCall, at, j int) *llm.ToolCall {
	out := &llm.ToolCall{CallID: c.ID.Value(), Kind: llm.FunctionTool}
	if cu, ok := c.Custom.Get(); ok {
		out.Kind, out.Name, out.Args = llm.CustomTool, cu.Name.Value(), cu.Input.Value().String()
		out.Ext = extWith(c.Extra, "custom", cu.Extra)
	} else {
		f := c.Function.Value()
		out.Name, out.Args = f.Name.Value(), f.Arguments.Value().String()
		out.Ext = extWith(c.Extra, "function", f.Extra)
	}
	if out.CallID == "" {
		out.CallID, out.Synthetic = llm.MintID("call_", strconv.Itoa(at), strconv.Itoa(j), out.Name), true
	}
	out.Seals = unseal(&out.Ext)
	return out
}

// call encodes a call of an assistant turn.
func (e *requestEncoder) call(m *Message, c *llm.ToolCall) {
	name := e.name(llm.ToolRef{Kind: c.Kind, Name: c.Name, Namespace: c.Namespace})
	if isLegacy(c.Ext) {
		m.FunctionCall = wire.Some(FunctionCall{Name: wire.Some(name), Arguments: wire.Some(NewArguments(c.Args))})
		return
	}
	sent := *c
	sent.Seals = e.carried(c.Seals)
	if e.wraps(c.Kind) {
		sent.Kind, sent.Args = llm.FunctionTool, `{"input":`+string(wire.AppendQuote(nil, c.Args))+"}"
	}
	out := encodeCall(&sent, e.ids.of(c), name)
	m.addCall(&out)
}

// carried returns the seals of a call that the model can read.
func (e *requestEncoder) carried(seals []llm.Seal) []llm.Seal {
	if !e.target.Gates.Carrier {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(seals), func(s llm.Seal) bool { return s.Origin != string(protocol.Gemini) })
}

func (m *Message) addCall(c *ToolCall) {
	calls := m.ToolCalls.Value()
	calls.Append(c)
	m.ToolCalls = wire.Some(calls)
}

// encodeCall encodes a call for a request or a response.
func encodeCall(c *llm.ToolCall, id, name string) ToolCall {
	kind := ToolTypeFunction
	if c.Kind == llm.CustomTool {
		kind = ToolTypeCustom
	}
	outer, inner := extrasOf(c.Ext, string(kind))
	out := ToolCall{ID: wire.Some(id), Type: wire.Some(kind), Extra: outer}
	// A seal of another protocol goes into the carrier member: clients send it
	// back, and Google's servers read it.
	if _, has := outer.Get(codec.CarrierMember); !has {
		if carried := codec.Carry(c.Seals, protocol.OpenAIChat); carried != "" {
			out.Extra.Set(codec.CarrierMember, wire.Raw(carried))
		}
	}
	if kind == ToolTypeCustom {
		out.Custom = wire.Some(CustomCall{Name: wire.Some(name), Input: wire.Some(wire.NewText(c.Args)), Extra: inner})
		return out
	}
	args := c.Args
	if args == "" && c.Ext.Get(noArgsMark) == "" { // most clients cannot parse an empty string as arguments, CST-09
		args = "{}"
	}
	out.Function = wire.Some(FunctionCall{Name: wire.Some(name), Arguments: wire.Some(NewArguments(args)), Extra: inner})
	return out
}
