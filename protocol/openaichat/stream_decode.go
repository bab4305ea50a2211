package openaichat

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// NewStreamDecoder returns a decoder for one stream of chunks.
func (Codec) NewStreamDecoder() protocol.StreamDecoder {
	return &streamDecoder{choices: map[int]*choiceDecoder{}, seen: seen{}}
}

// streamDecoder decodes chunks into neutral events. It emits the end only at
// [DONE] or at the end of the stream, because usage may follow the last finish
// reason.
type streamDecoder struct {
	started bool
	over    bool
	id      string
	choices map[int]*choiceDecoder
	usage   *llm.Usage

	hasID, hasModel, hasCreated bool // which of them have come

	seen  seen         // members of the response that were emitted
	early []llm.Member // members that came before the Start event
}

// chunk is a chunk whose members are decoded only where they are needed.
type chunk struct {
	ID          string         `json:"id"`
	Object      jsontext.Value `json:"object"`
	Created     jsontext.Value `json:"created"`
	Model       string         `json:"model"`
	Tier        jsontext.Value `json:"service_tier"`
	Choices     []chunkChoice  `json:"choices"`
	Usage       jsontext.Value `json:"usage"`
	Fingerprint jsontext.Value `json:"system_fingerprint"`
	Moderation  jsontext.Value `json:"moderation"`
	Metadata    jsontext.Value `json:"metadata"`
	Groq        jsontext.Value `json:"x_groq"`
	Obfuscation jsontext.Value `json:"obfuscation"`
	Error       jsontext.Value `json:"error"`
	Unknown     jsontext.Value `json:",embed"` //nolint:staticcheck // SA5008: an option of go-json-experiment
}

type chunkChoice struct {
	Index        *wire.Count    `json:"index"`
	Delta        chunkDelta     `json:"delta"`
	FinishReason jsontext.Value `json:"finish_reason"`
	Logprobs     jsontext.Value `json:"logprobs"`
	Usage        jsontext.Value `json:"usage"`  // where Moonshot puts it
	Unknown      jsontext.Value `json:",embed"` //nolint:staticcheck // SA5008: an option of go-json-experiment
}

type chunkDelta struct {
	Role             jsontext.Value `json:"role"`
	Content          jsontext.Value `json:"content"`
	Refusal          jsontext.Value `json:"refusal"`
	ReasoningContent jsontext.Value `json:"reasoning_content"`
	Reasoning        jsontext.Value `json:"reasoning"`
	Thinking         jsontext.Value `json:"thinking"`
	Details          jsontext.Value `json:"reasoning_details"`
	ToolCalls        jsontext.Value `json:"tool_calls"`
	FunctionCall     jsontext.Value `json:"function_call"`
	Annotations      jsontext.Value `json:"annotations"`
	Audio            jsontext.Value `json:"audio"`
	Carrier          jsontext.Value `json:"extra_content"`
	Unknown          jsontext.Value `json:",embed"` //nolint:staticcheck // SA5008: an option of go-json-experiment
}

// Decode decodes one event.
func (s *streamDecoder) Decode(_, data []byte, to []llm.Event) []llm.Event {
	data = bytes.TrimLeft(data, " \t")
	switch {
	case s.over:
		return to
	case len(data) == 0, data[0] == ':':
		return append(to, llm.Ping{})
	case data[0] == '[' && string(bytes.TrimSpace(data)) == "[DONE]":
		return s.end(true, to)
	}
	if out, ok := s.quick(data, to); ok {
		return out
	}
	return s.long(data, to)
}

// long decodes any chunk.
func (s *streamDecoder) long(data []byte, to []llm.Event) []llm.Event {
	var c chunk
	err := wire.CheckElements(data)
	if err == nil {
		err = json.Unmarshal(data, &c, wire.Lenient)
	}
	if err != nil {
		return s.fail(protocol.InvalidResponse("the upstream sent an event that is not a chat completion chunk", err), to)
	}
	if openai.HasValue(c.Error) {
		return s.fail(decodeError(c.Error), to)
	}
	to = s.start(&c, to)
	to = s.members(&c, to)
	s.count(c.Usage)
	s.countGroq(c.Groq)
	for i := range c.Choices {
		s.count(c.Choices[i].Usage)
		to = s.choice(i, &c.Choices[i], to)
	}
	return to
}

// Finish ends the stream.
func (s *streamDecoder) Finish(to []llm.Event) []llm.Event {
	if s.over {
		return to
	}
	return s.end(false, to)
}

func (s *streamDecoder) fail(err *llm.Error, to []llm.Event) []llm.Event {
	s.over = true
	return append(to, llm.Failure{Err: err})
}

// start emits Start at the first chunk that has an id, a model or a choice.
// Azure's first chunk has none of them, CST-24.
func (s *streamDecoder) start(c *chunk, to []llm.Event) []llm.Event {
	if s.started || c.ID == "" && c.Model == "" && len(c.Choices) == 0 {
		return to
	}
	s.started, s.id = true, c.ID
	created := numberOf(c.Created)
	s.hasID, s.hasModel = c.ID != "", c.Model != ""
	s.hasCreated = created > 0 && isPlain(wire.Number(c.Created))
	if wire.Scalar(c.Tier) != "" {
		s.seen["service_tier"] = llm.Raw(c.Tier)
	}
	return append(to, llm.Start{ID: c.ID, Model: c.Model, Created: created, Tier: wire.Scalar(c.Tier)})
}

// members emits the members of a chunk that the neutral model has no field for,
// and an id, model or time that came after Start.
func (s *streamDecoder) members(c *chunk, to []llm.Event) []llm.Event {
	m := s.early
	if s.started {
		m = s.identify(c, m)
	}
	if !isNull(c.Usage) {
		m = s.seen.addOriginal("usage", c.Usage, m)
	}
	m = s.seen.addOriginal("service_tier", c.Tier, m)
	m = s.seen.addOriginal("system_fingerprint", c.Fingerprint, m)
	m = s.seen.addOriginal("moderation", c.Moderation, m)
	m = s.seen.addOriginal("metadata", c.Metadata, m)
	m = s.seen.addOriginal("x_groq", c.Groq, m)
	m = s.seen.addAll(c.Unknown, "", m)
	if len(m) == 0 {
		return to
	}
	if s.early = m; !s.started {
		return to
	}
	s.early = nil
	return append(to, llm.Members{Choice: llm.Whole, Index: llm.Whole, Ext: ext(m)})
}

// identify keeps the first id, model and time that came after Start.
func (s *streamDecoder) identify(c *chunk, to []llm.Member) []llm.Member {
	if !s.hasID && c.ID != "" {
		s.hasID = true
		to = append(to, llm.Member{Name: originalMark("id"), Value: llm.Raw(wire.Quote(c.ID))})
	}
	if !s.hasModel && c.Model != "" {
		s.hasModel = true
		to = append(to, llm.Member{Name: originalMark("model"), Value: llm.Raw(wire.Quote(c.Model))})
	}
	if !s.hasCreated && numberOf(c.Created) > 0 {
		s.hasCreated = true
		to = append(to, llm.Member{Name: originalMark("created"), Value: llm.Raw(c.Created)})
	}
	return to
}

// numberOf returns a count, or 0 if raw is none.
func numberOf(raw jsontext.Value) int64 {
	return int64(wire.ParseCount(raw))
}

// count decodes the token counts of a chunk or of a choice.
func (s *streamDecoder) count(raw jsontext.Value) {
	var u usage
	if raw.Kind() == '{' && json.Unmarshal(raw, &u, wire.Lenient) == nil && (u.PromptTokens > 0 || u.CompletionTokens > 0 || u.TotalTokens > 0) {
		s.usage = u.neutral()
	}
}

// countGroq decodes the token counts in Groq's own member.
func (s *streamDecoder) countGroq(raw jsontext.Value) {
	var groq struct {
		Usage jsontext.Value `json:"usage"`
	}
	if raw.Kind() == '{' && json.Unmarshal(raw, &groq, wire.Lenient) == nil {
		s.count(groq.Usage)
	}
}

func (s *streamDecoder) choice(position int, c *chunkChoice, to []llm.Event) []llm.Event {
	index := position
	if c.Index != nil {
		index = int(*c.Index)
	}
	r := s.choices[index]
	if r == nil {
		if len(s.choices) == maxChoices {
			return s.fail(protocol.InvalidResponse("the upstream's response has too many choices", nil), to)
		}
		r = &choiceDecoder{choice: index, id: s.id, openIndex: -1, callStates: map[*call]*callState{}, seen: seen{}}
		s.choices[index] = r
	}
	if f := FinishReason(wire.Scalar(c.FinishReason)); f != "" {
		r.finish = f
		if finishToStop[f] == llm.ToolUse {
			r.toolFinish = f
		}
	}
	to = r.add(&c.Delta, c.Logprobs, r.members(c, to))
	if len(r.calls.all) > maxCalls {
		return s.fail(protocol.InvalidResponse("the upstream's response has too many tool calls", nil), to)
	}
	return to
}

// end emits the end of the response if all choices have finished or [DONE] came,
// and a failure otherwise.
func (s *streamDecoder) end(done bool, to []llm.Event) []llm.Event {
	if len(s.choices) == 0 && done {
		return s.fail(protocol.InvalidResponse("the upstream's stream has no choices", nil), to)
	}
	if len(s.choices) == 0 {
		return s.fail(&llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the upstream's stream ended without a response"}, to)
	}
	order := slices.Sorted(maps.Keys(s.choices))
	for _, i := range order {
		if s.choices[i].finish == "" && !done {
			return s.fail(protocol.Truncated(), to)
		}
	}
	for _, i := range order {
		to = s.choices[i].close(to)
	}
	if s.usage != nil {
		to = append(to, llm.UsageUpdate{Usage: *s.usage})
	}
	for _, i := range order {
		to = append(to, llm.ChoiceEnd{Choice: i, Stop: s.choices[i].stop(), Ext: s.choices[i].ext()})
	}
	s.over = true
	return append(to, llm.End{})
}
