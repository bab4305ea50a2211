package gemini

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

const textEvent = `{"candidates": [{"content": {"parts": [{"text": " of the quick brown fox"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 1234,"candidatesTokenCount": 56,"totalTokenCount": 1290,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 1234}]},"modelVersion": "gemini-2.5-flash","responseId": "zYxWvUtSrQpOnMlK"}`

func BenchmarkDecodeText(b *testing.B) {
	var d streamDecoder
	var events []llm.Event
	data := []byte(textEvent)
	b.ReportAllocs()
	for b.Loop() {
		events = d.Decode(nil, data, events[:0])
	}
}

func BenchmarkEncodeText(b *testing.B) {
	var enc StreamEncoder
	enc.Encode(llm.Start{ID: "chatcmpl-123", Model: "gpt-x"}, nil)
	enc.Encode(llm.BlockStart{Block: &llm.Text{}}, nil)
	var delta llm.Event = llm.Delta{Text: " of the quick brown fox"}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = enc.Encode(delta, out[:0])
	}
}

func BenchmarkTapText(b *testing.B) {
	tap := Codec{}.NewTap(1)
	data := []byte(textEvent)
	b.ReportAllocs()
	for b.Loop() {
		tap.Event(data)
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	body := []byte(`{"contents":[{"role":"user","parts":[{"text":"Weather?"}]},{"role":"model","parts":[{"functionCall":{"name":"get","args":{"city":"Paris"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"get","response":{"output":"18"}}}]}],"generationConfig":{"maxOutputTokens":100}}`)
	b.ReportAllocs()
	for b.Loop() {
		var r Request
		if err := unmarshalRequest(body, &r); err != nil {
			b.Fatal(err)
		}
		if _, err := readRequest(&r); err != nil {
			b.Fatal(err)
		}
	}
}
