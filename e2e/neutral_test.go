package e2e

import (
	"encoding/json"
	"slices"
	"strings"
)

// A dialect is a vendor's API as the scripted upstream plays it: one neutral answer
// goes out in its form, and a request in its form is read into neutral facts.
type dialect struct {
	name     string // as the configuration has it
	prefix   string // of the upstream's paths
	sdkPath  string // what the vendor's SDKs want after the origin
	target   string // the model's name at the vendor
	seal     string // what the vendor seals its reasoning with, and wants back with a tool's result
	counted  string // the answer to a request to count tokens; empty where there is nothing to ask
	key      string // the header that carries the key
	keyValue string

	whole   func(reply) string
	stream  func(reply) []string
	problem func(status int, message string) string
	models  func(ids []string) string
	asked   func(*received) facts
}

func dialects() []*dialect {
	return []*dialect{chatDialect(), responsesDialect(), anthropicDialect(), geminiDialect()}
}

func dialectNamed(name string) *dialect {
	for _, d := range dialects() {
		if d.name == name {
			return d
		}
	}
	panic("no dialect " + name)
}

// reply is what a model says in one turn. What is streamed comes in these pieces.
type reply struct {
	thought []string
	text    []string
	calls   []invocation
}

// invocation is a tool call. Its arguments are JSON in pieces.
type invocation struct {
	id, name string
	args     []string
}

func (r reply) said() string     { return strings.Join(r.text, "") }
func (r reply) thoughts() string { return strings.Join(r.thought, "") }
func (c invocation) json() string {
	return strings.Join(c.args, "")
}

// The usage of every reply: 11 tokens in, 4 of them from a cache, and 7 out, 3 of
// them thought.
const (
	tokensIn, tokensCached   = 11, 4
	tokensOut, tokensThought = 7, 3
	tokensCounted            = 42
)

// facts is what a request asks for, in no dialect.
type facts struct {
	Model     string            `json:"model"`
	Stream    bool              `json:"stream"`
	System    string            `json:"system,omitempty"`
	User      []string          `json:"user,omitempty"`
	Images    []string          `json:"images,omitempty"` // media type and base64
	Tools     []string          `json:"tools,omitempty"`
	Results   []string          `json:"results,omitempty"` // each call of the history with what came of it
	Schema    map[string]string `json:"schema,omitempty"`  // the wanted answer's properties and their types
	MaxTokens int               `json:"max_tokens,omitempty"`
	Thinking  bool              `json:"thinking,omitempty"`
	Seal      string            `json:"seal,omitempty"` // of the reasoning that came back
	// Wrong is what the vendor would refuse.
	Wrong []string `json:"wrong,omitempty"`
}

// history pairs the calls of a conversation with their results.
type history struct {
	ids, calls, results []string
}

func (h *history) call(id, name, args string) {
	h.ids, h.calls, h.results = append(h.ids, id), append(h.calls, name+plainJSON(args)), append(h.results, "")
}

// result notes what came of a call. Without an id it is the first that has none yet.
func (h *history) result(f *facts, id, content string) {
	for i := range h.ids {
		if h.results[i] == "" && (id == "" || h.ids[i] == id) {
			h.results[i] = plainJSON(content)
			return
		}
	}
	f.Wrong = append(f.Wrong, "a result for "+id+", which nobody called")
}

func (h *history) pairs(f *facts) []string {
	var out []string
	for i, c := range h.calls {
		if h.results[i] == "" {
			f.Wrong = append(f.Wrong, "no result for "+c)
		}
		out = append(out, c+" = "+h.results[i])
	}
	return out
}

// plainJSON is s in one spelling, with JSON that is wrapped in a string or in the
// member that Gemini's SDKs put a result into taken out.
func plainJSON(s string) string {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return quote(s)
	}
	if inner, ok := v.(string); ok {
		return plainJSON(inner)
	}
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		for _, wrapper := range []string{"output", "result"} {
			if inner, ok := m[wrapper]; ok {
				return plainJSON(compact(inner))
			}
		}
	}
	return compact(v)
}

// object is decoded JSON with short ways to its members; what is missing is zero.
type object map[string]any

func parse(body []byte) object {
	var o object
	_ = json.Unmarshal(body, &o) // what is no JSON has no facts, and the comparison says so
	return o
}

func (o object) str(name string) string { s, _ := o[name].(string); return s }
func (o object) num(name string) int    { n, _ := o[name].(float64); return int(n) }
func (o object) flag(name string) bool  { b, _ := o[name].(bool); return b }
func (o object) has(name string) bool   { v, ok := o[name]; return ok && v != nil }
func (o object) obj(name string) object { m, _ := o[name].(map[string]any); return m }
func (o object) list(name string) []object {
	items, _ := o[name].([]any)
	var out []object
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// texts is the text of content that is a string or a list of parts.
func (o object) texts(name string) []string {
	if s := o.str(name); s != "" {
		return []string{s}
	}
	var out []string
	for _, p := range o.list(name) {
		if s := p.str("text"); s != "" && !p.flag("thought") {
			out = append(out, s)
		}
	}
	return out
}

// properties are the names and types of a schema's properties.
func properties(schema object) map[string]string {
	if schema == nil {
		return nil
	}
	out := map[string]string{}
	for name := range schema.obj("properties") {
		out[name] = schema.obj("properties").obj(name).str("type")
	}
	return out
}

// sseData and sseNamed frame an event as OpenAI's Chat and Google do, or as the
// other two do.
func sseData(v any) string { return "data: " + compact(v) + "\n\n" }

func sseNamed(v map[string]any) string {
	return "event: " + v["type"].(string) + "\ndata: " + compact(v) + "\n\n"
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
