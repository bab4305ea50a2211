package anthropic

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func seed(f *testing.F, section string) {
	for _, data := range sections(f, section) {
		f.Add(data)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	seed(f, "request.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		req, bad := Codec{}.DecodeRequest(protocol.Incoming{Body: body})
		if bad != nil {
			return
		}
		out, bad := Codec{}.EncodeRequest(req, protocol.Target{}, &llm.Report{Mode: llm.Loose})
		if bad != nil {
			return
		}
		if !jsontext.Value(out.Body).IsValid(wire.Lenient) {
			t.Fatalf("not JSON: %s", out.Body)
		}
		if _, bad := (Codec{}).DecodeRequest(protocol.Incoming{Body: out.Body}); bad != nil {
			t.Fatalf("%v: %s", bad, out.Body)
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	seed(f, "upstream.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		resp, bad := Codec{}.DecodeResponse(body)
		if bad != nil {
			return
		}
		if out := (Codec{}).EncodeResponse(resp, nil, &llm.Report{}); !jsontext.Value(out).IsValid(wire.Lenient) {
			t.Fatalf("not JSON: %s", out)
		}
		stream := protocoltest.WriteStream(Codec{}, nil, llm.Explode(resp))
		eachEvent(t, stream, func(_, data []byte) {
			if !jsontext.Value(data).IsValid(wire.Lenient) {
				t.Fatalf("not JSON: %s", data)
			}
		})
	})
}

func FuzzDecodeStream(f *testing.F) {
	seed(f, "upstream.sse")
	f.Fuzz(func(t *testing.T, stream []byte) {
		events, err := protocoltest.ReadStream(Codec{}, bytes.NewReader(stream))
		if err != nil {
			return
		}
		if err := protocoltest.ValidateEvents(events); err != nil {
			t.Fatalf("%v\n%s", err, protocoltest.DumpEvents(events))
		}
		ending, err := protocoltest.Check(protocol.Anthropic, protocoltest.WriteStream(Codec{}, nil, events))
		if ending == protocoltest.Open {
			t.Fatalf("the client's stream has no end: %v", err)
		}
	})
}

func FuzzDecodeError(f *testing.F) {
	f.Add(529, []byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded","details":{"error_code":"x"}}}`))
	f.Add(400, []byte(`{"error":"{\"error\":[{\"detail\":\"x\"}]}"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := (Codec{}).DecodeError(status, nil, body)
		if e.Message == "" || e.Kind == "" {
			t.Fatalf("%+v", e)
		}
		if out := (Codec{}).EncodeError(e); !jsontext.Value(out).IsValid(wire.Lenient) {
			t.Fatalf("not JSON: %s", out)
		}
	})
}
