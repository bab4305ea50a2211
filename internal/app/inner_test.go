package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// post sends a body with a key and returns the status and the body of the response.
func (g *gateway) post(t *testing.T, key secret.String, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key.Reveal())
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// everyDialect is a configuration with a provider of each dialect.
func everyDialect(up *upstreamtest.Server, data, more string) string {
	return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
data: %q
store: sqlite
prices: { models: { "chat/*": { input: 1, output: 1 }, "chat/dear": { input: 1, output: 1000 } } }
providers:
  chat: { protocol: openai-chat, base_url: "http://%[2]s/v1" }
  streaming: { protocol: openai-chat, base_url: "http://%[2]s/v1" }
  resp: { protocol: openai-responses, base_url: "http://%[2]s/v1" }
  claude: { protocol: anthropic, base_url: "http://%[2]s" }
  gem: { protocol: gemini, base_url: "http://%[2]s" }
models:
  "chat/*": { targets: ["chat/*"] }
  "resp/*": { targets: ["resp/*"] }
  "claude/*": { targets: ["claude/*"] }
  "gem/*": { targets: ["gem/*"] }
  fast: { targets: [chat/real-fast, resp/real-fast] }
  joined: { targets: [chat/real-fast, resp/real-fast], continue: true }
%[3]s`, data, up.Addr, more)
}

// TestInnerModels checks that a key's scope and the routes hold for every place in which
// an upstream may read a model's name. The upstream rejects every request, with another
// status than the gateway.
func TestInnerModels(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusUnprocessableEntity, `{"error":{"message":"no"}}`))
	configuration := everyDialect(up, t.TempDir(), "")
	keys := keyringOf(t, configuration)
	scope := []string{"chat/cheap", "chat/also", "resp/cheap", "claude/cheap", "claude/also", "gem/cheap", "fast", "joined"}
	scoped, err := keys.Create(t.Context(), access.Record{Name: "scoped", Org: "o1", Team: "t1", Models: scope, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	every, err := keys.Create(t.Context(), access.Record{Name: "every", Org: "o1", Team: "t1", Models: []string{"*"}, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, configuration, pace{})
	const (
		chat   = "/v1/chat/completions"
		resp   = "/v1/responses"
		claude = "/v1/messages"
		gem    = "/v1beta/models/gem/cheap:"
	)
	for _, c := range []struct {
		path, body string
		want       string // what the upstream gets; empty: the request is refused
		key        secret.String
	}{
		{chat, `{"model":"chat/cheap","messages":[],"models":["chat/dear"]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"models":["dear"]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"models":"dear"}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"Models":["dear"]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"model\u0073":["dear"]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"modelſ":["dear"]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"models":["cheap/../dear"]}`, "", every.Text},
		{chat, `{"model":"chat/cheap","messages":[],"models":["gem/cheap"]}`, `{"model":"cheap","messages":[],"models":["gem/cheap"]}`, every.Text}, // chat/gem/cheap
		{chat, `{"model":"chat/cheap","messages":[],"route":"fallback"}`, "", every.Text},
		{chat, `{"model":"chat/cheap","messages":[],"fallbacks":[{"model":"dear"}]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"fallbacks":[{"cheap":["dear"]}]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"context_window_fallbacks":["dear"]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"extra_body":{"model":"dear"}}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"extra_body":{"models":["dear"]}}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"plugins":[{"id":"x","model":"dear"}]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"tools":[{"type":"x","parameters":{"model":"dear"}}]}`, "", scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[],"providerOptions":{"gateway":{"models":["dear"]}}}`, "", scoped.Text},
		{"/v1/completions", `{"model":"chat/cheap","prompt":"","models":["dear"]}`, "", scoped.Text},
		{"/v1/embeddings", `{"model":"chat/cheap","input":"","fallbacks":["dear"]}`, "", scoped.Text},
		{resp, `{"model":"resp/cheap","input":"","tools":[{"type":"image_generation","model":"dear"}]}`, "", scoped.Text},
		{resp, `{"model":"resp/cheap","input":"","tools":[{"type":"image_generation","mod\u0065l":"dear"}]}`, "", scoped.Text},
		{resp, `{"model":"resp/cheap","input":[{"type":"additional_tools","tools":[{"type":"image_generation","model":"dear"}]}]}`, "", scoped.Text},
		{claude, `{"model":"claude/cheap","max_tokens":1,"messages":[],"fallbacks":[{"model":"dear"}]}`, "", scoped.Text},
		{claude, `{"model":"claude/cheap","max_tokens":1,"messages":[],"fallbacks":"default"}`, "", scoped.Text},
		{claude, `{"model":"claude/cheap","max_tokens":1,"messages":[],"tools":[{"type":"advisor_20260301","name":"advisor","model":"dear"}]}`, "", scoped.Text},
		{gem + "batchEmbedContents", `{"requests":[{"model":"models/gem/cheap"},{"model":"models/dear"}]}`, "", every.Text},
		{gem + "batchEmbedContents", `{"requests":[{"model":"models/gem/dear"}]}`, "", every.Text},
		{gem + "embedContent", `{"model":"models/dear"}`, "", every.Text},
		{gem + "generateContent", `{"contents":[],"model":"models/dear"}`, "", every.Text},
		{gem + "countTokens", `{"generateContentRequest":{"model":"models/dear"}}`, "", every.Text},
		{gem + "countTokens", `{"generate_content_request":{"model":"models/dear"}}`, "", every.Text},
		{gem + "batchGenerateContent", `{"batch":{"input_config":{"requests":{"requests":[{"request":{"model":"models/dear"}}]}}}}`, "", every.Text},

		{chat, `{"model":"chat/cheap","messages":[], "models": ["chat/also", "also","chat/cheap", "cheap"],"route":"fallback"}`,
			`{"model":"cheap","messages":[], "models": ["also", "also","cheap", "cheap"],"route":"fallback"}`, scoped.Text},
		{chat, `{"model":"fast","messages":[],"models":["fast"]}`, `{"model":"real-fast","messages":[],"models":["real-fast"]}`, scoped.Text},
		{chat, `{"model":"joined","stream":true,"messages":[],"models":["chat/also"]}`, `"models":["also"]`, scoped.Text},
		{chat, `{"model":"chat/cheap","messages":[{"role":"user","content":"the \"model\""}],"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"model":{"enum":["dear"]}}}}}]}`,
			`{"model":"cheap","messages":[{"role":"user","content":"the \"model\""}],"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"model":{"enum":["dear"]}}}}}]}`, scoped.Text},
		{claude, `{"model":"claude/cheap","max_tokens":1,"messages":[],"fallbacks":[{"model":"claude/also","max_tokens":2}]}`,
			`{"model":"cheap","max_tokens":1,"messages":[],"fallbacks":[{"model":"also","max_tokens":2}]}`, scoped.Text},
		{claude, `{"model":"claude/cheap","max_tokens":1,"messages":[],"fallbacks":"default"}`,
			`{"model":"cheap","max_tokens":1,"messages":[],"fallbacks":"default"}`, every.Text},
		{gem + "batchEmbedContents", `{"requests":[{"model":"models/gem/cheap","content":{}},{"model":"models/cheap"},{"content":{}}]}`,
			`{"requests":[{"model":"models/cheap","content":{}},{"model":"models/cheap"},{"content":{}}]}`, scoped.Text},
		{gem + "countTokens", `{"generateContentRequest":{"contents":[],"model":"models/gem/cheap"}}`, `{"generateContentRequest":{"contents":[],"model":"models/cheap"}}`, scoped.Text},
	} {
		before := len(up.Requests())
		status, text := g.post(t, c.key, c.path, c.body)
		if c.want == "" {
			if status != http.StatusBadRequest || !strings.Contains(text, "names a model") || len(up.Requests()) != before {
				t.Errorf("%s %s: %d %s, and %d requests at the upstream", c.path, c.body, status, text, len(up.Requests())-before)
			}
			continue
		}
		if sent := up.Requests()[before:]; status == http.StatusBadRequest || len(sent) == 0 || !strings.Contains(string(sent[0].Body), c.want) {
			t.Errorf("%s %s: %d %s, %s", c.path, c.body, status, text, sent)
		}
	}
}

// TestInnerModelsArePaid checks that a response of an inner model has that model's price.
func TestInnerModelsArePaid(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(upstreamtest.JSON(http.StatusOK, `{"id":"c1","object":"chat.completion","model":"dear-2026","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":0,"completion_tokens":1000,"total_tokens":1000}}`))
	configuration := everyDialect(up, data, "")
	key := keyringOf(t, configuration).must(t, quota.Limit{})
	g := start(t, configuration, pace{})
	if status, text := g.post(t, key.Text, "/v1/chat/completions", `{"model":"chat/cheap","messages":[],"models":["chat/dear"]}`); status != http.StatusOK {
		t.Fatal(status, text)
	}
	g.wait(t)
	rows := rowsOf(t, data)
	if len(rows) != 1 || rows[0].Cost == nil || rows[0].Cost.String() != "$1" {
		t.Errorf("%+v", rows)
	}
}
