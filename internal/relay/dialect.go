package relay

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/completions"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
)

// endpoint is a path that leads to a model.
type endpoint struct {
	name      string // in logs and metrics
	dialect   protocol.Name
	path      string // on the gateway, escaped, and after the provider's base URL
	generates bool   // every dialect has something like it
	collect   bool   // a stream of it can be collected without the neutral model
	optional  bool   // clients get along without it, and are told so by a 404
	version   string // of the dialect, as the client asks for it

	// into translates what only some dialects have, by the upstream's.
	into map[protocol.Name]func(*exchange) *llm.Error

	// otherwise says which providers of the same dialect need it translated too.
	otherwise func(*provider.Provider) bool
	// form reads and writes in place of the dialect's own codec where no
	// target has the endpoint and a model of another dialect is asked as a
	// chat.
	form protocol.Translator

	// Gemini has these in the path.
	model, verb string
	stream      bool
	array       bool // a stream is wanted as one JSON array
}

var endpoints = map[string]endpoint{
	"/v1/chat/completions":      {name: "chat_completions", dialect: protocol.OpenAIChat, path: "/v1/chat/completions", generates: true, collect: true},
	"/v1/completions":           {name: "completions", dialect: protocol.OpenAIChat, path: "/v1/completions", form: completions.Codec{}},
	"/v1/embeddings":            {name: "embeddings", dialect: protocol.OpenAIChat, path: "/v1/embeddings", into: embedders[protocol.OpenAIChat]},
	"/v1/rerank":                {name: "rerank", dialect: protocol.OpenAIChat, path: "/v1/rerank", otherwise: reranksOtherwise, into: map[protocol.Name]func(*exchange) *llm.Error{protocol.OpenAIChat: rerankOver}},
	"/v1/responses":             {name: "responses", dialect: protocol.OpenAIResponses, path: "/v1/responses", generates: true},
	"/v1/messages":              {name: "messages", dialect: protocol.Anthropic, path: "/v1/messages", generates: true},
	"/v1/messages/count_tokens": {name: "count_tokens", dialect: protocol.Anthropic, path: "/v1/messages/count_tokens", optional: true, into: counting},
}

// geminiInto is what of Gemini's own verbs can be translated.
var geminiInto = map[string]map[protocol.Name]func(*exchange) *llm.Error{
	gemini.CountTokens: counting,
	gemini.Embed:       embedders[protocol.Gemini],
	gemini.BatchEmbed:  embedders[protocol.Gemini],
}

// endpointOf finds the endpoint that a request is for.
func endpointOf(req *http.Request) (endpoint, bool) {
	if e, ok := endpoints[req.URL.Path]; ok {
		if e.dialect == protocol.Anthropic {
			e.version = req.Header.Get("Anthropic-Version")
		}
		return e, true
	}
	a, found, err := gemini.ParsePath(req.Method, req.URL.EscapedPath())
	if !found || err != nil {
		return endpoint{}, false
	}
	return endpoint{
		name: "gemini_" + a.Verb, dialect: protocol.Gemini, path: req.URL.EscapedPath(), version: a.Version, model: a.Model, verb: a.Verb,
		generates: a.Verb == gemini.Generate || a.Verb == gemini.StreamGenerate, stream: a.Verb == gemini.StreamGenerate,
		array:    a.Verb == gemini.StreamGenerate && req.URL.Query().Get("alt") != "sse",
		optional: a.Verb == gemini.CountTokens, into: geminiInto[a.Verb],
	}, true
}

// project reads what routing needs, from the body and from the path.
func (e endpoint) project(body []byte) (*projection, *llm.Error) {
	if e.model == "" {
		return project(body)
	}
	p, err := scan(body)
	if err != nil {
		return nil, err
	}
	p.model, p.stream = e.model, e.stream
	return p, nil
}

// servedBy reports whether a provider can be asked, as it is or by translation.
func (e endpoint) servedBy(p *provider.Provider) bool {
	return e.generates || p.Protocol == e.dialect || e.into[p.Protocol] != nil
}

// unserved says that a model's providers have nothing like the endpoint.
func (e endpoint) unserved(model string, by protocol.Name) *llm.Error {
	kind := llm.InvalidRequest
	if e.optional {
		kind = llm.NotFound
	}
	what := e.path
	if e.verb != "" {
		what = e.verb
	}
	return &llm.Error{Kind: kind, Code: "unsupported_protocol", Param: "model",
		Message: "the model '" + printable(model) + "' is served over " + string(by) + ", which has nothing like " + what}
}

// upstreamPath is where an upstream of the same dialect is asked.
func (e endpoint) upstreamPath(t route.Target, stream bool) string {
	if e.dialect != protocol.Gemini {
		return e.path
	}
	verb := e.verb
	if e.generates && stream {
		verb = gemini.StreamGenerate
	}
	return gemini.Path(e.geminiVersion(t), t.Model, verb)
}

// verbatim reports whether a target can be asked with the client's own bytes: it
// speaks the same dialect, in the version that the client speaks, and streams in
// the form that the client reads.
func (e endpoint) verbatim(p *provider.Provider) bool {
	if p.Protocol != e.dialect || e.array || e.otherwise != nil && e.otherwise(p) {
		return false
	}
	return e.dialect != protocol.Anthropic || acceptsVersion(p, e.version)
}

// comments reports whether a stream of the endpoint may hold comment lines:
// Google's own clients cannot read them.
func (e endpoint) comments() bool { return e.dialect != protocol.Gemini }

// dialectOf is the dialect of a request to a path that several have.
func dialectOf(req *http.Request) protocol.Name {
	h := req.Header
	switch {
	case h.Get("Anthropic-Version") != "", h.Get("Anthropic-Beta") != "":
		return protocol.Anthropic
	case h.Get("X-Goog-Api-Key") != "", h.Get("X-Goog-Api-Client") != "", req.URL.Query().Get("key") != "":
		return protocol.Gemini
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(onceVersioned(req.URL.Path), "/"), "/")
	if version != "v1" && isGeminiVersion(version) {
		return protocol.Gemini
	}
	// A version that nobody knows does not make it another's.
	_, rest, _ := strings.Cut(strings.TrimPrefix(req.URL.EscapedPath(), "/"), "/")
	if _, found, _ := gemini.ParsePath(req.Method, "/v1/"+rest); found {
		return protocol.Gemini
	}
	return protocol.OpenAIChat
}

// requestIDHeader is where a dialect's clients look for the request's id.
func requestIDHeader(dialect protocol.Name) string {
	if dialect == protocol.Anthropic {
		return "Request-Id"
	}
	return "X-Request-Id"
}

// modelID is the model that a path under the list of models names; it is empty for
// the list itself. Ids may hold slashes, written as they are or escaped.
func modelID(u *url.URL) (id string, ok bool) {
	version, rest, _ := strings.Cut(strings.TrimPrefix(onceVersioned(u.Path), "/"), "/")
	if !isGeminiVersion(version) { // v1 is everybody's
		return "", false
	}
	if rest == "models" {
		return "", true
	}
	id, ok = strings.CutPrefix(rest, "models/")
	return id, ok && id != ""
}

// onceVersioned takes the outer version off a path that has two: Gemini's clients
// add theirs to a base address that ends in /v1.
func onceVersioned(path string) string {
	inner, ok := strings.CutPrefix(path, "/v1/")
	if version, _, cut := strings.Cut(inner, "/"); ok && cut && isGeminiVersion(version) {
		return "/" + inner
	}
	return path
}

func isGeminiVersion(name string) bool {
	return slices.ContainsFunc(gemini.Versions(), func(v gemini.Version) bool { return v.Name == name })
}
