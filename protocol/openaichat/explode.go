package openaichat

import (
	"fmt"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Explode makes the chunks of a stream from one whole answer, for a client that
// asked for a stream where the upstream gave none. An [Aggregator] makes the
// answer of them again. Where the answer has usage, the last chunk holds it and
// nothing else; whether it is sent depends on what the client asked for. An
// error object comes back as an *llm.Error.
func Explode(response []byte) ([][]byte, error) {
	var r Response
	if err := responseShape.UnmarshalLenient(response, &r); err != nil {
		return nil, fmt.Errorf("openaichat: response: %w", err)
	}
	if raw, ok := r.Extra.Get("error"); ok && raw.Kind() != 'n' {
		return nil, decodeError(raw)
	}
	if len(r.Choices.Value()) == 0 {
		return nil, ErrNoChoices
	}
	var chunks []Chunk
	for i, c := range r.Choices.Value() {
		for _, part := range explodeChoice(c, i) {
			chunks = append(chunks, r.chunk(part))
		}
	}
	chunks[0].Moderation, chunks[0].Metadata = r.Moderation, r.Metadata
	chunks[0].Extra = wire.NewExtra(r.Extra.All())
	if r.Usage.IsSet() {
		last := r.chunk()
		last.Usage = r.Usage
		chunks = append(chunks, last)
	}
	out := make([][]byte, 0, len(chunks))
	for i := range chunks {
		data, err := chunkShape.Marshal(&chunks[i])
		if err != nil {
			return nil, fmt.Errorf("openaichat: chunk: %w", err)
		}
		out = append(out, data)
	}
	return out, nil
}

// chunk returns a chunk of r with these choices, which may be none but are
// always written.
func (r *Response) chunk(choices ...ChunkChoice) Chunk {
	return Chunk{
		ID:                r.ID,
		Object:            wire.Some(ObjectChunk),
		Created:           r.Created,
		Model:             r.Model,
		Choices:           wire.Some(choices),
		ServiceTier:       r.ServiceTier,
		SystemFingerprint: r.SystemFingerprint,
	}
}

// explodeChoice returns the steps in which a choice is streamed: the role, each
// thing that the message holds, the finish reason.
func explodeChoice(c Choice, position int) []ChunkChoice {
	index := wire.Some(c.Index.Or(wire.Int(int64(position))))
	m := c.Message.Value()
	deltas := explodeMessage(m)
	steps := make([]ChunkChoice, 0, len(deltas)+1)
	for _, d := range deltas {
		steps = append(steps, ChunkChoice{
			Index: index, Delta: wire.Some(d), FinishReason: wire.Null[FinishReason](),
		})
	}
	// Probabilities travel with the text that they are of, which is the last
	// delta that has some; without one, with the role.
	at := 0
	for i, d := range deltas {
		if d.Content.IsSet() || d.Refusal.IsSet() {
			at = i
		}
	}
	steps[at].Logprobs = c.Logprobs
	return append(steps, ChunkChoice{
		Index:        index,
		Delta:        wire.Some(Delta{}),
		FinishReason: wire.Some(c.finishReason()),
		Extra:        wire.NewExtra(c.Extra.All()),
	})
}

// finishReason is never empty: the body that held the choice was whole.
func (c *Choice) finishReason() FinishReason {
	switch m := c.Message.Value(); {
	case c.FinishReason.Value() != "":
		return c.FinishReason.Value()
	case len(m.ToolCalls.Value()) > 0:
		return FinishToolCalls
	case m.FunctionCall.IsSet():
		return FinishFunctionCall
	}
	return FinishStop
}

func explodeMessage(m Message) []Delta {
	head := Delta{Role: wire.Some(m.Role.Or(RoleAssistant)), Extra: wire.NewExtra(m.Extra.All())}
	// What is null or empty has no delta of its own and is told with the role.
	head.ReasoningContent, head.Reasoning, head.Thinking = hollow(m.ReasoningContent), hollow(m.Reasoning), hollow(m.Thinking)
	if c, ok := m.Content.Get(); ok && c.Text.IsSet() && c.Text.Value().IsEmpty() {
		head.Content = m.Content
	}
	carryMember(&head.Extra, "name", m.Name)
	carryMember(&head.Extra, "tool_call_id", m.ToolCallID)
	deltas := []Delta{head}
	add := func(set bool, d Delta) {
		if set {
			deltas = append(deltas, d)
		}
	}
	add(m.ReasoningDetails.IsSet(), Delta{ReasoningDetails: m.ReasoningDetails})
	add(full(m.ReasoningContent), Delta{ReasoningContent: m.ReasoningContent})
	add(full(m.Reasoning), Delta{Reasoning: m.Reasoning})
	add(full(m.Thinking), Delta{Thinking: m.Thinking})
	add(m.Content.IsSet() && head.Content.IsAbsent(), Delta{Content: m.Content})
	add(full(m.Refusal), Delta{Refusal: m.Refusal})
	for i, c := range m.ToolCalls.Value() {
		add(true, Delta{ToolCalls: wire.Some([]ToolCallDelta{c.delta(i)})})
	}
	add(m.FunctionCall.IsSet(), Delta{FunctionCall: m.FunctionCall})
	add(m.Annotations.IsSet(), Delta{Annotations: m.Annotations})
	add(m.Audio.IsSet(), Delta{Audio: m.Audio})
	return deltas
}

// delta returns the whole call as one delta.
func (t *ToolCall) delta(index int) ToolCallDelta {
	members := t.Extra.All()
	if _, ok := members.Get("index"); ok { // some servers number whole calls too
		t.Extra.Delete("index")
		members = t.Extra.All()
	}
	return ToolCallDelta{
		Index:    wire.Some(wire.Int(int64(index))),
		ID:       t.ID,
		Type:     t.Type,
		Function: t.Function,
		Custom:   t.Custom,
		Extra:    wire.NewExtra(members),
	}
}

// carryMember keeps a member that messages have a field for and deltas have not.
func carryMember(extra *wire.Extra, name string, member wire.Opt[string]) {
	if raw, err := member.MarshalJSON(); err == nil && !member.IsAbsent() {
		extra.Set(name, raw)
	}
}

func full(t wire.Opt[wire.Text]) bool { return !t.Value().IsEmpty() }

func hollow(t wire.Opt[wire.Text]) wire.Opt[wire.Text] {
	if full(t) {
		return wire.Opt[wire.Text]{}
	}
	return t
}
