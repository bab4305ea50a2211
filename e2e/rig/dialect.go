package rig

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// A Dialect is a vendor's API as the scripted upstream implements it: it reads a request
// into neutral facts. Replies in its form are testrig's.
type Dialect struct {
	Name     string // as the configuration has it
	Prefix   string // of the upstream's paths
	SDKPath  string // what the vendor's SDKs want after the origin
	Target   string // the model's name at the vendor
	Counted  string // the answer to a request to count tokens; empty where there is nothing to ask
	Key      string // the header that carries the key
	KeyValue string

	Models func(ids []string) string
	Asked  func(*Received) Facts
}

// Dialects returns the dialects that the upstream implements: Chat, Responses, Messages
// and Gemini. Converse has tests of its own in e2e/converse.
func Dialects() []*Dialect {
	const bearer = "Bearer " + UpstreamKey
	return []*Dialect{
		{Name: "openai-chat", Prefix: "/chat/v1", SDKPath: "/v1", Target: "gpt-5.4", Key: "Authorization", KeyValue: bearer, Models: openaiModels, Asked: chatAsked},
		{Name: "openai-responses", Prefix: "/responses/v1", SDKPath: "/v1", Target: "gpt-5.5", Counted: fmt.Sprintf(`{"object":"response.input_tokens","input_tokens":%d}`, TokensCounted), Key: "Authorization", KeyValue: bearer,
			Models: openaiModels, Asked: responsesAsked},
		{Name: "anthropic", Prefix: "/anthropic", Target: "claude-sonnet-5", Counted: fmt.Sprintf(`{"input_tokens":%d}`, TokensCounted), Key: "X-Api-Key", KeyValue: UpstreamKey,
			Models: anthropicModels, Asked: anthropicAsked},
		{Name: "gemini", Prefix: "/gemini", Target: "gemini-3-pro", Counted: fmt.Sprintf(`{"totalTokens":%d}`, TokensCounted), Key: "X-Goog-Api-Key", KeyValue: UpstreamKey,
			Models: geminiModels, Asked: geminiAsked},
	}
}

// DialectNamed returns the dialect with a name.
func DialectNamed(name string) *Dialect {
	for _, d := range Dialects() {
		if d.Name == name {
			return d
		}
	}
	panic("no dialect " + name)
}

// Seal returns the text with which the vendor seals its reasoning, and which has to come
// back with a tool's result.
func (d *Dialect) Seal() string { return testrig.Dialect(d.Name).Seal() }

// Problem returns an error as the vendor sends it. Gemini says in the body when to retry.
func (d *Dialect) Problem(status int, message string) string {
	body := testrig.Dialect(d.Name).ErrorBody(status, message)
	if d.Name == "gemini" && status == http.StatusTooManyRequests {
		return strings.TrimSuffix(body, "}}") + `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}`
	}
	return body
}

// Reply returns a reply in the dialect, with the usage that every reply has.
func (d *Dialect) Reply(r testrig.Reply) testrig.Reply {
	r.Dialect, r.Model = testrig.Dialect(d.Name), d.Target+"-0001"
	r.In, r.Cached, r.Out, r.Reasoning = TokensIn, TokensCached, TokensOut, TokensThought
	return r
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

// history pairs the calls of a conversation with their results.
type history struct {
	ids, Calls, results []string
}

func (h *history) call(id, name, args string) {
	h.ids, h.Calls, h.results = append(h.ids, id), append(h.Calls, name+plainJSON(args)), append(h.results, "")
}

// result records the result of a call. Without an id it belongs to the first call that
// has no result yet.
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

// plainJSON normalises JSON. It unwraps JSON in a string, and in the member that Gemini's
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

// properties returns the names and types of a schema's properties.
func properties(schema testrig.Object) map[string]string {
	if schema == nil {
		return nil
	}
	out := map[string]string{}
	for name := range schema.Obj("properties") {
		out[name] = schema.Obj("properties").Obj(name).Str("type")
	}
	return out
}

// report is a JSON object to write.
type report = map[string]any

// Says answers with a reply, as a stream if the request asks for one. The turn of the
// conversation tells equal answers apart.
func (d *Dialect) Says(r testrig.Reply, turn int) Step {
	return func(req *Received) bool {
		asked := d.Asked(req)
		r := d.Reply(r)
		r.Usage = asked.usage
		r.Calls = slices.Clone(r.Calls)
		for i := range r.Calls { // frameworks that send an answer's schema as a tool choose its name
			if r.Calls[i].Name == "" && len(asked.Tools) > 0 {
				r.Calls[i].Name = asked.Tools[0]
			}
		}
		ids := uniqueIDs(r, turn)
		body := ids(r.Body())
		req.up.keep(body)
		if !asked.Stream {
			return Whole(http.StatusOK, body)(req)
		}
		var pieces []string
		for _, p := range r.Stream().All() {
			pieces = append(pieces, ids(p))
		}
		return Stream(pieces...)(req)
	}
}

// Counts answers a request to count tokens, and refuses what the vendor would.
func (d *Dialect) Counts() Step {
	return func(req *Received) bool {
		asked := d.Asked(req)
		if !asked.Counts {
			asked.Wrong = append(asked.Wrong, req.Path()+" counts no tokens")
		}
		if len(asked.Wrong) > 0 {
			return Whole(http.StatusBadRequest, d.Problem(http.StatusBadRequest, strings.Join(asked.Wrong, "; ")))(req)
		}
		return Whole(http.StatusOK, d.Counted)(req)
	}
}

// repeatedID matches the ids that the writers of replies repeat.
var repeatedID = regexp.MustCompile(`"[a-zA-Z]*[-_]?\d*Cn\w*"`)

// uniqueIDs gives an answer and its items unique ids: frameworks take an answer with an
// earlier id for a correction, and references must be unambiguous.
func uniqueIDs(r testrig.Reply, turn int) func(string) string {
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(r.Body())) // it never fails
	suffix := fmt.Sprintf("%d%08x\"", turn, digest.Sum32())
	return func(s string) string {
		return repeatedID.ReplaceAllStringFunc(s, func(id string) string { return strings.TrimSuffix(id, `"`) + suffix })
	}
}
