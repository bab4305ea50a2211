package openaichat

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// finishToStop is what a finish reason means; words that servers use besides
// OpenAI's are among them, CST-22.
var finishToStop = map[FinishReason]llm.StopKind{
	FinishStop: llm.EndTurn, "end_turn": llm.EndTurn, "eos": llm.EndTurn, "stop_sequence": llm.EndTurn,
	FinishLength: llm.MaxTokens, "max_tokens": llm.MaxTokens, "incomplete": llm.MaxTokens,
	FinishToolCalls: llm.ToolUse, FinishFunctionCall: llm.ToolUse, "tool_use": llm.ToolUse,
	FinishContentFilter: llm.ContentFilter, "safety": llm.ContentFilter,
}

// stopToFinish is the way back.
var stopToFinish = map[llm.StopKind]FinishReason{
	llm.EndTurn: FinishStop, llm.StopSequence: FinishStop,
	llm.MaxTokens: FinishLength, llm.ContextWindow: FinishLength, llm.Pause: FinishLength,
	llm.ToolUse: FinishToolCalls,
	llm.Refused: FinishContentFilter, llm.ContentFilter: FinishContentFilter, llm.PromptBlocked: FinishContentFilter,
}

// stopOf reads a finish reason. A call makes a plain end a wish to have it run,
// and without one there is nothing to run (INV-12).
func stopOf(reason FinishReason, called, refused bool) llm.Stop {
	kind, ok := finishToStop[reason]
	if !ok {
		kind = llm.Other
	}
	switch {
	case (kind == llm.EndTurn || kind == llm.Other) && called:
		kind = llm.ToolUse
	case kind == llm.ToolUse && !called:
		kind = llm.EndTurn
	case kind == llm.EndTurn && refused:
		kind = llm.Refused
	}
	return llm.Stop{Kind: kind, Raw: string(reason)}
}

// finishOf writes a stop. A refusal in words is a plain end here, with the words
// in their own member. Whatever the source says, a plain end behind a call means
// that it is to be run, and nothing else does (INV-12).
func finishOf(s llm.Stop, refused, called bool) FinishReason {
	f, ok := stopToFinish[s.Kind]
	switch {
	case s.Kind == llm.Refused && refused:
		f = FinishStop
	case !ok && s.Raw != "":
		f = FinishReason(strings.ToLower(s.Raw)) // an end that is not clean must not look so
	case !ok:
		f = FinishStop
	}
	switch {
	case f == FinishStop && called:
		return FinishToolCalls
	case f == FinishToolCalls && !called:
		return FinishStop
	}
	return f
}

// DecodeResponse reads a whole answer.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	var r Response
	if err := responseShape.UnmarshalLenient(body, &r); err != nil {
		return nil, invalidAnswer("the upstream's answer is not a chat completion", err)
	}
	if raw, ok := r.Extra.Get("error"); ok && present(raw) {
		return nil, decodeError(raw)
	}
	out := &llm.Response{ID: r.ID.Value(), Model: r.Model.Value(), Tier: string(r.ServiceTier.Value()), Ext: extOf(r.Extra)}
	if n, err := r.Created.Value().Int64(); err == nil {
		out.Created = n
	}
	out.Usage = usageOf(r.Usage)
	for i, c := range r.Choices.Value() {
		out.Choices = append(out.Choices, decodeAnswer(&c, i, out.ID))
	}
	if len(out.Choices) == 0 {
		return nil, invalidAnswer("the upstream's answer has no choices", nil)
	}
	return out, nil
}

func invalidAnswer(message string, cause error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: message, Cause: cause}
}

func usageOf(u wire.Opt[Usage]) *llm.Usage {
	v, ok := u.Get()
	if !ok {
		return nil
	}
	var t usage
	if json.Unmarshal([]byte(rawOf(v)), &t, lenient) != nil {
		return nil
	}
	return t.neutral()
}

func decodeAnswer(c *Choice, position int, id string) llm.Choice {
	out := llm.Choice{Index: position, Ext: extOf(c.Extra)}
	if n, err := c.Index.Value().Int64(); err == nil && c.Index.IsSet() {
		out.Index = int(n)
	}
	m := c.Message.Value()
	if t := decodeThought(&m); t != nil && (len(t.Parts) > 0 || len(t.Seals) > 0) {
		out.Blocks = append(out.Blocks, t)
	}
	out.Blocks = append(out.Blocks, decodeSaid(&m, c.Logprobs.Value().Content)...)
	refused := false
	if r, ok := m.Refusal.Get(); ok && !r.IsEmpty() {
		refused = true
		out.Blocks = append(out.Blocks, &llm.Refusal{Text: r.String(), Logprobs: logprobsOf(c.Logprobs.Value().Refusal)})
	}
	called := false
	for j, tc := range m.ToolCalls.Value() {
		call := decodeCall(&tc, out.Index, j)
		if call.Synthetic {
			call.CallID = llm.MintID("call_", id, strconv.Itoa(out.Index), strconv.Itoa(j), call.Name)
		}
		called = called || call.Name != ""
		out.Blocks = append(out.Blocks, call)
	}
	if f, ok := m.FunctionCall.Get(); ok && f.Name.Value() != "" {
		called = true
		out.Blocks = append(out.Blocks, &llm.ToolCall{Kind: llm.FunctionTool, Name: f.Name.Value(), Args: f.Arguments.Value().String(),
			Synthetic: true, CallID: llm.MintID("call_", id, strconv.Itoa(out.Index), f.Name.Value())})
	}
	out.Stop = stopOf(c.FinishReason.Value(), called, refused)
	return out
}

// decodeSaid reads the content of an answer. Seals of other protocols that came with
// the message are the text's.
func decodeSaid(m *Message, logprobs wire.Opt[[]TokenLogprob]) []llm.Block {
	said, _ := decodeContent(m.Content)
	if carried := protocol.Uncarry(extraRaw(m.Extra, protocol.CarrierMember)); len(carried) > 0 {
		said = seal(said, carried)
	}
	blocks := make([]llm.Block, 0, len(said))
	for _, b := range said {
		switch x := b.(type) {
		case *llm.Text:
			if x.Text == "" && len(x.Seals) == 0 {
				continue
			}
			x.Citations, x.Logprobs = citationsOf(m.Annotations.Value()), logprobsOf(logprobs)
		case *llm.Opaque:
			if t := thinkingPart(x); t != nil {
				b = t
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// thinkingPart reads the part that Mistral's models think in.
func thinkingPart(o *llm.Opaque) *llm.Thought {
	var p struct {
		Thinking []struct {
			Text string `json:"text"`
		} `json:"thinking"`
	}
	if o.Type != "thinking" || json.Unmarshal([]byte(o.Raw), &p, lenient) != nil {
		return nil
	}
	text := ""
	for _, t := range p.Thinking {
		text += t.Text
	}
	return &llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: text}}}
}

func citationsOf(list []Annotation) []llm.Citation {
	if len(list) == 0 {
		return nil
	}
	out := make([]llm.Citation, 0, len(list))
	for _, a := range list {
		u := a.URLCitation.Value()
		start, _ := u.StartIndex.Value().Int64()
		end, _ := u.EndIndex.Value().Int64()
		out = append(out, llm.Citation{Start: int(start), End: int(end), URL: u.URL.Value().String(), Title: u.Title.Value().String(), Protocol: own, Raw: rawOf(a)})
	}
	return out
}

func logprobsOf(list wire.Opt[[]TokenLogprob]) llm.Raw {
	if !list.IsSet() {
		return ""
	}
	return rawOf(list)
}

// EncodeResponse writes a whole answer.
func (Codec) EncodeResponse(resp *llm.Response, ask *llm.Request, report *llm.Report) []byte {
	r := Response{
		ID: wire.Some(valid(resp.ID)), Object: wire.Some(ObjectCompletion), Created: wire.Some(wire.Int(resp.Created)), Model: wire.Some(valid(resp.Model)),
		Extra: extraOf(resp.Ext),
	}
	protocol.DropExt(report, "response", resp.Ext, protocol.OpenAIChat)
	if resp.Tier != "" {
		r.ServiceTier = wire.Some(ServiceTier(valid(resp.Tier)))
	}
	choices := make([]Choice, 0, len(resp.Choices))
	for i := range resp.Choices {
		choices = append(choices, encodeAnswer(&resp.Choices[i], ask, report))
	}
	r.Choices = wire.Some(choices)
	if resp.Usage != nil {
		r.Usage = wire.Some(encodeUsage(resp.Usage))
	}
	b, err := responseShape.Marshal(&r)
	if err != nil { // every part of it was made here
		return Codec{}.EncodeError(&llm.Error{Kind: llm.Internal, Message: "the answer cannot be written as a chat completion"})
	}
	return b
}

func encodeUsage(u *llm.Usage) Usage {
	in, out := u.TotalInput(), u.TotalOutput()
	d := PromptTokensDetails{CachedTokens: wire.Some(wire.Int(u.CacheRead))}
	if u.CacheWrite > 0 {
		d.CacheWriteTokens = wire.Some(wire.Int(u.CacheWrite))
	}
	return Usage{
		PromptTokens: wire.Some(wire.Int(in)), CompletionTokens: wire.Some(wire.Int(out)), TotalTokens: wire.Some(wire.Int(in + out)),
		PromptTokensDetails:     wire.Some(d),
		CompletionTokensDetails: wire.Some(CompletionTokensDetails{ReasoningTokens: wire.Some(wire.Int(u.Reasoning))}),
	}
}

// speech is a message on its way out.
type speech struct {
	message   Message
	said      strings.Builder
	reasoning strings.Builder
	notes     []Annotation
	details   []wire.Raw
	probs     Logprobs
	runes     int // of what was said
	spoke     bool
	refused   bool
}

func encodeAnswer(c *llm.Choice, ask *llm.Request, report *llm.Report) Choice {
	s := speech{message: Message{Role: wire.Some(RoleAssistant), Content: wire.Null[Content](), Refusal: wire.Null[wire.Text]()}}
	for _, b := range c.Blocks {
		s.add(b, ask, report)
	}
	out := Choice{Index: wire.Some(wire.Int(int64(c.Index))), Message: wire.Some(s.whole()), Logprobs: wire.Null[Logprobs](), Extra: extraOf(c.Ext)}
	if s.probs.Content.IsSet() || s.probs.Refusal.IsSet() {
		out.Logprobs = wire.Some(s.probs)
	}
	out.FinishReason = wire.Some(finishOf(c.Stop, s.refused, s.message.ToolCalls.IsSet() || s.message.FunctionCall.IsSet()))
	if out.FinishReason.Value() == FinishToolCalls && s.message.FunctionCall.IsSet() {
		out.FinishReason = wire.Some(FinishFunctionCall)
	}
	protocol.DropExt(report, "choices", c.Ext, protocol.OpenAIChat)
	reportStop(c.Stop, s.refused, report)
	return out
}

func (s *speech) add(b llm.Block, ask *llm.Request, report *llm.Report) {
	switch b := b.(type) {
	case *llm.Text:
		s.spoke = true
		s.said.WriteString(b.Text)
		protocol.DropExt(report, "choices.blocks", b.Ext, "") // a text is no object, so it has no members of its own either
		if b.Phase != "" {
			report.Drop("choices.blocks.phase", "text.phase", "chat completions do not tell comments from answers")
		}
		s.cite(b, report)
		s.runes += utf8.RuneCountInString(b.Text)
		if c := protocol.Carry(b.Seals, protocol.OpenAIChat); c != "" {
			s.message.Extra.Set(protocol.CarrierMember, wire.Raw(c))
		}
		setLogprobs(&s.probs.Content, b.Logprobs)
	case *llm.Refusal:
		s.refused = true
		protocol.DropExt(report, "choices.blocks", b.Ext, "")
		s.message.Refusal = wire.Some(wire.NewText(s.message.Refusal.Value().String() + b.Text))
		setLogprobs(&s.probs.Refusal, b.Logprobs)
	case *llm.Thought:
		protocol.DropExt(report, "choices.blocks", b.Ext, protocol.OpenAIChat)
		if b.Text(llm.SummaryReasoning) != "" {
			report.Approximate("choices.blocks", "reasoning.summary", "a summary of the reasoning looks like all of it here")
		}
		s.reasoning.WriteString(b.Text(""))
		s.details = append(s.details, detailsOf(b.Seals, len(s.details))...)
	case *llm.ToolCall:
		answerCall(&s.message, b, ask, report)
	default:
		report.Drop("choices", "block.unknown", "chat completions have no place for a part of the answer")
	}
}

func (s *speech) whole() Message {
	m := s.message
	if s.reasoning.Len() > 0 {
		m.ReasoningContent = wire.Some(wire.NewText(s.reasoning.String()))
	}
	if len(s.details) > 0 {
		m.ReasoningDetails = wire.Some(s.details)
	}
	if len(s.notes) > 0 {
		m.Annotations = wire.Some(s.notes)
	}
	if s.spoke || !m.ToolCalls.IsSet() && !m.FunctionCall.IsSet() && !s.refused {
		m.Content = wire.Some(NewContent(s.said.String()))
	}
	return m
}

// cite writes the citations of a text that is being said.
func (s *speech) cite(t *llm.Text, report *llm.Report) {
	for _, c := range t.Citations {
		switch a, ok := sameAnnotation(c); {
		case ok && s.runes == 0:
			s.notes = append(s.notes, a)
		case c.URL != "":
			s.notes = append(s.notes, annotation(c, s.runes, t.Text))
		default:
			report.Drop("choices.blocks.citations", "citation.no_url", "a citation without an address has no place in chat completions")
		}
	}
}

// sameAnnotation writes a citation of this protocol's own again as it was.
func sameAnnotation(c llm.Citation) (Annotation, bool) {
	var a Annotation
	return a, c.Protocol == own && c.Raw != "" && annotationShape.UnmarshalLenient([]byte(c.Raw), &a) == nil
}

// annotation writes a citation. Spans count code points of the whole content, in
// which the block's text begins at offset.
func annotation(c llm.Citation, offset int, text string) Annotation {
	if c.End == 0 {
		c.End = utf8.RuneCountInString(text)
	}
	return Annotation{Type: wire.Some("url_citation"), URLCitation: wire.Some(URLCitation{
		StartIndex: wire.Some(wire.Int(int64(offset + c.Start))), EndIndex: wire.Some(wire.Int(int64(offset + c.End))),
		Title: wire.Some(wire.NewText(c.Title)), URL: wire.Some(wire.NewText(c.URL)),
	})}
}

func setLogprobs(to *wire.Opt[[]TokenLogprob], raw llm.Raw) {
	var list []TokenLogprob
	if raw != "" && json.Unmarshal([]byte(raw), &list, lenient) == nil {
		*to = wire.Some(append(to.Value(), list...))
	}
}

// valid is a text that JSON can hold.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// legacy reports whether the client declared its tools in the deprecated form and
// so waits for a function_call.
func legacy(ask *llm.Request) bool {
	return ask != nil && len(ask.Tools) > 0 && isLegacy(ask.Tools[0].Ext)
}

// answerCall writes a call into an answer. The deprecated form has room for one.
func answerCall(m *Message, c *llm.ToolCall, ask *llm.Request, report *llm.Report) {
	protocol.DropExt(report, "choices.blocks", c.Ext, protocol.OpenAIChat)
	if !utf8.ValidString(c.CallID) || !utf8.ValidString(c.Name) {
		report.Approximate("choices.blocks", "block.invalid", "a call's id or name is no UTF-8; what is broken in it was replaced")
	}
	out := encodeCall(c, valid(c.CallID), valid(c.Name))
	switch {
	case !legacy(ask):
		m.ToolCalls = wire.Some(append(m.ToolCalls.Value(), out))
	case m.FunctionCall.IsSet():
		report.Drop("choices.blocks", "tool_call.parallel", "the deprecated function_call has room for one call only")
	default:
		m.FunctionCall = out.Function
	}
}
