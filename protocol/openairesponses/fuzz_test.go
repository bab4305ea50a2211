package openairesponses

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// seeds are the sections of that name in all cases.
func seeds(f *testing.F, section string) {
	f.Helper()
	for _, c := range protocoltest.Cases(f, "testdata") {
		if data, ok := c.Section(section); ok {
			f.Add(data)
		}
	}
}

// A request that can be read can be written, and what was written reads and
// writes the same.
func FuzzRequest(f *testing.F) {
	seeds(f, "request.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: body})
		if err != nil {
			return
		}
		target := protocol.Target{Model: "m"}
		out, _ := Codec{}.EncodeRequest(req, target, &llm.Report{Mode: llm.Loose})
		if !jsontext.Value(out.Body).IsValid() {
			t.Fatalf("%s\nbecame\n%s", body, out.Body)
		}
		again, err := Codec{}.DecodeRequest(protocol.Incoming{Body: out.Body})
		if err != nil {
			t.Fatalf("%v: %s\nfrom %s", err, out.Body, body)
		}
		second, _ := Codec{}.EncodeRequest(again, target, &llm.Report{Mode: llm.Loose})
		if !bytes.Equal(second.Body, out.Body) {
			t.Fatalf("%s\nbecame\n%s", out.Body, second.Body)
		}
	})
}

// An answer that can be read is written as a response that is one.
func FuzzResponse(f *testing.F) {
	seeds(f, "upstream.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		resp, err := Codec{}.DecodeResponse(body)
		_ = Codec{}.NewTap(1).Body(body)
		if err != nil {
			return
		}
		out := Codec{}.EncodeResponse(resp, nil, &llm.Report{})
		if !jsontext.Value(out).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("%s\nbecame\n%s", body, out)
		}
	})
}

// Whatever a stream holds, the events keep the rules and so does what is written
// from them.
func FuzzStream(f *testing.F) {
	seeds(f, "upstream.sse")
	f.Fuzz(func(t *testing.T, stream []byte) {
		events, err := protocoltest.ReadStream(Codec{}, bytes.NewReader(stream))
		if err != nil {
			return
		}
		if err := protocoltest.ValidateEvents(events); err != nil {
			t.Fatalf("%v\n%+v", err, events)
		}
		out := protocoltest.WriteStream(Codec{}, nil, events)
		if _, err := protocoltest.Check(protocol.OpenAIResponses, out); err != nil {
			t.Fatalf("%v\n%s\nfrom\n%s", err, out, stream)
		}
		tap := Codec{}.NewTap(1)
		for line := range bytes.Lines(stream) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				tap.Event(data)
			}
		}
	})
}

// An error always has a message and is always an error.
func FuzzError(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"m","type":"t","param":null,"code":"c"}}`, `{"error":"x"}`, `{"detail":[{"msg":"m"}]}`,
		`{"error":{"message":"{\"error\":{\"message\":\"inner\"}}"}}`, `<html>`, ``, `[[[[[[]]]]]]`, `"`} {
		f.Add(400, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := Codec{}.DecodeError(status, nil, body)
		if e == nil || e.Message == "" || e.Kind == "" || e.HTTPStatus() < 400 {
			t.Fatalf("%d %s: %+v", status, body, e)
		}
		if out := (Codec{}).EncodeError(e); !jsontext.Value(out).IsValid() {
			t.Fatalf("%s", out)
		}
	})
}
