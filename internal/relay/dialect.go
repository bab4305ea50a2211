package relay

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/anthropic"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
)

// endpoint is a path that leads to a model.
type endpoint struct {
	name      string // in logs and metrics
	dialect   protocol.Name
	path      string // on the gateway, and after the provider's base URL
	generates bool   // every dialect has something like it
	collect   bool   // a stream of it can be collected without the neutral model
	version   string // of the dialect, as the client asks for it

	// Gemini has these in the path.
	model, verb string
	stream      bool
	array       bool // a stream is wanted as one JSON array
}

var endpoints = map[string]endpoint{
	"/v1/chat/completions":      {name: "chat_completions", dialect: protocol.OpenAIChat, path: "/v1/chat/completions", generates: true, collect: true},
	"/v1/completions":           {name: "completions", dialect: protocol.OpenAIChat, path: "/v1/completions"},
	"/v1/embeddings":            {name: "embeddings", dialect: protocol.OpenAIChat, path: "/v1/embeddings"},
	"/v1/rerank":                {name: "rerank", dialect: protocol.OpenAIChat, path: "/v1/rerank"},
	"/v1/responses":             {name: "responses", dialect: protocol.OpenAIResponses, path: "/v1/responses", generates: true},
	"/v1/messages":              {name: "messages", dialect: protocol.Anthropic, path: "/v1/messages", generates: true},
	"/v1/messages/count_tokens": {name: "count_tokens", dialect: protocol.Anthropic, path: "/v1/messages/count_tokens"},
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
		name: "gemini_" + a.Verb, dialect: protocol.Gemini, path: req.URL.Path, version: a.Version, model: a.Model, verb: a.Verb,
		generates: a.Verb == gemini.Generate || a.Verb == gemini.StreamGenerate, stream: a.Verb == gemini.StreamGenerate,
		array: a.Verb == gemini.StreamGenerate && req.URL.Query().Get("alt") != "sse",
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

// upstreamPath is where an upstream of the same dialect is asked.
func (e endpoint) upstreamPath(t route.Target) string {
	if e.dialect != protocol.Gemini {
		return e.path
	}
	version := e.version
	if t.Provider.APIVersion != "" {
		version = t.Provider.APIVersion
	}
	return gemini.Path(version, t.Model, e.verb)
}

// verbatim reports whether a target can be asked with the client's own bytes: it
// speaks the same dialect, in the version that the client speaks, and streams in
// the form that the client reads.
func (e endpoint) verbatim(p *provider.Provider) bool {
	switch {
	case p.Protocol != e.dialect, e.array:
		return false
	case e.dialect == protocol.Anthropic && p.APIVersion != "" && e.version != "":
		return p.APIVersion == e.version
	}
	return true
}

// checkVersion refuses what cannot be sent on as it is: a version that nobody here
// knows, and conversations that the vendor keeps where the next request may go to
// another account.
func (x *exchange) checkVersion(targets int) *llm.Error {
	if x.endpoint.dialect != protocol.Anthropic {
		return nil
	}
	if err := anthropic.CheckVersion(x.endpoint.version); err != nil {
		return err
	}
	if x.ask.raw("thread") != nil && (targets > 1 || x.target.Provider.BaseURL.Hostname() != "api.anthropic.com") {
		return anthropic.ThreadUnsupported()
	}
	return nil
}

// dialectOf is the dialect of a request to a path that several have.
func dialectOf(req *http.Request) protocol.Name {
	h := req.Header
	switch {
	case h.Get("Anthropic-Version") != "", h.Get("Anthropic-Beta") != "":
		return protocol.Anthropic
	case h.Get("X-Goog-Api-Key") != "", h.Get("X-Goog-Api-Client") != "", req.URL.Query().Get("key") != "",
		strings.HasPrefix(req.URL.Path, "/v1beta"), strings.HasPrefix(req.URL.Path, "/v1alpha"):
		return protocol.Gemini
	}
	if _, found, _ := gemini.ParsePath(req.Method, req.URL.EscapedPath()); found {
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

// isModelPath reports whether a path is that of the list of models.
func isModelPath(path string) bool {
	switch path {
	case "/v1/models", "/v1beta/models", "/v1alpha/models", "/v1beta1/models":
		return true
	}
	return false
}

// modelID is the model that a path under the list of models names. Ids may hold
// slashes, written as they are or escaped.
func modelID(u *url.URL) (string, bool) {
	version, id, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/models/")
	return id, ok && id != "" && isModelPath("/"+version+"/models")
}
