package openaichat

import (
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (e *requestEncoder) effort() {
	r := e.in.Reasoning
	codec.DropExt(e.report, "reasoning", r.Ext, protocol.OpenAIChat)
	if r.Show != "" && r.Show != "none" {
		e.report.Drop("reasoning.show", "reasoning.show_unsupported", "chat completions cannot say how much of the reasoning to show")
	}
	e.out.ReasoningEffort = wire.NonZero(openai.Effort(&r, e.target.Gates.Efforts, e.report))
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
		t.Seals = sealsOf(readDetails(details))
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
	Text      string `json:"text,omitzero"` // of the second and later thoughts of a turn
	Signature string `json:"signature,omitzero"`
	Data      string `json:"data,omitzero"`
	ID        string `json:"id,omitzero"` // of the sealed item
	Format    string `json:"format"`
	Index     int    `json:"index"`
}

// detailFormats says whose seal a detail is.
var detailFormats = map[protocol.Name]string{
	protocol.Anthropic:       "anthropic-claude-v1",
	protocol.OpenAIResponses: "openai-responses-v1",
	protocol.Gemini:          "google-gemini-v1",
	protocol.Converse:        "bedrock-converse-v1",
}

func originOf(format string) (protocol.Name, bool) {
	for name, f := range detailFormats {
		if f == format {
			return name, true
		}
	}
	return "", false
}

func readDetails(details wire.List[wire.Raw]) []detail {
	var out []detail
	for _, raw := range details.All() {
		var d detail
		if raw.Kind() == '{' && json.Unmarshal(*raw, &d, wire.Lenient) == nil {
			out = append(out, d)
		}
	}
	return out
}

// seal returns the seal of a detail. It reports false if there is none, or one of an unknown vendor.
func (d *detail) seal() (llm.Seal, bool) {
	origin, ok := originOf(d.Format)
	s := llm.Seal{Form: llm.Signature, Data: d.Signature, Origin: string(origin), ID: d.ID}
	switch {
	case s.Data != "":
	case origin == protocol.Anthropic, origin == protocol.Converse:
		s.Form, s.Data = llm.Redacted, d.Data
	default:
		s.Form, s.Data = llm.Encrypted, d.Data
	}
	return s, ok && s.Data != ""
}

func sealsOf(details []detail) []llm.Seal {
	var seals []llm.Seal
	for i := range details {
		if s, ok := details[i].seal(); ok {
			seals = append(seals, s)
		}
	}
	return seals
}

// unknownFormat is the format of a detail without a seal.
const unknownFormat = "unknown"

// detailsOf writes the seals of a turn's thought with the given number. If the client sends them back, the model
// gets its own reasoning again. The clients' text joins all thoughts, so the later ones have theirs here too.
func detailsOf(seals []llm.Seal, number int, text string) []wire.Raw {
	var details []detail
	for _, s := range seals {
		switch format := detailFormats[protocol.Name(s.Origin)]; {
		case format == "":
		case s.Form == llm.Signature:
			details = append(details, detail{Type: "reasoning.text", Signature: s.Data, ID: s.ID, Format: format, Index: number})
		default:
			details = append(details, detail{Type: "reasoning.encrypted", Data: s.Data, ID: s.ID, Format: format, Index: number})
		}
	}
	if number > 0 && text != "" {
		if len(details) == 0 {
			details = []detail{{Type: "reasoning.text", Format: unknownFormat, Index: number}}
		}
		details[0].Text = text
	}
	out := make([]wire.Raw, len(details))
	for i := range details {
		out[i], _ = json.Marshal(details[i], wire.Lenient) // cannot fail: all members are strings and numbers
	}
	return out
}

// decodeThoughts decodes the reasoning of a message that a client sends back. Its details say which seal belongs to
// which thought.
func decodeThoughts(m *Message) []llm.Block {
	whole := decodeThought(m)
	if whole == nil {
		return nil
	}
	var thoughts []*llm.Thought
	byNumber := map[int]*llm.Thought{}
	rest := whole.Text("")
	details := readDetails(m.ReasoningDetails.Value())
	for i := range details {
		d := &details[i]
		t := byNumber[d.Index]
		if t == nil {
			t = &llm.Thought{}
			byNumber[d.Index], thoughts = t, append(thoughts, t)
		}
		if s, ok := d.seal(); ok {
			t.Seals = append(t.Seals, s)
		}
		if d.Text != "" {
			t.Parts = append(t.Parts, llm.ThoughtPart{Form: llm.FullReasoning, Text: d.Text})
		}
	}
	for _, t := range slices.Backward(thoughts) {
		before, ok := strings.CutSuffix(rest, t.Text(""))
		if !ok { // the client has changed the text
			return []llm.Block{whole}
		}
		rest = before
	}
	if rest != "" {
		first := slices.IndexFunc(thoughts, func(t *llm.Thought) bool { return len(t.Parts) == 0 && !isRedacted(t) })
		if first < 0 {
			thoughts, first = slices.Insert(thoughts, 0, &llm.Thought{}), 0
		}
		thoughts[first].Parts = []llm.ThoughtPart{{Form: llm.FullReasoning, Text: rest}}
	}
	if len(thoughts) < 2 {
		return []llm.Block{whole}
	}
	thoughts[0].Ext = whole.Ext
	out := make([]llm.Block, len(thoughts))
	for i, t := range thoughts {
		out[i] = t
	}
	return out
}

func isRedacted(t *llm.Thought) bool {
	return slices.ContainsFunc(t.Seals, func(s llm.Seal) bool { return s.Form == llm.Redacted })
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
