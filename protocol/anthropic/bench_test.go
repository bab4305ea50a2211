package anthropic

import (
	"fmt"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

var textDelta = []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" a token of text"}}`)

func openedDecoder(b *testing.B) protocol.StreamDecoder {
	d := Codec{}.NewStreamDecoder()
	events := d.Decode(nil, []byte(`{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1}}}`), nil)
	events = d.Decode(nil, []byte(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`), events)
	if len(events) != 2 {
		b.Fatal("the stream has not begun")
	}
	return d
}

func BenchmarkDecodeTextDelta(b *testing.B) {
	d := openedDecoder(b)
	var events []llm.Event
	name := []byte("content_block_delta")
	b.ReportAllocs()
	for b.Loop() {
		events = d.Decode(name, textDelta, events[:0])
	}
	if len(events) != 1 {
		b.Fatal("no event")
	}
}

func BenchmarkEncodeTextDelta(b *testing.B) {
	s := Codec{}.NewStreamEncoder(nil)
	var out []byte
	out = s.Encode(llm.BlockStart{Block: &llm.Text{}}, out)
	var e llm.Event = llm.Delta{Text: " a token of text"}
	b.ReportAllocs()
	for b.Loop() {
		out = s.Encode(e, out[:0])
	}
	if len(out) == 0 {
		b.Fatal("no event")
	}
}

func BenchmarkTapTextDelta(b *testing.B) {
	tap := Codec{}.NewTap(1)
	b.ReportAllocs()
	for b.Loop() {
		if tap.Event(textDelta) != protocol.Content {
			b.Fatal("not content")
		}
	}
}

// BenchmarkRequest is a conversation of 50 turns with tools.
func BenchmarkRequest(b *testing.B) {
	body := []byte(`{"model":"m","max_tokens":100,"system":"Be brief.","tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}],"messages":[{"role":"user","content":"q"}`)
	for i := range 25 {
		body = fmt.Appendf(body, `,{"role":"assistant","content":[{"type":"text","text":"Let me look."},{"type":"tool_use","id":"t%d","name":"f","input":{"a":"b"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"18 degrees"}]}`, i, i)
	}
	body = append(body, "]}"...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		req, bad := Codec{}.DecodeRequest(protocol.Incoming{Body: body})
		if bad != nil {
			b.Fatal(bad)
		}
		if _, bad := (Codec{}).EncodeRequest(req, protocol.Target{}, &llm.Report{}); bad != nil {
			b.Fatal(bad)
		}
	}
}
