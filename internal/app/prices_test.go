package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestPricesOfTiers charges requests at the price of the tier that the upstream's response
// names, relayed and translated, streaming and not.
func TestPricesOfTiers(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	frame := func(lines ...string) string { return "data: " + strings.Join(lines, "\n\ndata: ") + "\n\n" }
	claude := func(tier string) string {
		return `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":1000,"service_tier":"` + tier + `"}}`
	}
	gemini := `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1000,"candidatesTokenCount":1000,"totalTokenCount":2000,"trafficType":"PROVISIONED_THROUGHPUT"}}`
	chat := `{"id":"c","object":"chat.completion.chunk","model":"m","service_tier":"priority","choices":[{"index":0,"delta":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":1000,"total_tokens":2000}}`
	converse := `{"output":{"message":{"role":"assistant","content":[{"text":"x"}]}},"stopReason":"end_turn","usage":{"inputTokens":1000,"outputTokens":1000,"totalTokens":2000},"serviceTier":{"type":"flex"}}`
	messages := func(model string) (path, body string) {
		return "/v1/messages", `{"model":"` + model + `","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	}
	completions := func(model string, stream bool) (path, body string) {
		return "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hi"}]}`, model, stream)
	}
	ok := func(body string) upstreamtest.Script { return upstreamtest.JSON(http.StatusOK, body) }
	configuration := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
data: %q
store: sqlite
prices:
  models: { "claude/*": { input: 1, output: 1 } }
  lists:
    - { cloud: aws, as_of: 2020-01-01, models: { "*": { input: 2, output: 2 } } }
    - { cloud: aws, region: eu-central-1, as_of: 2026-11-01, models: { "*": { input: 3, output: 3 } } }
    - { cloud: aws, region: eu-central-1, tier: flex, as_of: 2026-11-01, models: { "*": { input: 4, output: 4 } } }
    - { tier: priority, as_of: 2026-11-01, models: { "*": { input: 5, output: 5 } } }
    - { cloud: google, tier: provisioned, as_of: 2026-11-01, models: { "*": { input: 0, output: 0 } } }
    - { cloud: google, as_of: 2026-11-01, models: { "*": { input: 6, output: 6 } } }
providers:
  claude: { protocol: anthropic, base_url: "http://%[2]s" }
  chat: { protocol: openai-chat, base_url: "http://%[2]s/v1" }
  vertex: { preset: vertex, base_url: "http://%[2]s", project: p, region: global, api_key: k }
  eu: { preset: bedrock-converse, base_url: "http://%[2]s", region: eu-central-1, api_key: k }
  us: { preset: bedrock-converse, base_url: "http://%[2]s", region: us-east-1, api_key: k }
models:
  "*": { targets: ["claude/*"] }
  "chat/*": { targets: ["chat/*"] }
  "vertex/*": { targets: ["vertex/*"] }
  "eu/*": { targets: ["eu/*"] }
  "us/*": { targets: ["us/*"] }
`, data, up.Addr)
	key := keyringOf(t, configuration).must(t, quota.Limit{})
	g := start(t, configuration, pace{})
	var want []string
	for _, c := range []struct {
		answer     upstreamtest.Script
		path, body string
		cost       string // of 2,000 tokens
	}{
		{answer: ok(claude("standard")), cost: "$0.002"}, {answer: ok(claude("priority")), cost: "$0.01"}, {answer: ok(claude("batch")), cost: "$0.002"},
		{answer: upstreamtest.Stream(frame(chat, "[DONE]")), path: "chat stream", cost: "$0.01"},
		{answer: upstreamtest.Stream(frame(chat, "[DONE]")), path: "chat stream translated", cost: "$0.01"},
		{answer: ok(gemini), path: "gemini", cost: "$0"}, {answer: ok(gemini), path: "gemini translated", cost: "$0"},
		{answer: ok(strings.Replace(gemini, "PROVISIONED_THROUGHPUT", "ON_DEMAND", 1)), path: "gemini", cost: "$0.012"},
		{answer: ok(converse), path: "eu", cost: "$0.008"}, {answer: ok(strings.Replace(converse, "flex", "default", 1)), path: "eu", cost: "$0.006"}, {answer: ok(converse), path: "us", cost: "$0.004"},
	} {
		switch c.path {
		case "":
			c.path, c.body = messages("m")
		case "chat stream":
			c.path, c.body = completions("chat/m", true)
		case "chat stream translated":
			c.path, c.body = messages("chat/m")
			c.body = strings.Replace(c.body, "{", `{"stream":true,`, 1)
		case "gemini":
			c.path, c.body = "/v1beta/models/vertex/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
		case "gemini translated":
			c.path, c.body = completions("vertex/m", false)
		default:
			c.path, c.body = completions(c.path+"/m", false)
		}
		up.Answer(c.answer)
		if status, text := g.post(t, key.Text, c.path, c.body); status != http.StatusOK {
			t.Fatal(status, text)
		}
		want = append(want, c.cost)
	}
	g.wait(t)
	var got []string
	for _, row := range rowsOf(t, data) {
		if row.Cost == nil {
			t.Errorf("%+v", row)
			continue
		}
		got = append(got, row.Cost.String())
	}
	slices.Reverse(got) // the newest row is the first
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("costs %v, want %v", got, want)
	}
	if log := g.log.String(); strings.Count(log, "prices may be outdated") != 1 || !strings.Contains(log, "aws of 2020-01-01") {
		t.Error("the log has no warning of the list of 2020")
	}
}
