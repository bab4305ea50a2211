package relay

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestCountTokensOfBedrock checks token counts with CountTokens of Bedrock on either side, in both
// forms of its input.
func TestCountTokensOfBedrock(t *testing.T) {
	const (
		asked    = `{"messages":[{"role":"user","content":[{"text":"Hi"}]}],"system":[{"text":"Be brief."}]}`
		messages = `{"model":"m","system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"Hi"}]}`
		count    = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens"
	)
	inner := func(text string) string {
		return `{"input":{"invokeModel":{"body":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"}}}`
	}
	for name, tt := range map[string]struct {
		up                 protocol.Name
		path, body, answer string
		wantPath, want     string
		got                string
	}{
		"Converse to Converse": {converseDialect, count, `{"input" : {"converse":` + asked + `}}`, `{"inputTokens":7}`,
			"/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens", `{"input" : {"converse":` + asked + `}}`, `{"inputTokens":7}`},
		"Converse to Messages": {anthropicDialect, count, `{"input":{"converse":` + asked + `}}`, `{"input_tokens":7}`,
			messagesPath + "/count_tokens", `{"model":"` + bedrockModel + `","system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}`, `{"inputTokens":7}`},
		"InvokeModel to Converse": {converseDialect, count, inner(`{"anthropic_version":"bedrock-2023-05-31","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`), `{"inputTokens":7}`,
			"/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens", `{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}}}`, `{"inputTokens":7}`},
		"Messages to Converse": {converseDialect, messagesPath + "/count_tokens", messages, `{"inputTokens":7}`,
			"/model/m/count-tokens", `{"input":{"converse":` + asked + `}}`, `{"input_tokens":7}`},
		"Gemini to Converse": {converseDialect, "/v1beta/models/m:countTokens", `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`, `{"inputTokens":7}`,
			"/model/m/count-tokens", `{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}}}`, `{"totalTokens":7}`},
		"Messages to Responses": {responsesDialect, messagesPath + "/count_tokens", messages, `{"object":"response.input_tokens","input_tokens":7}`,
			"/v1/responses/input_tokens", `{"model":"m","instructions":"Be brief.","input":[{"type":"message","role":"user","content":"Hi"}]}`, `{"input_tokens":7}`},
		"Responses to Messages": {anthropicDialect, "/v1/responses/input_tokens", `{"model":"m","input":"Hi","instructions":"Be brief."}`, `{"input_tokens":7}`,
			messagesPath + "/count_tokens", `{"model":"m","system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}`, `{"object":"response.input_tokens","input_tokens":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, speaking(tt.up), func(g *gateway) { g.extra = []string{bedrockModel, "m"} })
			g.up.Answer(upstreamtest.JSON(200, tt.answer))
			resp, body, err := g.post(t, tt.path, tt.body)
			if err != nil || resp.StatusCode != http.StatusOK || body != tt.got {
				t.Fatalf("%s %s %v", resp.Status, body, err)
			}
			if sent := g.up.Last(t); sent.Path != tt.wantPath || string(sent.Body) != tt.want {
				t.Errorf("sent %s\n%s\nwant %s\n%s", sent.Path, sent.Body, tt.wantPath, tt.want)
			}
		})
	}
	t.Run("errors", func(t *testing.T) {
		g := newGateway(t, speaking(converseDialect), func(g *gateway) { g.extra = []string{bedrockModel} })
		for _, input := range []string{`{}`, `{"other":1}`, `7`} {
			resp, body, _ := g.post(t, count, `{"input":`+input+`}`)
			if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("X-Amzn-Errortype") != "ValidationException" || !strings.Contains(body, `"message":`) {
				t.Errorf("%s: %s %s %s", input, resp.Status, resp.Header.Get("X-Amzn-Errortype"), body)
			}
		}
		g.up.Answer(upstreamtest.JSON(429, `{"message":"Too many requests"}`))
		resp, body, _ := g.post(t, count, `{"input":{"converse":`+asked+`}}`)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("X-Amzn-Errortype") != "ThrottlingException" || !strings.Contains(body, "Too many requests") {
			t.Errorf("%s %s %s", resp.Status, resp.Header.Get("X-Amzn-Errortype"), body)
		}
	})
}
