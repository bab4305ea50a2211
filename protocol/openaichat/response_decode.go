package openaichat

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// joinAudio merges the pieces of an audio response.
func joinAudio(list wire.Raw) Audio {
	var pieces wire.List[Audio]
	if wire.Unmarshal(list, &pieces) != nil {
		return Audio{}
	}
	var out Audio
	var data [][]byte
	var transcript []byte
	for _, p := range pieces.All() {
		if out.ID.Value() == "" {
			out.ID = p.ID
		}
		if !p.ExpiresAt.IsAbsent() {
			out.ExpiresAt = p.ExpiresAt
		}
		if t, ok := p.Transcript.Get(); ok {
			transcript = t.AppendBody(transcript)
			out.Transcript = wire.Some(wire.JoinedText(transcript).Whole())
		}
		if d, ok := p.Data.Get(); ok {
			data = append(data, []byte(d.String()))
		}
		for _, m := range p.Extra.All() {
			out.Extra.Set(m.Name, m.Value)
		}
	}
	if data != nil {
		out.Data = wire.Some(wire.NewText(string(joinBase64(data))))
	}
	return out
}

// joinBase64 joins pieces that were each base64-encoded on their own. Padded
// pieces are decoded first.
func joinBase64(pieces [][]byte) []byte {
	plain := bytes.Join(pieces, nil)
	if end := bytes.IndexByte(plain, '='); end < 0 || len(bytes.TrimRight(plain[end:], "=")) == 0 {
		return plain
	}
	var sound []byte
	for _, p := range pieces {
		var err error
		if sound, err = base64.StdEncoding.AppendDecode(sound, p); err != nil {
			return plain // not base64, so the pieces stay as they are
		}
	}
	return base64.StdEncoding.AppendEncode(nil, sound)
}

// DecodeResponse decodes a non-streaming response.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	var r Response
	if err := wire.UnmarshalLenient(body, &r); err != nil {
		return nil, codec.InvalidResponse("the upstream's response is not a chat completion", err)
	}
	if raw, ok := r.Extra.Get("error"); ok && openai.HasValue(raw) {
		return nil, decodeError(raw)
	}
	out := &llm.Response{ID: r.ID.Value(), Model: r.Model.Value(), Tier: r.ServiceTier.Value(), Ext: responseExt(&r)}
	if n, err := r.Created.Value().Int64(); err == nil {
		out.Created = n
	}
	out.Usage = usageOf(r.Usage)
	for i, c := range r.Choices.Value().All() {
		out.Choices = append(out.Choices, decodeResponseChoice(c, i, out.ID))
	}
	if len(out.Choices) == 0 {
		return nil, codec.InvalidResponse("the upstream's response has no choices", nil)
	}
	return out, nil
}

func usageOf(raw wire.Raw) *llm.Usage {
	if u, ok := readUsage(raw); ok {
		return u.neutral()
	}
	return nil
}

func decodeResponseChoice(c *Choice, position int, id string) llm.Choice {
	out := llm.Choice{Index: position, Ext: choiceExt(c)}
	if n, err := c.Index.Value().Int64(); err == nil && c.Index.IsSet() {
		out.Index = int(n)
	}
	m := c.Message.Value()
	if t := decodeThought(&m); t != nil && (len(t.Parts) > 0 || len(t.Seals) > 0) {
		out.Blocks = append(out.Blocks, t)
	}
	out.Blocks = append(out.Blocks, decodeMessage(&m, c.Logprobs.Value().Content)...)
	refused := false
	if r, ok := m.Refusal.Get(); ok && !r.IsEmpty() {
		refused = true
		out.Blocks = append(out.Blocks, &llm.Refusal{Text: r.String(), Logprobs: logprobsOf(c.Logprobs.Value().Refusal)})
	}
	called := false
	for j, tc := range m.ToolCalls.Value().All() {
		call := decodeCall(tc, out.Index, j)
		if call.Synthetic {
			call.CallID = llm.MintID("call_", id, strconv.Itoa(out.Index), strconv.Itoa(j), call.Name)
		}
		if call.Args == "" && isCut(c.FinishReason.Value()) {
			addMember(&call.Ext, noArgsMark, "true")
		}
		called = called || call.Name != ""
		out.Blocks = append(out.Blocks, call)
	}
	if f, ok := m.FunctionCall.Get(); ok && f.Name.Value() != "" {
		called = true
		call := &llm.ToolCall{Kind: llm.FunctionTool, Name: f.Name.Value(), Args: f.Arguments.Value().String(),
			Synthetic: true, CallID: llm.MintID("call_", id, strconv.Itoa(out.Index), f.Name.Value())}
		call.Ext = extWith(wire.Extra{}, string(ToolTypeFunction), f.Extra)
		addMember(&call.Ext, legacyMark, "true")
		out.Blocks = append(out.Blocks, call)
	}
	out.Stop = stopOf(c.FinishReason.Value(), called, refused)
	keepFinish(&out.Ext, c.FinishReason.Value(), out.Stop, refused, called, m.FunctionCall.Value().Name.Value() != "")
	return out
}

// decodeMessage decodes the content of a response's message. Seals in the carrier
// member are attached to the text.
func decodeMessage(m *Message, logprobs wire.Opt[wire.List[wire.Raw]]) []llm.Block {
	said, _ := decodeContent(m.Content)
	if carried := codec.Uncarry(extraRaw(m.Extra, codec.CarrierMember)); len(carried) > 0 {
		said = seal(said, carried)
	}
	blocks := said[:0]
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

// thinkingPart decodes the content part in which Mistral's models send reasoning.
func thinkingPart(o *llm.Opaque) *llm.Thought {
	var p struct {
		Thinking []struct {
			Text string `json:"text"`
		} `json:"thinking"`
	}
	if o.Type != "thinking" || json.Unmarshal([]byte(o.Raw), &p, wire.Lenient) != nil {
		return nil
	}
	text := ""
	for _, t := range p.Thinking {
		text += t.Text
	}
	return &llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: text}}, Meta: llm.Meta{Ext: ext([]llm.Member{{Name: partMark, Value: "[" + o.Raw + "]"}})}}
}

func citationsOf(list wire.List[Annotation]) []llm.Citation {
	if list.Len() == 0 {
		return nil
	}
	out := make([]llm.Citation, 0, list.Len())
	for _, a := range list.All() {
		u := a.URLCitation.Value()
		start, _ := u.StartIndex.Value().Int64()
		end, _ := u.EndIndex.Value().Int64()
		out = append(out, llm.Citation{Start: int(start), End: int(end), URL: u.URL.Value().String(), Title: u.Title.Value().String(), Protocol: own, Raw: rawOf(a)})
	}
	return out
}

func logprobsOf(list wire.Opt[wire.List[wire.Raw]]) llm.Raw {
	if !list.IsSet() {
		return ""
	}
	return rawOf(list)
}
