package openaichat

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// EncodeResponse encodes a non-streaming response.
func (Codec) EncodeResponse(resp *llm.Response, req *llm.Request, report *llm.Report) []byte {
	kept := keptResponse(resp.Ext)
	r := Response{
		ID: wire.Some(kept.ID.Or(valid(resp.ID))), Object: wire.Some("chat.completion"), Created: wire.Some(kept.Created.Or(wire.Int(resp.Created))),
		Model: wire.Some(kept.Model.Or(valid(resp.Model))), Usage: kept.Usage, ServiceTier: kept.ServiceTier,
		SystemFingerprint: kept.SystemFingerprint, Moderation: kept.Moderation, Metadata: kept.Metadata, Extra: kept.Extra,
	}
	codec.DropExt(report, "response", resp.Ext, protocol.OpenAIChat)
	if !r.ServiceTier.IsSet() {
		r.ServiceTier = wire.NonZero(openai.Tier(resp.Tier, report))
	}
	var choices wire.List[Choice]
	for i := range resp.Choices {
		c := encodeResponseChoice(&resp.Choices[i], req, report)
		choices.Append(&c)
	}
	r.Choices = wire.Some(choices)
	if resp.Usage != nil && r.Usage.Kind() != '{' {
		r.Usage = appendUsage(nil, resp.Usage)
	}
	b, err := wire.Marshal(&r)
	if err != nil { // cannot happen: every part was made here
		return Codec{}.EncodeError(&llm.Error{Kind: llm.Internal, Message: "the response cannot be encoded as a chat completion"})
	}
	return b
}

func appendUsage(b []byte, u *llm.Usage) []byte {
	in, out := u.TotalInput(), u.TotalOutput()
	b = strconv.AppendInt(append(b, `{"prompt_tokens":`...), in, 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), out, 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), in+out, 10)
	b = strconv.AppendInt(append(b, `,"prompt_tokens_details":{"cached_tokens":`...), u.CacheRead, 10)
	if u.CacheWrite > 0 {
		b = strconv.AppendInt(append(b, `,"cache_write_tokens":`...), u.CacheWrite, 10)
	}
	b = strconv.AppendInt(append(b, `},"completion_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	return append(b, "}}"...)
}

// messageEncoder builds the message of a choice.
type messageEncoder struct {
	message    Message
	content    strings.Builder
	parts      wire.List[Part] // of a content that is a list
	listed     int             // bytes of content that are already in parts
	reasoning  map[string]string
	notes      wire.List[Annotation]
	details    wire.List[wire.Raw]
	thoughts   int
	probs      Logprobs
	runes      int // of content, in code points
	hasContent bool
	refused    bool
}

func encodeResponseChoice(c *llm.Choice, req *llm.Request, report *llm.Report) Choice {
	kept := keptChoice(c.Ext)
	s := messageEncoder{message: kept.Message.Value(), reasoning: map[string]string{}}
	s.message.Role, s.message.Content, s.message.Refusal = wire.Some(s.message.Role.Or(RoleAssistant)), wire.Null[Content](), wire.Null[wire.Text]()
	for _, b := range c.Blocks {
		s.add(b, req, report)
	}
	out := Choice{Index: wire.Some(wire.Int(int64(c.Index))), Message: wire.Some(s.whole()), Logprobs: wire.Null[Logprobs](), Extra: kept.Extra}
	if s.probs.Content.IsSet() || s.probs.Refusal.IsSet() {
		out.Logprobs = wire.Some(s.probs)
	}
	if kept.Logprobs.IsSet() { // complete: also holds the lists of tokens outside the blocks
		out.Logprobs = kept.Logprobs
	}
	legacy := s.message.FunctionCall.IsSet()
	out.FinishReason = wire.Some(kept.FinishReason.Or(finishOf(c.Stop, s.refused, s.message.ToolCalls.IsSet() || legacy, legacy)))
	codec.DropExt(report, "choices", c.Ext, protocol.OpenAIChat)
	openai.ReportStop(stops, c.Stop, s.refused, report)
	return out
}

func (s *messageEncoder) add(b llm.Block, req *llm.Request, report *llm.Report) {
	switch b := b.(type) {
	case *llm.Text:
		s.hasContent = true
		s.content.WriteString(b.Text)
		codec.DropExt(report, "choices.blocks", b.Ext, "") // content is a string, so its members are lost in this protocol too
		if b.Phase != "" {
			report.Drop("choices.blocks.phase", "text.phase", "chat completions do not distinguish commentary from the final answer")
		}
		s.cite(b, report)
		s.runes += utf8.RuneCountInString(b.Text)
		if c := codec.Carry(b.Seals, protocol.OpenAIChat); c != "" && extraRaw(s.message.Extra, codec.CarrierMember) == "" {
			s.message.Extra.Set(codec.CarrierMember, wire.Raw(c))
		}
		setLogprobs(&s.probs.Content, b.Logprobs)
	case *llm.Refusal:
		s.refused = true
		codec.DropExt(report, "choices.blocks", b.Ext, "")
		s.message.Refusal = wire.Some(wire.NewText(s.message.Refusal.Value().String() + b.Text))
		setLogprobs(&s.probs.Refusal, b.Logprobs)
	case *llm.Thought:
		codec.DropExt(report, "choices.blocks", b.Ext, protocol.OpenAIChat)
		if b.Text(llm.SummaryReasoning) != "" {
			report.Approximate("choices.blocks", "reasoning.summary", "a summary of the reasoning looks like all of it here")
		}
		s.think(b)
		for _, d := range detailsOf(b.Seals, s.thoughts, b.Text("")) {
			s.details.Append(&d)
		}
		if b.Ext.Protocol != own {
			s.thoughts++
		}
	case *llm.ToolCall:
		addResponseCall(&s.message, b, req, report)
	case *llm.Opaque:
		var p Part
		if b.Protocol != own || wire.UnmarshalLenient([]byte(b.Raw), &p) != nil {
			report.Drop("choices", "block.unknown", "chat completions have no field for a part of the response")
			return
		}
		s.part(&p)
	default:
		report.Drop("choices", "block.unknown", "chat completions have no field for a part of the response")
	}
}

// think writes reasoning under the member names, or as the content parts, that it
// came in.
func (s *messageEncoder) think(t *llm.Thought) {
	names, parts := reasoningNames(t.Ext)
	if parts.Len() > 0 {
		for _, p := range parts.All() {
			s.part(p)
		}
		return
	}
	for _, name := range names {
		text := t.Text("")
		if raw := t.Ext.Get(originalMark(name)); raw != "" { // a server may send two texts
			_ = json.Unmarshal([]byte(raw), &text, wire.Lenient) // cannot fail: it was decoded from a string
		}
		s.reasoning[name] += text
	}
}

// part appends a content part. The content is a list from then on.
func (s *messageEncoder) part(p *Part) {
	s.flush()
	s.parts.Append(p)
}

// flush appends the text that is not in parts yet as a part.
func (s *messageEncoder) flush() {
	if text := s.content.String()[s.listed:]; text != "" {
		s.parts.Append(&Part{Type: wire.Some(PartText), Text: wire.Some(wire.NewText(text))})
		s.listed = s.content.Len()
	}
}

func (s *messageEncoder) whole() Message {
	m := s.message
	for name, text := range m.reasoning() {
		if s.reasoning[name] != "" {
			*text = wire.Some(wire.NewText(s.reasoning[name]))
		}
	}
	if s.details.Len() > 0 && !m.ReasoningDetails.IsSet() {
		m.ReasoningDetails = wire.Some(s.details)
	}
	if s.notes.Len() > 0 {
		s.notes.Join(m.Annotations.Value())
		m.Annotations = wire.Some(s.notes)
	}
	switch other := m.ToolCalls.IsSet() || m.FunctionCall.IsSet() || m.Audio.IsSet() || s.refused; {
	case s.parts.Len() > 0:
		s.flush()
		m.Content = wire.Some(Content{Parts: wire.Some(s.parts)})
	case s.hasContent || !other:
		m.Content = wire.Some(NewContent(s.content.String()))
	}
	return m
}

// cite appends the citations of a text.
func (s *messageEncoder) cite(t *llm.Text, report *llm.Report) {
	for _, c := range t.Citations {
		switch a, ok := originalAnnotation(c); {
		case ok && s.runes == 0:
			s.notes.Append(&a)
		case c.URL != "":
			a = annotation(c, s.runes, utf8.RuneCountInString(t.Text))
			s.notes.Append(&a)
		default:
			report.Drop("choices.blocks.citations", "citation.no_url", "a citation without an address has no place in chat completions")
		}
	}
}

// originalAnnotation returns the original annotation of a citation from this
// protocol.
func originalAnnotation(c llm.Citation) (Annotation, bool) {
	var a Annotation
	return a, c.Protocol == own && c.Raw != "" && wire.UnmarshalLenient([]byte(c.Raw), &a) == nil
}

// annotation encodes a citation. Its span counts code points of the whole
// content; the block's text begins at offset and has a number of code points.
func annotation(c llm.Citation, offset, runes int) Annotation {
	if c.End == 0 {
		c.End = runes
	}
	return Annotation{Type: wire.Some("url_citation"), URLCitation: wire.Some(URLCitation{
		StartIndex: wire.Some(wire.Int(int64(offset + c.Start))), EndIndex: wire.Some(wire.Int(int64(offset + c.End))),
		Title: wire.Some(wire.NewText(c.Title)), URL: wire.Some(wire.NewText(c.URL)),
	})}
}

func setLogprobs(to *wire.Opt[wire.List[wire.Raw]], raw llm.Raw) {
	var list wire.List[wire.Raw]
	if raw != "" && wire.Unmarshal([]byte(raw), &list) == nil {
		all := to.Value()
		all.Join(list)
		*to = wire.Some(all)
	}
}

// valid replaces invalid UTF-8, which JSON cannot hold.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// legacy reports whether the client declared its tools in the deprecated form and
// expects a function_call.
func legacy(req *llm.Request) bool {
	return req != nil && len(req.Tools) > 0 && isLegacy(req.Tools[0].Ext)
}

// addResponseCall adds a call to a response's message. The deprecated form holds only
// one.
func addResponseCall(m *Message, c *llm.ToolCall, req *llm.Request, report *llm.Report) {
	codec.DropExt(report, "choices.blocks", c.Ext, protocol.OpenAIChat)
	if !utf8.ValidString(c.CallID) || !utf8.ValidString(c.Name) {
		report.Approximate("choices.blocks", "block.invalid", "a call's id or name is no UTF-8; what is broken in it was replaced")
	}
	out := encodeCall(c, valid(c.CallID), valid(c.Name))
	switch {
	case !legacy(req) && !isLegacy(c.Ext):
		m.addCall(&out)
	case m.FunctionCall.IsSet():
		report.Drop("choices.blocks", "tool_call.parallel", "the deprecated function_call has room for one call only")
	default:
		m.FunctionCall = out.Function
	}
}
