package openaichat

import (
	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// decodeThought reads reasoning under whichever name it came, and keeps the
// members as they were for the servers that want them back.
func decodeThought(m *Message) *llm.Thought {
	t := &llm.Thought{}
	text := ""
	for _, r := range []struct {
		name string
		text wire.Opt[wire.Text]
	}{{"reasoning_content", m.ReasoningContent}, {"reasoning", m.Reasoning}, {"thinking", m.Thinking}} {
		if v, ok := r.text.Get(); ok {
			t.Ext.Members = append(t.Ext.Members, llm.Member{Name: spelled(r.name), Value: rawOf(v)})
			if text == "" {
				text = v.String()
			}
		}
	}
	if details, ok := m.ReasoningDetails.Get(); ok {
		t.Ext.Members = append(t.Ext.Members, llm.Member{Name: spelled("reasoning_details"), Value: rawOf(details)})
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

func sealsOf(details []wire.Raw) []llm.Seal {
	var seals []llm.Seal
	for _, raw := range details {
		var d detail
		if json.Unmarshal(raw, &d, lenient) != nil {
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
		out = append(out, wire.Raw(rawOf(d)))
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
		m.Extra.Set(name, wire.Raw(rawOf(t.Text(""))))
	default:
		e.report.Drop(path, "reasoning.foreign", "reasoning of another protocol cannot be sent back here")
	}
}
