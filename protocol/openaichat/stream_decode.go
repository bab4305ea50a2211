package openaichat

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// NewStreamDecoder reads the chunks of one answer.
func (Codec) NewStreamDecoder() protocol.StreamDecoder {
	return &streamDecoder{choices: map[int]*reading{}}
}

// streamDecoder turns chunks into neutral events. The end is held back until
// [DONE] or the end of the stream, because usage may come after the last finish
// reason.
type streamDecoder struct {
	started bool
	over    bool
	id      string
	choices map[int]*reading
	usage   *llm.Usage
}

// lightChunk is a chunk with only what translation needs, and each part decoded
// where it is needed.
type lightChunk struct {
	ID      string         `json:"id"`
	Created count          `json:"created"`
	Model   string         `json:"model"`
	Tier    jsontext.Value `json:"service_tier"`
	Choices []lightChoice  `json:"choices"`
	Usage   *usage         `json:"usage"`
	Groq    *struct {
		Usage *usage `json:"usage"`
	} `json:"x_groq"`
	Error jsontext.Value `json:"error"`
}

type lightChoice struct {
	Index        *count         `json:"index"`
	Delta        lightDelta     `json:"delta"`
	FinishReason jsontext.Value `json:"finish_reason"`
	Logprobs     jsontext.Value `json:"logprobs"`
	Usage        *usage         `json:"usage"` // Moonshot's place for it
}

type lightDelta struct {
	Content          jsontext.Value `json:"content"`
	Refusal          jsontext.Value `json:"refusal"`
	ReasoningContent jsontext.Value `json:"reasoning_content"`
	Reasoning        jsontext.Value `json:"reasoning"`
	Thinking         jsontext.Value `json:"thinking"`
	Details          []wire.Raw     `json:"reasoning_details"`
	ToolCalls        jsontext.Value `json:"tool_calls"`
	FunctionCall     jsontext.Value `json:"function_call"`
	Annotations      jsontext.Value `json:"annotations"`
	Carrier          jsontext.Value `json:"extra_content"`
}

// Decode reads one event.
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

// long reads any chunk.
func (s *streamDecoder) long(data []byte, to []llm.Event) []llm.Event {
	var c lightChunk
	if err := json.Unmarshal(data, &c, lenient); err != nil {
		return s.fail(invalidAnswer("the upstream sent an event that is not a chunk of an answer", err), to)
	}
	if present(c.Error) {
		return s.fail(decodeError(c.Error), to)
	}
	to = s.start(&c, to)
	s.count(c.Usage)
	if c.Groq != nil {
		s.count(c.Groq.Usage)
	}
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

// start waits for a chunk that says who it is: Azure's first one does not, CST-24.
func (s *streamDecoder) start(c *lightChunk, to []llm.Event) []llm.Event {
	if s.started || c.ID == "" && c.Model == "" && len(c.Choices) == 0 {
		return to
	}
	s.started, s.id = true, c.ID
	return append(to, llm.Start{ID: c.ID, Model: c.Model, Created: int64(c.Created), Tier: scalar(c.Tier)})
}

func (s *streamDecoder) count(u *usage) {
	if u != nil && (u.PromptTokens > 0 || u.CompletionTokens > 0 || u.TotalTokens > 0) {
		s.usage = u.neutral()
	}
}

func (s *streamDecoder) choice(position int, c *lightChoice, to []llm.Event) []llm.Event {
	index := position
	if c.Index != nil {
		index = int(*c.Index)
	}
	r := s.choices[index]
	if r == nil {
		r = &reading{choice: index, id: s.id, prose: -1, slots: map[*call]*slot{}}
		s.choices[index] = r
	}
	if f := FinishReason(scalar(c.FinishReason)); f != "" {
		r.finish = f
		r.toolFinish = r.toolFinish || finishToStop[f] == llm.ToolUse
	}
	return r.add(&c.Delta, c.Logprobs, to)
}

// end closes everything that is open, if there is proof of the end.
func (s *streamDecoder) end(done bool, to []llm.Event) []llm.Event {
	if len(s.choices) == 0 {
		return s.fail(&llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the upstream's stream held no answer"}, to)
	}
	order := slices.Sorted(maps.Keys(s.choices))
	for _, i := range order {
		if s.choices[i].finish == "" && !done {
			return s.fail(&llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the upstream's stream ended without the rest of the answer"}, to)
		}
	}
	for _, i := range order {
		to = s.choices[i].close(to)
	}
	if s.usage != nil {
		to = append(to, llm.UsageUpdate{Usage: *s.usage})
	}
	for _, i := range order {
		to = append(to, llm.ChoiceEnd{Choice: i, Stop: s.choices[i].stop()})
	}
	s.over = true
	return append(to, llm.End{})
}
