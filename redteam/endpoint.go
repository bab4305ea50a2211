package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// endpoint is a path of the client port with a valid request for it.
type endpoint struct {
	name    string
	dialect testrig.Dialect
	path    string
	body    string
}

// endpoints returns every endpoint that reads a body. Those with a name such as chat-msgs
// translate to another dialect, the others forward bytes.
func endpoints() (all []endpoint) {
	for i, d := range dialects() {
		own, other := targetName(d), targetName(dialects()[(i+2)%4])
		all = append(all, generate(own, d, own), generate(own+"-"+other, d, other))
	}
	stream := generate("gem-stream", testrig.Gemini, "gem")
	stream.path = strings.Replace(stream.path, ":generateContent", ":streamGenerateContent?alt=sse", 1)
	message := `"messages":[{"role":"user","content":"hi"}]`
	return append(all, stream,
		endpoint{"count_tokens", testrig.Messages, "/v1/messages/count_tokens", `{"model":"msgs/m",` + message + `}`},
		endpoint{"completions", testrig.Chat, "/v1/completions", `{"model":"chat/m","prompt":"hi"}`},
		endpoint{"embeddings", testrig.Chat, "/v1/embeddings", `{"model":"chat/m","input":"hi"}`},
		endpoint{"rerank", testrig.Chat, "/v1/rerank", `{"model":"chat/m","query":"q","documents":["a"]}`},
		endpoint{"gem-count", testrig.Gemini, "/v1beta/models/gem/m:countTokens", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`},
		endpoint{"gem-embed", testrig.Gemini, "/v1beta/models/gem/m:embedContent", `{"content":{"parts":[{"text":"hi"}]}}`},
	)
}

// generate returns the endpoint of a dialect that generates, with a target's model.
func generate(name string, d testrig.Dialect, target string) endpoint {
	q := testrig.Query{Model: target + "/m", Prompt: "hi", MaxTokens: 5}
	return endpoint{name, d, d.Path(q.Model, false), d.Body(q)}
}

// request returns the valid request.
func (p endpoint) request(key string) request {
	q := request{path: p.path, body: p.body, key: key}
	if p.dialect == testrig.Messages {
		q.headers = []string{"Anthropic-Version", "2023-06-01"}
	}
	return q
}

// inPath reports whether the model is in the path.
func (p endpoint) inPath() bool { return p.dialect == testrig.Gemini }

// control checks that a valid request is served. Otherwise the refusal of attacks would prove
// nothing.
func (r *rig) control(ctx context.Context, q request) {
	e := r.send(ctx, q)
	if e.status != 200 || len(e.upstream) != 1 {
		testrig.NoError(fmt.Errorf("a valid request to %s is not served: status %d, %d requests upstream: %s", q.path, e.status, len(e.upstream), testrig.Clip(e.body, 300)))
	}
}
