package openaichat

import (
	"iter"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (e *requestEncoder) effort() {
	r := e.in.Reasoning
	protocol.DropExt(e.report, "reasoning", r.Ext, protocol.OpenAIChat)
	if r.Show != "" && r.Show != "none" {
		e.report.Drop("reasoning.show", "reasoning.show_unsupported", "chat completions cannot say how much of the reasoning to show")
	}
	effort := r.Effort
	switch {
	case effort != "":
	case r.Mode == "off":
		effort = "none"
	case r.Budget != nil && *r.Budget >= 0:
		effort = protocol.EffortOfBudget(*r.Budget)
		e.report.Approximate("reasoning.budget", "effort.from_budget", "a budget of "+strconv.FormatInt(*r.Budget, 10)+" tokens became the effort "+effort)
	case r.Mode != "" || r.Budget != nil:
		e.report.Approximate("reasoning.mode", "reasoning.default", "how much to think is left to the model")
	}
	if effort == "" {
		return
	}
	nearest := protocol.NearestEffort(effort, e.target.Gates.Efforts)
	if nearest != effort {
		e.report.Approximate("reasoning.effort", "effort.nearest", "the model does not know the effort "+effort+"; "+nearest+" was sent")
	}
	e.out.ReasoningEffort = wire.Some(nearest)
}

// decodeThought decodes reasoning from any of its member names, and keeps the
// members for servers that want them back.
func decodeThought(m *Message) *llm.Thought {
	t := &llm.Thought{}
	text := ""
	for name, reasoning := range m.reasoning() {
		if v, ok := reasoning.Get(); ok {
			t.Ext.Members = append(t.Ext.Members, llm.Member{Name: originalMark(name), Value: rawOf(v)})
			if text == "" {
				text = v.String()
			}
		}
	}
	if details, ok := m.ReasoningDetails.Get(); ok {
		t.Ext.Members = append(t.Ext.Members, llm.Member{Name: originalMark("reasoning_details"), Value: rawOf(details)})
		t.Seals = sealsOf(details)
	}
	if len(t.Ext.Members) == 0 {
		return nil
	}
	t.Ext.Protocol = own
	if text != "" {
		t.Parts = []llm.ThoughtPart{{Form: llm.FullReasoning, Text: text}}
	}
	return t
}

// reasoning iterates over a message's reasoning by the names that servers give it,
// in the order of preference.
func (m *Message) reasoning() iter.Seq2[string, *wire.Opt[wire.Text]] {
	return func(yield func(string, *wire.Opt[wire.Text]) bool) {
		_ = yield("reasoning_content", &m.ReasoningContent) &&
			yield("reasoning", &m.Reasoning) &&
			yield("thinking", &m.Thinking)
	}
}

// detail is an element of reasoning_details as this gateway writes it.
type detail struct {
	Type      string `json:"type"`
	Signature string `json:"signature,omitzero"`
	Data      string `json:"data,omitzero"`
	Format    string `json:"format"`
	Index     int    `json:"index"`
}

// detailFormats says whose seal a detail is.
var detailFormats = map[protocol.Name]string{
	protocol.Anthropic:       "anthropic-claude-v1",
	protocol.OpenAIResponses: "openai-responses-v1",
	protocol.Gemini:          "google-gemini-v1",
}

func originOf(format string) (protocol.Name, bool) {
	for name, f := range detailFormats {
		if f == format {
			return name, true
		}
	}
	return "", false
}

func sealsOf(details wire.List[wire.Raw]) []llm.Seal {
	var seals []llm.Seal
	for _, raw := range details.All() {
		var d detail
		if raw.Kind() != '{' || json.Unmarshal(*raw, &d, wire.Lenient) != nil {
			continue
		}
		origin, ok := originOf(d.Format)
		switch {
		case !ok:
		case d.Signature != "":
			seals = append(seals, llm.Seal{Form: llm.Signature, Data: d.Signature, Origin: string(origin)})
		case d.Data != "" && origin == protocol.Anthropic:
			seals = append(seals, llm.Seal{Form: llm.Redacted, Data: d.Data, Origin: string(origin)})
		case d.Data != "":
			seals = append(seals, llm.Seal{Form: llm.Encrypted, Data: d.Data, Origin: string(origin)})
		}
	}
	return seals
}

// detailsOf writes a thought's seals, numbered from the given number on, so that a client that sends them back gives
// the model its own reasoning again.
func detailsOf(seals []llm.Seal, from int) []wire.Raw {
	var out []wire.Raw
	for _, s := range seals {
		format := detailFormats[protocol.Name(s.Origin)]
		if format == "" {
			continue
		}
		d := detail{Type: "reasoning.text", Signature: s.Data, Format: format, Index: from + len(out)}
		if s.Form != llm.Signature {
			d = detail{Type: "reasoning.encrypted", Data: s.Data, Format: format, Index: from + len(out)}
		}
		raw, _ := json.Marshal(d, wire.Lenient) // cannot fail: all members are strings and numbers
		out = append(out, raw)
	}
	return out
}

// thought writes earlier reasoning back where the server wants it.
func (e *requestEncoder) thought(m *Message, t *llm.Thought, path string) {
	name := e.target.Gates.ReasoningHistory
	switch {
	case t.Ext.Protocol == own:
		for _, x := range ownMembers(t.Ext.Members) {
			m.Extra.Set(x.Name, x.Value)
		}
	case name != "" && t.Text("") != "":
		e.sealed(t.Seals, path)
		m.Extra.Set(name, wire.Raw(wire.Quote(t.Text(""))))
	default:
		e.report.Drop(path, "reasoning.foreign", "reasoning of another protocol cannot be sent back here")
	}
}
