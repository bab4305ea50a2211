//go:build growth

package all

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// growing are requests and responses with n elements of one kind.
var growing = []struct {
	name   string
	in     protocol.Name
	kind   string // request, response or stream
	render func(n int) string
}{
	{"messages", protocol.OpenAIChat, "request", func(n int) string {
		return `{"model":"m","messages":[` + list(n, `{"role":"user","content":"x"},{"role":"assistant","content":"y"}`) + `]}`
	}},
	{"calls with results", protocol.OpenAIChat, "request", func(n int) string {
		return `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[` + list(n, `{"id":"c#","type":"function","function":{"name":"f","arguments":"{}"}}`) +
			`]},` + list(n, `{"role":"tool","tool_call_id":"c#","content":"r"}`) + `]}`
	}},
	{"tools", protocol.OpenAIChat, "request", func(n int) string {
		return `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[` + list(n, `{"type":"function","function":{"name":"f#","parameters":{}}}`) + `]}`
	}},
	{"parts", protocol.OpenAIChat, "request", func(n int) string {
		return `{"model":"m","messages":[{"role":"user","content":[` + list(n, `{"type":"text","text":"x"}`) + `]}]}`
	}},
	{"items", protocol.OpenAIResponses, "request", func(n int) string {
		return `{"model":"m","input":[` + list(n, `{"type":"function_call","call_id":"c#","name":"f","arguments":"{}"}`) + `,` + list(n, `{"type":"function_call_output","call_id":"c#","output":"r"}`) + `]}`
	}},
	{"reasoning items", protocol.OpenAIResponses, "request", func(n int) string {
		return `{"model":"m","input":[` + list(n, `{"type":"reasoning","id":"r#","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}`) + `]}`
	}},
	{"uses with results", protocol.Anthropic, "request", func(n int) string {
		return `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[` + list(n, `{"type":"tool_use","id":"c#","name":"f","input":{}}`) +
			`]},{"role":"user","content":[` + list(n, `{"type":"tool_result","tool_use_id":"c#","content":"r"}`) + `]}]}`
	}},
	{"properties of a strict tool", protocol.Anthropic, "request", func(n int) string {
		return `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","strict":true,"input_schema":{"type":"object","properties":{` +
			list(n, `"p#":{"type":"string"}`) + `},"required":[` + list(n, `"p#"`) + `],"additionalProperties":false}}]}`
	}},
	{"function calls", protocol.Gemini, "request", func(n int) string {
		return `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[` + list(n, `{"functionCall":{"name":"f#","args":{}}}`) +
			`]},{"role":"user","parts":[` + list(n, `{"functionResponse":{"name":"f#","response":{}}}`) + `]}]}`
	}},
	{"same function", protocol.Gemini, "request", func(n int) string {
		return `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[` + list(n, `{"functionCall":{"name":"f","args":{}}}`) +
			`]},{"role":"user","parts":[` + list(n, `{"functionResponse":{"name":"f","response":{}}}`) + `]}]}`
	}},
	{"choices", protocol.OpenAIChat, "response", func(n int) string {
		return `{"id":"x","object":"chat.completion","model":"m","choices":[` + list(n, `{"index":#,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}`) + `]}`
	}},
	{"calls", protocol.OpenAIChat, "response", func(n int) string {
		return `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[` +
			list(n, `{"id":"c#","type":"function","function":{"name":"f","arguments":"{}"}}`) + `]}}]}`
	}},
	{"empty output", protocol.OpenAIResponses, "response", func(n int) string {
		return `{"id":"x","object":"response","status":"completed","model":"m","output":[` + list(n, `{}`) + `]}`
	}},
	{"output", protocol.OpenAIResponses, "response", func(n int) string {
		return `{"id":"x","object":"response","status":"completed","model":"m","output":[` + list(n, `{"type":"function_call","id":"i#","call_id":"c#","name":"f","arguments":"{}"}`) + `]}`
	}},
	{"blocks", protocol.Anthropic, "response", func(n int) string {
		return `{"id":"x","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1},"content":[` + list(n, `{"type":"tool_use","id":"c#","name":"f","input":{}}`) + `]}`
	}},
	{"parts", protocol.Gemini, "response", func(n int) string {
		return `{"candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[` + list(n, `{"functionCall":{"name":"f","args":{}}}`) + `]}}]}`
	}},
	{"calls", protocol.OpenAIChat, "stream", func(n int) string {
		return strings.ReplaceAll(list(n, `{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":#,"id":"c#","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`), "},{\"id\":\"x\"", "}\n{\"id\":\"x\"") +
			"\n" + `{"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n[DONE]"
	}},
	{"calls without index", protocol.OpenAIChat, "stream", func(n int) string {
		return strings.ReplaceAll(list(n, `{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"id":"c#","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`), "},{\"id\":\"x\"", "}\n{\"id\":\"x\"") +
			"\n" + `{"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n[DONE]"
	}},
	{"items", protocol.OpenAIResponses, "stream", func(n int) string {
		return `{"type":"response.created","response":{"id":"x","status":"in_progress","model":"m"}}` + "\n" +
			strings.ReplaceAll(list(n, `{"type":"response.output_item.added","output_index":#,"item":{"type":"function_call","id":"i#","call_id":"c#","name":"f","arguments":""}}`+"\n"+
				`{"type":"response.function_call_arguments.delta","output_index":#,"item_id":"i#","delta":"{}"}`+"\n"+
				`{"type":"response.output_item.done","output_index":#,"item":{"type":"function_call","id":"i#","call_id":"c#","name":"f","arguments":"{}"}}`), "},{\"type\":\"response.output_item.added", "}\n{\"type\":\"response.output_item.added") +
			"\n" + `{"type":"response.completed","response":{"id":"x","status":"completed","model":"m","output":[]}}`
	}},
	{"blocks", protocol.Anthropic, "stream", func(n int) string {
		return `{"type":"message_start","message":{"id":"x","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}` + "\n" +
			strings.ReplaceAll(list(n, `{"type":"content_block_start","index":#,"content_block":{"type":"tool_use","id":"c#","name":"f","input":{}}}`+"\n"+`{"type":"content_block_stop","index":#}`),
				"},{\"type\":\"content_block_start", "}\n{\"type\":\"content_block_start") +
			"\n" + `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}` + "\n" + `{"type":"message_stop"}`
	}},
	{"parts", protocol.Gemini, "stream", func(n int) string {
		return strings.ReplaceAll(list(n, `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"f#","args":{}}}]}}]}`), "},{\"candidates\"", "}\n{\"candidates\"") +
			"\n" + `{"candidates":[{"index":0,"content":{"role":"model","parts":[]},"finishReason":"STOP"}]}`
	}},
}

// TestWorkGrowsLinearly multiplies requests and responses and checks that the CPU time of their
// translation does not grow faster. It takes a minute, so only make growth runs it.
func TestWorkGrowsLinearly(t *testing.T) {
	t.Cleanup(func() { debug.SetGCPercent(100) })
	debug.SetGCPercent(-1)
	for i, g := range growing {
		for j, out := range Codecs() {
			if testing.Short() && j != i%len(Codecs()) {
				continue
			}
			if !testing.Short() && g.kind != "request" && g.in != protocol.OpenAIChat && out.Name() != protocol.Anthropic {
				continue // the encoders see the same events from Chat
			}
			t.Run(fmt.Sprintf("%s/%s/%s/%s", g.in, g.kind, g.name, out.Name()), func(t *testing.T) {
				in := codecOf(t, g.in)
				const n = 2000
				cost := func(n int) time.Duration {
					text := g.render(n)
					runtime.GC() // none runs during the measurement
					before := testrig.ProcessorTime(t)
					translate(in, out, g.kind, text)
					return testrig.ProcessorTime(t) - before
				}
				// Linear work costs four times as much, quadratic work sixteen times. Other
				// processes take the caches of the processor, so a ratio above nine is measured
				// again; the least costs count.
				small, large := cost(n), cost(4*n)
				for again := 0; again < 4 && large > 9*small; again++ {
					small, large = min(small, cost(n)), min(large, cost(4*n))
				}
				t.Logf("%v for %d elements, %v for %d", small, n, large, 4*n)
				if large > 9*small && large > 10*time.Millisecond {
					t.Errorf("%d elements take %v, %d take %v: more than linear", n, small, 4*n, large)
				}
			})
		}
	}
}

// translate decodes a text and encodes it in another dialect. Errors end it, as in the gateway.
func translate(in, out protocol.Translator, kind, text string) {
	ask := &llm.Request{Model: "m"}
	report := &llm.Report{Mode: llm.Loose}
	switch kind {
	case "request":
		if req, err := in.DecodeRequest(protocol.Incoming{Body: []byte(text)}); err == nil {
			_, _ = out.EncodeRequest(req, protocol.Target{Model: "m"}, report)
		}
	case "response":
		if resp, err := in.DecodeResponse([]byte(text)); err == nil {
			_ = out.EncodeResponse(resp, ask, report)
		}
	case "stream":
		decoder, encoder := in.NewStreamDecoder(), out.NewStreamEncoder(ask)
		var events []llm.Event
		var written []byte
		encode := func() {
			for _, e := range events {
				written = encoder.Encode(e, written[:0])
			}
		}
		for line := range bytes.SplitSeq([]byte(text), []byte("\n")) {
			events = decoder.Decode(nil, line, events[:0])
			encode()
		}
		events = decoder.Finish(events[:0])
		encode()
	}
}
