package all

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestLossesNameTheClientsFields checks for each dialect that the path of every block and
// turn is that of the client's own field: the value there has the block's own word.
func TestLossesNameTheClientsFields(t *testing.T) {
	for name, c := range map[protocol.Name]struct {
		body string
		want map[string]string // further paths
	}{
		protocol.Anthropic: {`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"x-anthropic-billing-header: left out"},{"type":"text","text":"W1"},{"type":"text","text":"W2"}],
			"messages":[{"role":"user","content":"W3"},{"role":"assistant","content":[{"type":"text","text":"W4"},{"type":"tool_use","id":"W5","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"W5","content":"W6"},{"type":"text","text":"W7"}]}]}`,
			map[string]string{"sampling.top_k": "top_k", "reasoning.budget": "thinking.budget_tokens", "tools[1]": "tools[1]", "ext.mystery": "mystery", "output.stops": "stop_sequences", "turns[1]": "messages[0]"}},
		protocol.OpenAIChat: {`{"model":"m","messages":[{"role":"system","content":"W1"},{"role":"user","content":[{"type":"text","text":"W2"},{"type":"text","text":"W3"}]},
			{"role":"assistant","reasoning_content":"W4","content":"W5","tool_calls":[{"id":"W6","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"W7","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"W6","content":"a"},{"role":"tool","tool_call_id":"W7","content":"b"},{"role":"user","content":"W8"}]}`,
			map[string]string{"sampling.temperature": "temperature", "output.format.schema": "response_format.schema", "reasoning.effort": "reasoning_effort", "turns[2].name": "messages[2].name", "turns": "messages"}},
		protocol.OpenAIResponses: {`{"model":"m","instructions":"W1","input":[{"role":"user","content":"W2"},{"type":"reasoning","summary":[{"type":"summary_text","text":"W3"}]},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"W4"},{"type":"output_text","text":"W5"}]},{"type":"function_call","call_id":"W6","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"W6","output":"r"},{"role":"user","content":[{"type":"input_text","text":"W7"}]}]}`,
			map[string]string{"output.max_tokens": "max_output_tokens", "reasoning.show": "reasoning.summary"}},
		protocol.Gemini: {`{"systemInstruction":{"parts":[{"text":"W1"},{"text":"W2"}]},"contents":[{"role":"user","parts":[{"text":"W3"}]},{"role":"model","parts":[{"text":"W4"},{"functionCall":{"id":"W5","name":"f","args":{}}}]},
			{"role":"user","parts":[{"text":"W6"},{"functionResponse":{"id":"W5","name":"f","response":{}}},{"text":"W7"}]}]}`,
			map[string]string{"output.max_tokens": "generationConfig.maxOutputTokens", "tool_choice": "toolConfig.functionCallingConfig"}},
	} {
		t.Run(string(name), func(t *testing.T) {
			d := dialectOf(t, name)
			in := protocol.Incoming{Body: []byte(c.body), Path: "/v1beta/models/m:generateContent"}
			req, fault := d.Codec.DecodeRequest(in)
			if fault != nil {
				t.Fatal(fault)
			}
			var report llm.Report
			var words []string
			for i, turn := range req.Turns {
				for j, b := range turn.Blocks {
					report.Drop(fmt.Sprintf("turns[%d].blocks[%d]", i, j), "test", "")
					words = append(words, wordOf(b))
				}
			}
			d.NameFields(d.Codec, in, req, report.Losses)
			seen := map[string]bool{}
			for i, loss := range report.Losses {
				if value := valueAt(t, c.body, loss.Path); !strings.Contains(value, words[i]) || words[i] == "" || seen[loss.Path] {
					t.Errorf("block %d is at %s, which is %s, want one with %q", i, loss.Path, value, words[i])
				}
				seen[loss.Path] = true
			}
			for neutral, want := range c.want {
				one := []llm.Loss{{Path: neutral}}
				d.NameFields(d.Codec, in, req, one)
				if one[0].Path != want {
					t.Errorf("%s is named %s, want %s", neutral, one[0].Path, want)
				}
			}
		})
	}
}

func dialectOf(t *testing.T, name protocol.Name) *codec.Dialect {
	t.Helper()
	for _, d := range Dialects() {
		if d.Name == name {
			return d
		}
	}
	t.Fatal("no dialect", name)
	return nil
}

// wordOf returns the word of the test in a block.
func wordOf(b llm.Block) string {
	switch b := b.(type) {
	case *llm.Text:
		return b.Text
	case *llm.Thought:
		return b.Text("")
	case *llm.ToolCall:
		return b.CallID
	case *llm.ToolResult:
		return b.CallID
	}
	return ""
}

// valueAt returns the JSON of the value at a path such as messages[0].content[1].
func valueAt(t *testing.T, body, path string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	for _, step := range regexp.MustCompile(`[^.\[\]]+`).FindAllString(path, -1) {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(at) {
				return "nothing"
			}
			v = at[i]
		default:
			return "nothing"
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
