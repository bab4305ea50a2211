package all

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestImpossibleUsage checks that token counts that cannot be true are not taken for zero:
// the response then has no usage, and the gateway estimates it.
func TestImpossibleUsage(t *testing.T) {
	bodies := map[protocol.Name]string{
		protocol.OpenAIChat:      `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":IN,"completion_tokens":OUT,"total_tokens":5}}`,
		protocol.OpenAIResponses: `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"i","role":"assistant","status":"completed","content":[{"type":"output_text","text":"x","annotations":[]}]}],"usage":{"input_tokens":IN,"output_tokens":OUT,"total_tokens":5}}`,
		protocol.Anthropic:       `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":IN,"output_tokens":OUT}}`,
		protocol.Converse:        `{"output":{"message":{"role":"assistant","content":[{"text":"x"}]}},"stopReason":"end_turn","usage":{"inputTokens":IN,"outputTokens":OUT,"totalTokens":5},"metrics":{"latencyMs":1}}`,
		protocol.Gemini:          `{"candidates":[{"content":{"role":"model","parts":[{"text":"x"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":IN,"candidatesTokenCount":OUT}}`,
	}
	for _, d := range Dialects() {
		for _, tt := range []struct {
			in, out string
			valid   bool
		}{
			{"3", "2", true}, {"0", "0", true}, {`"3"`, "2.0", true},
			{"-3", "2", false}, {"3", "-2", false}, {"3", "-0.5", false}, {"3", `"-2"`, false},
			{"3", "99999999999999999999", false}, {"1e30", "2", false}, {"3", "1e400", false}, {"3", "-1e400", false},
		} {
			body := []byte(strings.NewReplacer("IN", tt.in, "OUT", tt.out).Replace(bodies[d.Name]))
			resp, err := d.Codec.DecodeResponse(body)
			if err != nil {
				t.Fatalf("%s: %s", d.Name, err.Message)
			}
			if got := resp.Usage != nil; got != tt.valid {
				t.Errorf("%s, %s and %s decoded: usage %+v", d.Name, tt.in, tt.out, resp.Usage)
			}
			tap := d.Codec.NewTap(1)
			if err := tap.Body(body); err != nil {
				t.Fatalf("%s: %s", d.Name, err.Message)
			}
			if got := tap.Summary().Usage; (got != nil) != tt.valid {
				t.Errorf("%s, %s and %s relayed: usage %+v", d.Name, tt.in, tt.out, got)
			}
		}
	}
}
