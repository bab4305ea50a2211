package openairesponses

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

var deltaData = []byte(`{"type":"response.output_text.delta","sequence_number":12,"item_id":"msg_68af5b1c7d708191b5c7e0f2a1d3c4b5","output_index":0,"content_index":0,"delta":" tokens","logprobs":[],"obfuscation":"aB3dE5fG"}`)

func BenchmarkDecodeTextDelta(b *testing.B) {
	d := Codec{}.NewStreamDecoder()
	var events []llm.Event
	b.ReportAllocs()
	for b.Loop() {
		events = d.Decode([]byte("response.output_text.delta"), deltaData, events[:0])
	}
	if len(events) != 1 {
		b.Fatal(events)
	}
}

func BenchmarkEncodeTextDelta(b *testing.B) {
	s := Codec{}.NewStreamEncoder(nil)
	out := s.Encode(llm.Start{ID: "x"}, nil)
	out = s.Encode(llm.BlockStart{Block: &llm.Text{}}, out)
	var e llm.Event = llm.Delta{Text: " tokens"}
	b.ReportAllocs()
	for b.Loop() {
		out = s.Encode(e, out[:0])
	}
}

func BenchmarkTapTextDelta(b *testing.B) {
	tap := Codec{}.NewTap(1)
	b.ReportAllocs()
	for b.Loop() {
		tap.Event(deltaData)
	}
}

func BenchmarkRequest(b *testing.B) {
	var body []byte
	for _, c := range protocoltest.Cases(b, "testdata") {
		if c.Name == "codex" {
			body, _ = c.Section("request.json")
		}
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, err := (Codec{}).DecodeRequest(protocol.Incoming{Body: body}); err != nil {
				b.Fatal(err)
			}
		}
	})
	req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: body})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := (Codec{}).EncodeRequest(req, protocol.Target{Model: "m"}, &llm.Report{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
