package openaichat

import (
	"bytes"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// seed adds a section of every case.
func seed(f *testing.F, section string) {
	f.Helper()
	for _, c := range protocoltest.Cases(f, "testdata/codec") {
		if data, ok := c.Section(section); ok {
			f.Add(data)
		}
	}
}

// What is read as a request can be written, and what was written reads the same.
func FuzzDecodeRequest(f *testing.F) {
	seed(f, "request.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: body})
		if err != nil {
			return
		}
		out, err := Codec{}.EncodeRequest(req, protocol.Target{Model: req.Model}, &llm.Report{Mode: llm.Loose})
		if err != nil {
			return
		}
		again, err := Codec{}.DecodeRequest(protocol.Incoming{Body: out.Body})
		if err != nil {
			t.Fatalf("%v\n%s", err, out.Body)
		}
		twice, err := Codec{}.EncodeRequest(again, protocol.Target{Model: req.Model}, &llm.Report{Mode: llm.Loose})
		if err != nil || !bytes.Equal(twice.Body, out.Body) {
			t.Errorf("%v\n%s\n%s", err, out.Body, twice.Body)
		}
	})
}

// What is read as an answer can be written whole and as a stream.
func FuzzDecodeResponse(f *testing.F) {
	seed(f, "upstream.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		resp, err := Codec{}.DecodeResponse(body)
		if err != nil {
			return
		}
		out := Codec{}.EncodeResponse(resp, &llm.Request{}, &llm.Report{})
		if _, err := (Codec{}).DecodeResponse(out); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// A stream of any bytes is one that keeps the rules, and so is what the client gets.
func FuzzDecodeStream(f *testing.F) {
	seed(f, "upstream.sse")
	f.Fuzz(func(t *testing.T, raw []byte) {
		events, err := protocoltest.ReadStream(Codec{}, bytes.NewReader(raw))
		if err != nil {
			return
		}
		if err := protocoltest.ValidateEvents(events); err != nil {
			t.Fatalf("%v\n%s", err, protocoltest.DumpEvents(events))
		}
		out := protocoltest.WriteStream(Codec{}, &llm.Request{IncludeUsage: true}, events)
		_, failed := events[len(events)-1].(llm.Failure)
		if ending, err := protocoltest.Check(protocol.OpenAIChat, out); err != nil || (ending == protocoltest.Failed) != failed {
			t.Errorf("ends %s: %v\n%s\n%s", ending, err, protocoltest.DumpEvents(events), out)
		}
	})
}

// The quick way through a chunk gives what the long way does.
func FuzzQuickChunk(f *testing.F) {
	f.Add([]byte(textChunk))
	f.Add([]byte(callChunk))
	f.Add([]byte(`{"choices":[{"index":0,"delta":{"reasoning_content":"\ud83d","content":null}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var results [2]string
		for i := range results {
			d := Codec{}.NewStreamDecoder().(*streamDecoder)
			d.Decode(nil, []byte(`{"id":"c","model":"m","created":7,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}`), nil)
			var events []llm.Event
			if i == 0 {
				quick, ok := d.quick(data, nil)
				if !ok {
					return
				}
				events = quick
			} else if events = d.long(data, nil); len(events) > 0 {
				if _, broken := events[0].(llm.Failure); broken {
					return // the quick way does not look at what it passes over
				}
			}
			results[i] = protocoltest.DumpEvents(d.Finish(events))
		}
		if results[0] != results[1] {
			t.Errorf("quick:\n%s\nlong:\n%s", results[0], results[1])
		}
	})
}

func FuzzDecodeError(f *testing.F) {
	f.Add(400, []byte(`{"error":{"message":"m","code":400}}`))
	f.Add(500, []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := Codec{}.DecodeError(status, nil, body)
		if e == nil || e.Kind == "" || e.Message == "" {
			t.Errorf("%d %q: %+v", status, body, e)
		}
	})
}
