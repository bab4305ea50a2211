package gemini

import (
	"bytes"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// seeds adds the first section of the cases that begin with it.
func seeds(f *testing.F, section string) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if a.Files[0].Name == section {
			f.Add(a.Files[0].Data)
		}
	}
}

func FuzzRequest(f *testing.F) {
	seeds(f, "request.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: body})
		if err != nil {
			return
		}
		report := &llm.Report{}
		out, bad := Codec{}.EncodeRequest(req, protocol.Target{Model: "gemini-3"}, report)
		if bad != nil {
			return
		}
		if !jsontext.Value(out.Body).IsValid() {
			t.Fatalf("%s", out.Body)
		}
		again, err := Codec{}.DecodeRequest(protocol.Incoming{Body: out.Body})
		if err != nil {
			t.Fatalf("%s: %v", out.Body, err)
		}
		second, bad := Codec{}.EncodeRequest(again, protocol.Target{Model: "gemini-3"}, &llm.Report{})
		if bad != nil || !bytes.Equal(second.Body, out.Body) {
			t.Fatalf("%v\n%s\n%s", bad, out.Body, second.Body)
		}
	})
}

func FuzzResponse(f *testing.F) {
	seeds(f, "upstream.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = (&Tap{}).Body(body) // whatever it says, it must say something
		resp, err := Codec{}.DecodeResponse(body)
		if err != nil {
			return
		}
		if out := (Codec{}).EncodeResponse(resp, nil, &llm.Report{}); !jsontext.Value(out).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("%s", out)
		}
	})
}

func FuzzStream(f *testing.F) {
	seeds(f, "upstream.sse")
	f.Fuzz(func(t *testing.T, stream []byte) {
		events := readStream(t, stream)
		var client []byte
		var enc StreamEncoder
		enc.Array()
		for _, e := range events {
			client = enc.Encode(e, client)
		}
		if !jsontext.Value(client).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("%s", client)
		}
	})
}

func FuzzError(f *testing.F) {
	for _, body := range []string{`[{"error":{"code":400,"details":[{"retryDelay":"1s"}]}}]`, `{"detail":[{"msg":"m"}]}`, `"text"`, `{"errors":["a"]}`} {
		f.Add(400, []byte(body))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := Codec{}.DecodeError(status, http.Header{}, body)
		if e.Message == "" || !jsontext.Value(Codec{}.EncodeError(e)).IsValid() {
			t.Fatalf("%+v", e)
		}
	})
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"OBJECT","properties":{"a":{"allOf":[{"const":1},{"nullable":true}],"items":[]}},"$ref":"#/definitions/x"}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		if !jsontext.Value(schema).IsValid() {
			return
		}
		if out := jsonSchema(schema); !out.IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("%s", out)
		}
		if out := fitSchema(llm.Raw(schema), "x", &llm.Report{}); !out.IsValid() {
			t.Fatalf("%s", out)
		}
	})
}

func FuzzPath(f *testing.F) {
	f.Add("/v1/models/vendor%2Fm:x:generateContent")
	f.Fuzz(func(t *testing.T, p string) {
		a, found, err := ParsePath(http.MethodPost, p)
		if found && err == nil && (a.Model == "" || a.Verb == "" || a.Version == "") {
			t.Fatalf("%q: %+v", p, a)
		}
	})
}
