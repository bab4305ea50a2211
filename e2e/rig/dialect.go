package rig

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// A Dialect is a vendor's API as the scripted upstream implements it. Conform's reader reads
// its requests, and replies in its form are testrig's.
type Dialect struct {
	Name     string // as the configuration has it
	Prefix   string // of the upstream's paths
	SDKPath  string // what the vendor's SDKs want after the origin
	Target   string // the model's name at the vendor
	Counted  string // the answer to a request to count tokens; empty where there is nothing to ask
	Key      string // the header that carries the key
	KeyValue string

	// Models writes a list of models; nil where the API has none.
	Models func(ids []string) string

	wire conform.Dialect
}

// Dialects returns the dialects that the upstream implements: Chat, Responses, Messages,
// Gemini and Converse.
func Dialects() []*Dialect {
	const bearer = "Bearer " + UpstreamKey
	return []*Dialect{
		{Name: "openai-chat", Prefix: "/chat/v1", SDKPath: "/v1", Target: "gpt-5.4", Key: "Authorization", KeyValue: bearer, Models: openaiModels, wire: conform.Chat},
		{Name: "openai-responses", Prefix: "/responses/v1", SDKPath: "/v1", Target: "gpt-5.5", Counted: fmt.Sprintf(`{"object":"response.input_tokens","input_tokens":%d}`, TokensCounted), Key: "Authorization", KeyValue: bearer,
			Models: openaiModels, wire: conform.Responses},
		{Name: "anthropic", Prefix: "/anthropic", Target: "claude-sonnet-5", Counted: fmt.Sprintf(`{"input_tokens":%d}`, TokensCounted), Key: "X-Api-Key", KeyValue: UpstreamKey,
			Models: anthropicModels, wire: conform.Anthropic},
		{Name: "gemini", Prefix: "/gemini", Target: "gemini-3-pro", Counted: fmt.Sprintf(`{"totalTokens":%d}`, TokensCounted), Key: "X-Goog-Api-Key", KeyValue: UpstreamKey,
			Models: geminiModels, wire: conform.Gemini},
		{Name: "converse", Prefix: "/converse", Target: "anthropic.claude-sonnet-5", Counted: fmt.Sprintf(`{"inputTokens":%d}`, TokensCounted), Key: "Authorization", KeyValue: bearer,
			wire: conform.Converse},
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

// report is a JSON object to write.
type report = map[string]any

func openaiModels(ids []string) string {
	var data []any
	for _, id := range ids {
		data = append(data, report{"id": id, "object": "model", "created": 1763000000, "owned_by": "e2e"})
	}
	return testrig.Compact(report{"object": "list", "data": data})
}

func anthropicModels(ids []string) string {
	var data []any
	for _, id := range ids {
		data = append(data, report{"id": id, "type": "model", "display_name": id, "created_at": "2026-01-01T00:00:00Z"})
	}
	return testrig.Compact(report{"data": data, "has_more": false, "first_id": ids[0], "last_id": ids[len(ids)-1]})
}

func geminiModels(ids []string) string {
	var models []any
	for _, id := range ids {
		models = append(models, report{"name": "models/" + id, "displayName": id, "supportedGenerationMethods": []string{"generateContent"}})
	}
	return testrig.Compact(report{"models": models})
}

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
