package rig

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Facts is the content of a request, in no dialect.
type Facts struct {
	Model     string            `json:"model"`
	Stream    bool              `json:"stream"`
	Counts    bool              `json:"counts,omitempty"` // asks only for the number of tokens
	System    string            `json:"system,omitempty"`
	User      []string          `json:"user,omitempty"`
	Said      []string          `json:"said,omitempty"`   // by the model, earlier
	Images    []string          `json:"images,omitempty"` // media type and base64
	Tools     []string          `json:"tools,omitempty"`
	Custom    []string          `json:"custom,omitempty"`  // those of the tools that are custom ones
	Forced    bool              `json:"forced,omitempty"`  // a tool has to be called
	Results   []string          `json:"results,omitempty"` // each call of the history with what came of it
	Schema    map[string]string `json:"schema,omitempty"`  // the wanted answer's properties and their types
	MaxTokens int               `json:"max_tokens,omitempty"`
	Thinking  bool              `json:"thinking,omitempty"`
	Seal      string            `json:"seal,omitempty"` // of the reasoning that came back
	// Wrong lists what the vendor would refuse.
	Wrong []string `json:"wrong,omitempty"`

	usage bool // a Chat request asks for usage on its stream
}

// With returns a changed copy of f.
func (f Facts) With(change func(*Facts)) Facts {
	change(&f)
	return f
}

// Asked reads a request with conform's reader, which is as strict as the vendor.
func (d *Dialect) Asked(rec *Received) Facts {
	body, lost := rec.withoutReferences()
	r := d.wire.ReadRequest(strings.TrimPrefix(rec.URI, strings.TrimSuffix(d.Prefix, "/v1")), rec.Header, body)
	f := Facts{Model: r.Model, Stream: r.Stream, Counts: r.Counts, Thinking: r.Reasoning != "", Wrong: append(lost, r.Problems...), usage: r.UsageInStream()}
	f.MaxTokens, _ = strconv.Atoi(r.Max) // the reader reports what is no number
	for _, t := range r.Tools {
		name := testrig.FlatName(t.Space, t.Name)
		f.Tools = append(f.Tools, name)
		if t.Custom {
			f.Custom = append(f.Custom, name)
		}
	}
	f.Forced = r.Choice != "" && r.Choice != "auto" && r.Choice != "none"
	if r.Format != nil {
		f.Schema = properties(testrig.Parse([]byte(r.Format.Schema)))
	}
	f.addTurns(r.Turns)
	return f
}

// addTurns adds what was said, and the calls with their results.
func (f *Facts) addTurns(turns []conform.Turn) {
	calls := map[string]int{} // places in Results by the ids of calls
	for _, t := range turns {
		for _, p := range t.Pieces {
			if t.Role == "assistant" {
				f.Seal += p.Sig
			}
			switch {
			case p.Kind == "call":
				calls[p.ID] = len(f.Results)
				f.Results = append(f.Results, testrig.FlatName(p.Space, p.Name)+plainJSON(p.Args)+" = ")
			case p.Kind == "result":
				if i, ok := calls[p.ID]; ok {
					f.Results[i] += plainJSON(resultText(p))
				}
			case p.Kind == "image":
				f.Images = append(f.Images, p.Image.Type+" "+p.Image.Data)
			case p.Kind != "text" || p.Text == "":
			case t.Role == "system":
				f.System += p.Text
			case t.Role == "user":
				f.User = append(f.User, p.Text)
			case t.Role == "assistant":
				f.Said = append(f.Said, p.Text)
			}
		}
	}
}

// plainJSON normalises JSON. It unwraps JSON in a string, and in the members that Gemini's
// SDKs put a result into.
func plainJSON(s string) string {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return testrig.Quote(s)
	}
	if inner, ok := v.(string); ok {
		return plainJSON(inner)
	}
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		for _, wrapper := range []string{"output", "result"} {
			if inner, ok := m[wrapper]; ok {
				return plainJSON(testrig.Compact(inner))
			}
		}
	}
	return testrig.Compact(v)
}

// resultText returns the text of a result. The AI SDK puts it beside the tool's name.
func resultText(p conform.Piece) string {
	if o := testrig.Parse([]byte(p.Text)); len(o) == 2 && o.Has("content") && p.Name != "" && o.Str("name") == p.Name {
		return testrig.Compact(o["content"])
	}
	return p.Text
}

// properties returns the names and types of a schema's properties. Google's older form has
// types in upper case.
func properties(schema testrig.Object) map[string]string {
	out := map[string]string{}
	for name := range schema.Obj("properties") {
		out[name] = strings.ToLower(schema.Obj("properties").Obj(name).Str("type"))
	}
	return out
}

// withoutReferences returns the body with items of earlier responses in place of references
// to them, and what is wrong with the references.
func (r *Received) withoutReferences() (body []byte, wrong []string) {
	if !strings.Contains(string(r.Body), `"item_reference"`) {
		return r.Body, nil
	}
	o := testrig.Parse(r.Body)
	items, _ := o["input"].([]any)
	for i, item := range items {
		m, _ := item.(map[string]any)
		if reference := testrig.Object(m); reference.Str("type") == "item_reference" {
			told, ok := r.told[reference.Str("id")]
			if !ok {
				wrong = append(wrong, fmt.Sprintf("input.%d: Item with id '%s' not found.", i, reference.Str("id")))
				continue
			}
			items[i] = told
		}
	}
	return []byte(testrig.Compact(o)), wrong
}
