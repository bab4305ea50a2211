package openaichat

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
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
func (d *streamDecoder) Decode(_, data []byte, to []llm.Event) []llm.Event {
	data = bytes.TrimLeft(data, " \t")
	switch {
	case d.over:
		return to
	case len(data) == 0, data[0] == ':':
		return append(to, llm.Ping{})
	case data[0] == '[' && string(bytes.TrimSpace(data)) == "[DONE]":
		return d.end(true, to)
	}
	if out, ok := d.quick(data, to); ok {
		return out
	}
	return d.long(data, to)
}

// long decodes any chunk.
func (d *streamDecoder) long(data []byte, to []llm.Event) []llm.Event {
	var c chunk
	err := wire.CheckElements(data)
	if err == nil {
		err = json.Unmarshal(data, &c, wire.Lenient)
	}
	if err != nil {
		return d.fail(codec.InvalidResponse("the upstream sent an event that is not a chat completion chunk", err), to)
	}
	if openai.HasValue(c.Error) {
		return d.fail(decodeError(c.Error), to)
	}
	to = d.start(&c, to)
	to = d.members(&c, to)
	d.count(c.Usage)
	d.countGroq(c.Groq)
	for i := range c.Choices {
		d.count(c.Choices[i].Usage)
		to = d.choice(i, &c.Choices[i], to)
	}
	return to
}

// Finish ends the stream.
func (d *streamDecoder) Finish(to []llm.Event) []llm.Event {
	if d.over {
		return to
	}
	return d.end(false, to)
}

func (d *streamDecoder) fail(err *llm.Error, to []llm.Event) []llm.Event {
	d.over = true
	return append(to, llm.Failure{Err: err})
}

// start emits Start at the first chunk that has an id, a model or a choice.
// Azure's first chunk has none of them, CST-24.
func (d *streamDecoder) start(c *chunk, to []llm.Event) []llm.Event {
	if d.started || c.ID == "" && c.Model == "" && len(c.Choices) == 0 {
		return to
	}
	d.started, d.id = true, c.ID
	created := numberOf(c.Created)
	d.hasID, d.hasModel = c.ID != "", c.Model != ""
	d.hasCreated = created > 0 && isPlain(wire.Number(c.Created))
	if wire.Scalar(c.Tier) != "" {
		d.seen["service_tier"] = llm.Raw(c.Tier)
	}
	return append(to, llm.Start{ID: c.ID, Model: c.Model, Created: created, Tier: wire.Scalar(c.Tier)})
}

// members emits the members of a chunk that the neutral model has no field for,
// and an id, model or time that came after Start.
func (d *streamDecoder) members(c *chunk, to []llm.Event) []llm.Event {
	m := d.early
	if d.started {
		m = d.identify(c, m)
	}
	if !isNull(c.Usage) {
		m = d.seen.addOriginal("usage", c.Usage, m)
	}
	m = d.seen.addOriginal("service_tier", c.Tier, m)
	m = d.seen.addOriginal("system_fingerprint", c.Fingerprint, m)
	m = d.seen.addOriginal("moderation", c.Moderation, m)
	m = d.seen.addOriginal("metadata", c.Metadata, m)
	m = d.seen.addOriginal("x_groq", c.Groq, m)
	m = d.seen.addAll(c.Unknown, "", m)
	if len(m) == 0 {
		return to
	}
	if d.early = m; !d.started {
		return to
	}
	d.early = nil
	return append(to, llm.Members{Choice: llm.Whole, Index: llm.Whole, Ext: ext(m)})
}

// identify keeps the first id, model and time that came after Start.
func (d *streamDecoder) identify(c *chunk, to []llm.Member) []llm.Member {
	if !d.hasID && c.ID != "" {
		d.hasID = true
		to = append(to, llm.Member{Name: originalMark("id"), Value: llm.Raw(wire.Quote(c.ID))})
	}
	if !d.hasModel && c.Model != "" {
		d.hasModel = true
		to = append(to, llm.Member{Name: originalMark("model"), Value: llm.Raw(wire.Quote(c.Model))})
	}
	if !d.hasCreated && numberOf(c.Created) > 0 {
		d.hasCreated = true
		to = append(to, llm.Member{Name: originalMark("created"), Value: llm.Raw(c.Created)})
	}
	return to
}

// numberOf returns a count, or 0 if raw is none.
func numberOf(raw jsontext.Value) int64 {
	return int64(wire.ParseCount(raw))
}

// count decodes the token counts of a chunk or of a choice.
func (d *streamDecoder) count(raw jsontext.Value) {
	if u, ok := readUsage(raw); ok && (u.prompt > 0 || u.completion > 0 || u.total > 0) {
		d.usage = u.neutral()
	}
}

// countGroq decodes the token counts in Groq's own member.
func (d *streamDecoder) countGroq(raw jsontext.Value) {
	var groq struct {
		Usage jsontext.Value `json:"usage"`
	}
	if raw.Kind() == '{' && json.Unmarshal(raw, &groq, wire.Lenient) == nil {
		d.count(groq.Usage)
	}
}

func (d *streamDecoder) choice(position int, c *chunkChoice, to []llm.Event) []llm.Event {
	index := position
	if c.Index != nil {
		index = int(*c.Index)
	}
	r := d.choices[index]
	if r == nil {
		if len(d.choices) == maxChoices {
			return d.fail(codec.InvalidResponse("the upstream's response has too many choices", nil), to)
		}
		r = &choiceDecoder{choice: index, id: d.id, openIndex: -1, callStates: map[*call]*callState{}, seen: seen{}}
		d.choices[index] = r
	}
	if f := FinishReason(wire.Scalar(c.FinishReason)); f != "" {
		r.finish = f
		if isKind(f, llm.ToolUse) {
			r.toolFinish = f
		}
	}
	to = r.add(&c.Delta, c.Logprobs, r.members(c, to))
	if len(r.calls.all) > maxCalls {
		return d.fail(codec.InvalidResponse("the upstream's response has too many tool calls", nil), to)
	}
	return to
}

// end emits the end of the response if all choices have finished or [DONE] came,
// and a failure otherwise.
func (d *streamDecoder) end(done bool, to []llm.Event) []llm.Event {
	if len(d.choices) == 0 && done {
		return d.fail(codec.InvalidResponse("the upstream's stream has no choices", nil), to)
	}
	if len(d.choices) == 0 {
		return d.fail(&llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the upstream's stream ended without a response"}, to)
	}
	order := slices.Sorted(maps.Keys(d.choices))
	for _, i := range order {
		if d.choices[i].finish == "" && !done {
			return d.fail(codec.Truncated(), to)
		}
	}
	for _, i := range order {
		to = d.choices[i].close(to)
	}
	if d.usage != nil {
		to = append(to, llm.UsageUpdate{Usage: *d.usage})
	}
	for _, i := range order {
		to = append(to, llm.ChoiceEnd{Choice: i, Stop: d.choices[i].stop(), Ext: d.choices[i].ext()})
	}
	d.over = true
	return append(to, llm.End{})
}
