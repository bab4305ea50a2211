package rig

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
)

// A Dialect is a vendor's API as the scripted upstream plays it: one neutral answer
// goes out in its form, and a request in its form is read into neutral facts.
type Dialect struct {
	Name     string // as the configuration has it
	Prefix   string // of the upstream's paths
	SDKPath  string // what the vendor's SDKs want after the origin
	Target   string // the model's name at the vendor
	Seal     string // what the vendor seals its reasoning with, and wants back with a tool's result
	Counted  string // the answer to a request to count tokens; empty where there is nothing to ask
	Key      string // the header that carries the key
	KeyValue string

	Whole   func(Reply) string
	Stream  func(Reply) []string
	Problem func(status int, message string) string
	Models  func(ids []string) string
	Asked   func(*Received) Facts
}

// Dialects are all four.
func Dialects() []*Dialect {
	return []*Dialect{chatDialect(), responsesDialect(), anthropicDialect(), geminiDialect()}
}

// DialectNamed is one of them.
func DialectNamed(name string) *Dialect {
	for _, d := range Dialects() {
		if d.Name == name {
			return d
		}
	}
	panic("no dialect " + name)
}

// Reply is what a model says in one turn. What is streamed comes in these pieces.
type Reply struct {
	Turn    int // of the conversation, from 0; each answer has an id of its own
	Thought []string
	Text    []string
	Calls   []Invocation
}

// Invocation is a tool call. Its arguments are JSON in pieces, or the text that a custom
// tool takes.
type Invocation struct {
	ID, Name  string
	Args      []string
	Namespace string // that the tool is in
	Custom    bool   // declared as a custom tool, which only OpenAI's dialects have
	Search    bool   // a search for tools that the client runs, which only Responses has; a function elsewhere
}

// Said is the text in one piece.
func (r Reply) Said() string { return strings.Join(r.Text, "") }

// Thoughts is the reasoning in one piece.
func (r Reply) Thoughts() string { return strings.Join(r.Thought, "") }

// Flat is the tool's name where there are no namespaces.
func (c Invocation) Flat() string { return flat(c.Namespace, c.Name) }

func flat(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "__" + name
}

// JSON is the arguments in one piece.
func (c Invocation) JSON() string {
	return strings.Join(c.Args, "")
}

// The usage of every reply: 11 tokens in, 4 of them from a cache, and 7 out, 3 of
// them thought.
const (
	TokensIn      = 11
	TokensCached  = 4
	TokensOut     = 7
	TokensThought = 3
	TokensCounted = 42 // when it is asked to count
)

// Facts is what a request asks for, in no dialect.
type Facts struct {
	Model     string            `json:"model"`
	Stream    bool              `json:"stream"`
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
	// Wrong is what the vendor would refuse.
	Wrong []string `json:"wrong,omitempty"`
}

// With is f after a change.
func (f Facts) With(change func(*Facts)) Facts {
	change(&f)
	return f
}

// history pairs the calls of a conversation with their results.
type history struct {
	ids, Calls, results []string
}

func (h *history) call(id, name, args string) {
	h.ids, h.Calls, h.results = append(h.ids, id), append(h.Calls, name+plainJSON(args)), append(h.results, "")
}

// result notes what came of a call. Without an id it is the first that has none yet.
func (h *history) result(f *Facts, id, content string) {
	for i := range h.ids {
		if h.results[i] == "" && (id == "" || h.ids[i] == id) {
			h.results[i] = plainJSON(content)
			return
		}
	}
	f.Wrong = append(f.Wrong, "a result for "+id+", which nobody called")
}

func (h *history) pairs(f *Facts) []string {
	var out []string
	for i, c := range h.Calls {
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
		return Quote(s)
	}
	if inner, ok := v.(string); ok {
		return plainJSON(inner)
	}
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		for _, wrapper := range []string{"output", "result"} {
			if inner, ok := m[wrapper]; ok {
				return plainJSON(Compact(inner))
			}
		}
	}
	return Compact(v)
}

// properties are the names and types of a schema's properties.
func properties(schema Object) map[string]string {
	if schema == nil {
		return nil
	}
	out := map[string]string{}
	for name := range schema.Obj("properties") {
		out[name] = schema.Obj("properties").Obj(name).Str("type")
	}
	return out
}

// report is JSON that is being written.
type report = map[string]any

// sseData and sseNamed frame an event as OpenAI's Chat and Google do, or as the
// other two do.
func sseData(v any) string { return "data: " + Compact(v) + "\n\n" }

func sseNamed(v map[string]any) string {
	return "event: " + v["type"].(string) + "\ndata: " + Compact(v) + "\n\n"
}

// Says answers with r, as a stream if that is what is asked for.
func (d *Dialect) Says(r Reply) Step {
	return func(w http.ResponseWriter, req *http.Request, body []byte) {
		rec := &Received{Target: req.URL.RequestURI(), Header: req.Header, Body: body}
		asked := d.Asked(rec)
		r := r.named(asked.Tools)
		if !asked.Stream {
			Whole(200, d.identified(r).Replace(d.Whole(r)))(w, req, body)
			return
		}
		pieces := d.Stream(r)
		ids := d.identified(r)
		for i := range pieces {
			pieces[i] = ids.Replace(pieces[i])
		}
		Send(w, pieces)
	}
}

// named gives calls without a name that of the request's first tool: frameworks that
// have an answer's schema as a tool choose the name themselves.
func (r Reply) named(tools []string) Reply {
	r.Calls = slices.Clone(r.Calls)
	for i := range r.Calls {
		if r.Calls[i].Name == "" && len(tools) > 0 {
			r.Calls[i].Name = tools[0]
		}
	}
	return r
}

// identified gives an answer and its items ids that no other answer has: frameworks take
// an answer with the id of an earlier one for its correction, and what is named must be
// one thing.
func (d *Dialect) identified(r Reply) *strings.Replacer {
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(d.Whole(r))) // it never fails
	ids := []string{"chatcmpl-1", "resp_1", "msg_01", "r-1", "msg_1", "rs_1"}
	for i := range r.Calls {
		ids = append(ids, fmt.Sprintf("fc_%d", i+1), fmt.Sprintf("ctc_%d", i+1), fmt.Sprintf("tsc_%d", i+1))
	}
	var pairs []string
	for _, id := range ids {
		pairs = append(pairs, Quote(id), Quote(fmt.Sprintf("%s%d%08x", id, r.Turn, digest.Sum32())))
	}
	return strings.NewReplacer(pairs...)
}
