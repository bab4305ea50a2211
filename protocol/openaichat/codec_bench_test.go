package openaichat

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

const textChunk = `{"id":"chatcmpl-abc123","object":"chat.completion.chunk","created":1770000000,"model":"gpt-x-2026","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"obfuscation":"hx2K"}`

const callChunk = `{"id":"chatcmpl-abc123","object":"chat.completion.chunk","created":1770000000,"model":"gpt-x-2026","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"ci"}}]},"logprobs":null,"finish_reason":null}]}`

func BenchmarkDecodeDelta(b *testing.B) {
	for name, chunk := range map[string]string{"text": textChunk, "arguments": callChunk} {
		b.Run(name, func(b *testing.B) {
			d := Codec{}.NewStreamDecoder()
			d.Decode(nil, []byte(`{"id":"chatcmpl-abc123","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}}]}`), nil)
			data := []byte(chunk)
			var events []llm.Event
			b.ReportAllocs()
			for b.Loop() {
				events = d.Decode(nil, data, events[:0])
			}
			if len(events) != 1 {
				b.Fatalf("%v", events)
			}
		})
	}
}

func BenchmarkEncodeDelta(b *testing.B) {
	e := Codec{}.NewStreamEncoder(&llm.Request{})
	var out []byte
	out = e.Encode(llm.Start{ID: "chatcmpl-abc123", Model: "gpt-x-2026", Created: 1770000000}, out)
	out = e.Encode(llm.BlockStart{Block: &llm.Text{}}, out)
	var delta llm.Event = llm.Delta{Text: " token"}
	b.ReportAllocs()
	for b.Loop() {
		out = e.Encode(delta, out[:0])
	}
}
