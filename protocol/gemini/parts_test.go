package gemini

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func TestParsePath(t *testing.T) {
	for in, want := range map[string]Address{
		"/v1beta/models/gemini-x:generateContent":                                               {"v1beta", "gemini-x", Generate},
		"/v1/models/vendor/m:generateContent":                                                   {"v1", "vendor/m", Generate}, // VER-16
		"/v1/models/vendor%2Fm:streamGenerateContent":                                           {"v1", "vendor/m", StreamGenerate},
		"/v1/models/m:x:generateContent":                                                        {"v1", "m:x", Generate},
		"/v1/models/m%3Ax:generateContent":                                                      {"v1", "m:x", Generate},
		"/v1/models/m%3AcountTokens":                                                            {"v1", "m", CountTokens},
		"/v1alpha/models/models/m:embedContent":                                                 {"v1alpha", "m", Embed},
		"/v1beta/models/models%2Fm:batchEmbedContents":                                          {"v1beta", "m", BatchEmbed},
		"/v1beta/tunedModels/t:generateContent":                                                 {"v1beta", "tunedModels/t", Generate},
		"/v1/v1beta/models/m:generateContent":                                                   {"v1beta", "m", Generate}, // VER-20
		"/v1beta1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent":     {"v1beta1", "gemini-x", Generate},
		"/v1beta1/projects/p/locations/l/publishers/anthropic/models/claude:predictLongRunning": {"v1beta1", "claude", PredictLongRunning},
	} {
		if a, found, err := ParsePath(http.MethodPost, in); a != want || !found || err != nil {
			t.Errorf("%s: %+v %v %v", in, a, found, err)
		}
	}
	for _, in := range []string{"/v1/models/m", "/v2/models/m:generateContent", "/v1/chat/completions", "/", "", "/v1/files/a:generateContent"} {
		if a, found, err := ParsePath(http.MethodPost, in); found || err != nil {
			t.Errorf("%s: %+v %v", in, a, err)
		}
	}
	if _, found, _ := ParsePath(http.MethodGet, "/v1/models/vendor%2Fm:free"); found { // VER-17
		t.Error("a model's name was taken for a call")
	}
	for _, in := range []string{"/v1/models/m:frobnicate", "/v1/models/:generateContent", "/v1/models/m%zz:generateContent", "/v1/models/m:"} { // VER-18
		_, found, err := ParsePath(http.MethodPost, in)
		if !found || err == nil || !strings.Contains(string(Codec{}.EncodeError(err)), `"code":404,`) {
			t.Errorf("%s: %v %v", in, found, err)
		}
	}
}

func TestPathOfRequest(t *testing.T) {
	body := []byte(`{"model":"other","contents":[]}`)
	for path, stream := range map[string]bool{"/v1/models/m:generateContent": false, "/v1/models/m:streamGenerateContent": true} {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: body, Path: path})
		if err != nil || req.Model != "m" || req.Stream != stream {
			t.Errorf("%s: %+v %v", path, req, err)
		}
	}
	if _, err := (Codec{}).DecodeRequest(protocol.Incoming{Body: body, Path: "/v1/models/m:what"}); err == nil || err.Kind != llm.NotFound {
		t.Errorf("%v", err)
	}
	if req, _ := (Codec{}).DecodeRequest(protocol.Incoming{Body: body}); req.Model != "other" {
		t.Errorf("%+v", req)
	}
}

func TestJSONSchema(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"OBJECT","properties":{"type":{"type":"STRING"},"nullable":{"type":"NUMBER","nullable":true}},"propertyOrdering":["type"]}`: `{"type":"object","properties":{"type":{"type":"string"},"nullable":{"type":["number","null"]}}}`,
		`{"type":"STRING","enum":["a"],"nullable":true,"format":"enum"}`:                                                                     `{"type":["string","null"],"enum":["a",null]}`,
		`{"any_of":[{"type":"STRING"},{"type":"INTEGER"}],"nullable":true}`:                                                                  `{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`,
		`{"type":"ARRAY","items":{"type":"TYPE_UNSPECIFIED"},"min_items":"1","maxItems":2,"example":[]}`:                                     `{"type":"array","items":{},"minItems":1,"maxItems":2,"examples":[[]]}`,
		`true`: `true`,
	} {
		if got := string(jsonSchema(wire.Raw(in))); got != want {
			t.Errorf("\n  in %s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestFitSchema(t *testing.T) {
	const moved, added = "approximated schema.keyword_moved x\n", "approximated schema.items_added x\n"
	for in, want := range map[string][2]string{
		// all of it is taken: the same bytes
		`{ "type":"object", "$defs":{"u":{"type":"string","enum":["C","°"]}},"properties":{"u":{"$ref":"#/$defs/u"},"n":{"type":["string","null"]}},"additionalProperties":false}`: {`{ "type":"object", "$defs":{"u":{"type":"string","enum":["C","°"]}},"properties":{"u":{"$ref":"#/$defs/u"},"n":{"type":["string","null"]}},"additionalProperties":false}`, ""},
		// GEM-22
		`{"$schema":"x","type":"object","properties":{"a":{"type":"string","description":"d","minLength":1,"pattern":"^a","default":"a"}}}`: {`{"type":"object","properties":{"a":{"type":"string","description":"d (minLength: 1; pattern: \"^a\"; default: \"a\")"}}}`, moved},
		`{"$schema":"x","type":"object"}`: {`{"type":"object"}`, ""},
		// GEM-23
		`{"type":"object","properties":{"const":{"type":"string"},"$schema":{"type":"string"},"properties":{"type":"object","properties":{"default":{"type":"string"}}},"$ref":{"type":"string"}},"required":["const","$ref"]}`: {`{"type":"object","properties":{"const":{"type":"string"},"$schema":{"type":"string"},"properties":{"type":"object","properties":{"default":{"type":"string"}}},"$ref":{"type":"string"}},"required":["const","$ref"]}`, ""},
		// GEM-24
		`{"type":"string","nullable":true}`:                               {`{"type":["string","null"]}`, ""},
		`{"anyOf":[{"type":"string"},{"type":"null","description":"d"}]}`: {`{"anyOf":[{"type":"string"},{"type":"null","description":"d"}]}`, ""},
		// GEM-25
		`{"type":"string","enum":["a",null]}`: {`{"type":["string","null"],"enum":["a"]}`, ""},
		`{"type":"string","enum":[""]}`:       {`{"type":"string","description":"enum: an empty string is allowed too"}`, moved},
		`{"type":"integer","enum":[1,2]}`:     {`{"type":"integer","enum":[1,2]}`, ""},
		// GEM-26
		`{"const":"x"}`: {`{"enum":["x"]}`, ""},
		`{"definitions":{"n":{"type":"object","properties":{"next":{"$ref":"#/definitions/n"}}}},"$ref":"#/definitions/n"}`: {`{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`, ""},
		`{"properties":{"a":{"$ref":"#/$defs/n","description":"d"}}}`:                                                       {`{"properties":{"a":{"description":"d","anyOf":[{"$ref":"#/$defs/n"}]}}}`, ""},
		// GEM-27
		`{"type":"array"}`:                                    {`{"type":"array","items":{"type":"string"}}`, added},
		`{"type":["array","null"]}`:                           {`{"type":["array","null"],"items":{"type":"string"}}`, added},
		`{"type":"array","items":[{"type":"string"},true]}`:   {`{"type":"array","prefixItems":[{"type":"string"},{}]}`, ""},
		`{"allOf":[{"type":"object","properties":{"a":{}}}]}`: {`{"type":"object","properties":{"a":{}}}`, ""},
		`{"properties":{"a":{"type":"string"}},"required":["a"],"allOf":[{"properties":{"a":{},"b":{}},"required":["a","b"]},{"title":"t"}]}`: {`{"properties":{"a":{"type":"string"},"b":{}},"required":["a","b"],"title":"t"}`, moved},
	} {
		report := &llm.Report{}
		got := string(fitSchema(llm.Raw(in), "x", report))
		if got != want[0] || losses(report) != want[1] {
			t.Errorf("\n  in %s\n got %s\nwant %s\n%s", in, got, want[0], losses(report))
		}
		// What was fitted once fits.
		if again := string(fitSchema(llm.Raw(got), "x", &llm.Report{})); again != got {
			t.Errorf("\n got %s\nthen %s", got, again)
		}
	}
}

func TestDecodeError(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   llm.Error
	}{
		"rate limit": {429, nil, `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.6s"}]}}`,
			llm.Error{Kind: llm.RateLimit, Message: "slow", RetryAfter: 35 * time.Second}}, // ERR-11
		"header first":  {429, http.Header{"Retry-After": {"7"}}, `{"error":{"message":"slow"}}`, llm.Error{Kind: llm.RateLimit, Message: "slow", RetryAfter: 7 * time.Second}},
		"milliseconds":  {429, http.Header{"Retry-After-Ms": {"1500"}}, `{}`, llm.Error{Kind: llm.RateLimit, Message: "the upstream answered with status 429 and no message", RetryAfter: 1500 * time.Millisecond}},
		"array":         {400, nil, ` [{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`, llm.Error{Kind: llm.InvalidRequest, Status: 400, Message: "bad"}}, // GEM-21
		"bad key":       {400, nil, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, llm.Error{Kind: llm.UpstreamAuth, Code: "API_KEY_INVALID", Message: "API key not valid."}},
		"too long":      {400, nil, `{"error":{"message":"The input token count (5) exceeds the maximum number of tokens allowed (4)."}}`, llm.Error{Kind: llm.InvalidRequest, Status: 400, Code: "context_length_exceeded", Message: "The input token count (5) exceeds the maximum number of tokens allowed (4)."}},
		"a string":      {500, nil, `{"error":"text"}`, llm.Error{Kind: llm.Upstream, Message: "text"}}, // ERR-04
		"a list":        {422, nil, `{"detail":[{"msg":"field required"}]}`, llm.Error{Kind: llm.InvalidRequest, Status: 422, Message: "field required"}},
		"errors":        {503, nil, `{"errors":[{"message":"m","code":"c"}]}`, llm.Error{Kind: llm.Overloaded, Message: "m", Code: "c"}},
		"in a message":  {529, nil, `{"error":{"message":"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"}}`, llm.Error{Kind: llm.Overloaded, Message: "Overloaded", Code: "overloaded_error"}}, // ERR-17
		"a page":        {502, nil, `<html>bad gateway 10.0.0.1</html>`, llm.Error{Kind: llm.Upstream, Message: "the upstream answered with status 502 and no message"}},                                                                   // ERR-13
		"nothing":       {504, nil, ``, llm.Error{Kind: llm.Timeout, Message: "the upstream answered with status 504 and no message"}},
		"unauthorized":  {401, nil, `{"error":{"message":"m","status":"UNAUTHENTICATED"}}`, llm.Error{Kind: llm.UpstreamAuth, Message: "m"}}, // ERR-15
		"forbidden":     {403, nil, `{"error":{"message":"m"}}`, llm.Error{Kind: llm.Permission, Message: "m"}},
		"no such model": {404, nil, `{"error":{"message":"m"}}`, llm.Error{Kind: llm.NotFound, Message: "m"}},
		"unpaid":        {402, nil, `{"error":{"message":"m"}}`, llm.Error{Kind: llm.Quota, Message: "m"}},
	} {
		c.want.Relayed = true
		if got := (Codec{}).DecodeError(c.status, c.header, []byte(c.body)); *got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, *got, c.want)
		}
	}
}

// Every kind has an envelope that Google's SDKs read.
func TestEncodeError(t *testing.T) {
	for kind, want := range map[llm.Kind]string{
		llm.InvalidRequest: `{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}`,
		llm.Authentication: `{"error":{"code":401,"message":"m","status":"UNAUTHENTICATED"}}`,
		llm.Permission:     `{"error":{"code":403,"message":"m","status":"PERMISSION_DENIED"}}`,
		llm.NotFound:       `{"error":{"code":404,"message":"m","status":"NOT_FOUND"}}`,
		llm.TooLarge:       `{"error":{"code":413,"message":"m","status":"INVALID_ARGUMENT"}}`,
		llm.RateLimit:      `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}`,
		llm.Quota:          `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"insufficient_quota"}]}}`,
		llm.Overloaded:     `{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`,
		llm.Timeout:        `{"error":{"code":504,"message":"m","status":"DEADLINE_EXCEEDED"}}`,
		llm.Upstream:       `{"error":{"code":502,"message":"m","status":"INTERNAL"}}`,
		llm.UpstreamAuth:   `{"error":{"code":502,"message":"m","status":"INTERNAL"}}`,
		llm.Internal:       `{"error":{"code":500,"message":"m","status":"INTERNAL"}}`,
		"novelty":          `{"error":{"code":500,"message":"m","status":"INTERNAL"}}`,
	} {
		e := &llm.Error{Kind: kind, Message: "m"}
		if got := string(Codec{}.EncodeError(e)); got != want {
			t.Errorf("%s: %s", kind, got)
		}
		if got := string(Codec{}.EncodeStreamError(e)); got != "data: "+want+"\n\n" {
			t.Errorf("%s: %s", kind, got)
		}
	}
	full := &llm.Error{Kind: llm.RateLimit, Code: "c", Param: "p", Message: "a\n\"b\"", RetryAfter: 1500 * time.Millisecond}
	if got := Codec.EncodeError(Codec{}, full); !jsontext.Value(got).IsValid() || !strings.Contains(string(got), `"retryDelay":"2s"`) {
		t.Errorf("%s", got)
	}
}

func TestTap(t *testing.T) {
	tap := Codec{}.NewTap(1)
	feed := func(want protocol.Mark, data string) {
		t.Helper()
		if got := tap.Event([]byte(data)); got != want {
			t.Errorf("%s: mark %d, want %d", data, got, want)
		}
	}
	feed(protocol.Keepalive, " ")
	feed(protocol.Content, `{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"responseId":"r","modelVersion":"m"}`)
	feed(protocol.Content, `{"candidates":[{"content":{"parts":[{"text":"\"usageMetadata\":{\"promptTokenCount\":9}"}]}}],"usageMetadata": {"promptTokenCount":7,"cachedContentTokenCount":2}}`)
	if s := tap.Summary(); s.ID != "r" || s.Model != "m" || s.Complete || *s.Usage != (llm.Usage{Input: 5, CacheRead: 2}) {
		t.Errorf("%+v %+v", s, s.Usage) // USE-19: known though the answer has not ended
	}
	feed(protocol.Content, `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":3}}`)
	feed(protocol.Content, `{"candidates":[{"finishReason":"STOP"}]}`)
	if s := tap.Summary(); !s.Complete || s.Finish != "STOP" || *s.Usage != (llm.Usage{Input: 5, CacheRead: 2, Output: 3}) {
		t.Errorf("%+v %+v", s, s.Usage)
	}
	feed(protocol.Failed, `[{"error":{"code":503,"message":"over"}}]`)
	if s := tap.Summary(); s.Complete || s.Err == nil || s.Err.Kind != llm.Overloaded {
		t.Errorf("%+v", s)
	}
	two := Codec{}.NewTap(2)
	two.Event([]byte(`{"candidates":[{"finishReason":"STOP","index":1}]}`))
	if two.Summary().Complete {
		t.Error("one of two choices has ended")
	}
	blocked := Codec{}.NewTap(1)
	blocked.Event([]byte(`{"promptFeedback":{"blockReason":"SAFETY"}}`))
	if s := blocked.Summary(); !s.Complete || s.Finish != "SAFETY" {
		t.Errorf("%+v", s)
	}
	for _, body := range []string{"", "<html>", `{"error":{"message":"m"}}`, `{"candidates":[`} {
		if err := (&Tap{}).Body([]byte(body)); err == nil {
			t.Errorf("%q was taken for an answer", body)
		}
	}
}

// Seals of other protocols go out in a signature that Google's SDKs keep, and
// come back, whole or in the pieces of a stream, in either alphabet of base64.
func TestForeignSeals(t *testing.T) {
	thought := &llm.Thought{
		Meta:  llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "EqQBCkg?>~", Origin: string(protocol.Anthropic)}}},
		Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "I think. "}, {Form: llm.FullReasoning, Text: "So."}},
	}
	redacted := &llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Redacted, Data: "xyz", Origin: string(protocol.Anthropic)}}}}
	resp := &llm.Response{ID: "r", Model: "m", Choices: []llm.Choice{{
		Blocks: []llm.Block{thought, redacted, &llm.Text{Text: "Hi"}, &llm.ToolCall{CallID: "c", Kind: llm.FunctionTool, Name: "f", Args: "{}"}},
		Stop:   llm.Stop{Kind: llm.ToolUse},
	}}}
	back := func(parts []string) string {
		body := `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[` + strings.Join(parts, ",") + `]}]}`
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, b := range req.Turns[1].Blocks {
			s := ""
			for _, seal := range b.Common().Seals {
				s += string(seal.Form) + "/" + seal.Origin + "/" + seal.Data
			}
			if t, ok := b.(*llm.Thought); ok {
				out = append(out, "thought "+t.Text("")+" "+s)
			} else if t, ok := b.(*llm.Text); !ok || t.Text != "" {
				out = append(out, "other "+s)
			}
		}
		return strings.Join(out, "\n")
	}
	const want = "thought I think. So. signature/anthropic/EqQBCkg?>~\nthought  redacted/anthropic/xyz\nother \nother "
	parts := func(body []byte) []string {
		var w Response
		if err := w.UnmarshalJSON(body); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var c wire.Object
		if err := c.UnmarshalJSON(w.Candidates.Value()[0].Content); err != nil {
			t.Fatal(err)
		}
		list, _ := c.Get("parts")
		items, _ := elements(list)
		var out []string
		for _, i := range items {
			out = append(out, string(i))
		}
		return out
	}
	whole := parts(Codec{}.EncodeResponse(resp, nil, &llm.Report{}))
	if got := back(whole); got != want {
		t.Errorf("whole:\n%s", got)
	}
	for i := range whole { // as the Python SDK sends it back
		if at := strings.Index(whole[i], carrierHead); at >= 0 {
			whole[i] = whole[i][:at] + strings.NewReplacer("+", "-", "/", "_").Replace(whole[i][at:])
		}
	}
	if got := back(whole); got != want {
		t.Errorf("other alphabet:\n%s", got)
	}
	enc := StreamEncoder{form: asLines}
	var out []byte
	for _, e := range llm.Explode(resp) {
		out = enc.Encode(e, out)
	}
	var streamed []string
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		streamed = append(streamed, parts([]byte(line))...)
	}
	if got := back(streamed); got != want {
		t.Errorf("streamed:\n%s", got)
	}
	if got := readSeals("", wire.Raw(`{"anthropic":{"signature":"s"}}`)); len(got) != 1 || got[0].Origin != "anthropic" {
		t.Errorf("extra_content: %+v", got)
	}
}

func TestStandardBase64(t *testing.T) {
	for n := range 9 {
		data := []byte{0xfb, 0xff, 0xfe, 0, 1, 2, 0xfb, 0xff, 0xbe}[:n]
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			if got := standardBase64(enc.EncodeToString(data)); got != base64.StdEncoding.EncodeToString(data) {
				t.Errorf("%q became %q", enc.EncodeToString(data), got)
			}
		}
	}
	if got := standardBase64("aG\r\nk="); got != "aGk=" {
		t.Error(got)
	}
}

func TestRuler(t *testing.T) {
	s := strings.Repeat("aé世😀", 50)
	var r ruler
	for i := 0; i < len(s); i += 7 {
		r.add(s[i:min(i+7, len(s))])
	}
	n := 0
	for i := range s {
		if r.chars(i) != n || r.byteOf(n) != i {
			t.Fatalf("byte %d: character %d, byte %d", i, r.chars(i), r.byteOf(n))
		}
		n++
	}
	if r.chars(len(s)) != utf8.RuneCountInString(s) || r.byteOf(n) != len(s) || r.byteOf(n+5) != len(s) || r.chars(-1) != 0 {
		t.Error("ends")
	}
}

func TestCount(t *testing.T) {
	for _, body := range []string{
		`{"contents":[{"parts":[{"text":"Hi"}]}]}`,
		`{"generate_content_request":{"model":"models/x","contents":[{"parts":[{"text":"Hi"}]}],"system_instruction":{"parts":[]}}}`,
	} {
		req, err := DecodeCountRequest(protocol.Incoming{Body: []byte(body), Path: "/v1/models/m:countTokens"})
		if err != nil || req.Model != "m" {
			t.Fatalf("%s: %v", body, err)
		}
		out, err := EncodeCountRequest(req, protocol.Target{Model: "up"}, &llm.Report{})
		want := `{"generateContentRequest":{"model":"models/up","contents":[{"role":"user","parts":[{"text":"Hi"}]}]}}`
		if err != nil || string(out.Body) != want || out.Path != "/v1beta/models/up:countTokens" {
			t.Errorf("%s %s %v", out.Path, out.Body, err)
		}
	}
	if n, err := DecodeCountResponse(EncodeCountResponse(12)); n != 12 || err != nil {
		t.Error(n, err)
	}
	for _, bad := range []string{"", "{}", `{"error":{"code":429}}`} {
		if n, err := DecodeCountResponse([]byte(bad)); err == nil {
			t.Errorf("%q counts %d", bad, n)
		}
	}
}

func TestEmbedding(t *testing.T) {
	e, err := DecodeEmbedding(BatchEmbed, []byte(`{"requests":[{"model":"models/x","content":{"parts":[{"text":"a"},{"text":"b"}]},"task_type":"CLUSTERING","outputDimensionality":3},{"content":{"parts":{"text":"c"}},"taskType":"CLUSTERING","outputDimensionality":3}]}`))
	if err != nil {
		t.Fatal(err)
	}
	out := EncodeEmbedding(e, protocol.Target{Model: "up"})
	want := `{"requests":[{"model":"models/up","content":{"parts":[{"text":"ab"}]},"taskType":"CLUSTERING","outputDimensionality":3},{"model":"models/up","content":{"parts":[{"text":"c"}]},"taskType":"CLUSTERING","outputDimensionality":3}]}`
	if string(out.Body) != want || out.Path != "/v1beta/models/up:batchEmbedContents" {
		t.Errorf("%s %s", out.Path, out.Body)
	}
	one, err := DecodeEmbedding(Embed, []byte(`{"content":{"parts":[{"text":"a"}]},"title":"t"}`))
	if err != nil || one.Batch || one.Inputs[0] != "a" || one.Title != "t" {
		t.Errorf("%+v %v", one, err)
	}
	v, err := DecodeVectors([]byte(`{"embeddings":[{"values":[0.10,1e-3]},{"values":[2]}],"usageMetadata":{"promptTokenCount":4}}`))
	if err != nil || len(v.Values) != 2 || v.Values[0] != "[0.10,1e-3]" || v.Usage.Input != 4 {
		t.Fatalf("%+v %v", v, err)
	}
	if got := string(EncodeVectors(v, true)); got != `{"embeddings":[{"values":[0.10,1e-3]},{"values":[2]}],"usageMetadata":{"promptTokenCount":4}}` {
		t.Error(got)
	}
	if got := string(EncodeVectors(&Vectors{Values: v.Values[:1]}, false)); got != `{"embedding":{"values":[0.10,1e-3]}}` {
		t.Error(got)
	}
	for _, bad := range []string{"", "{}", `{"error":{"code":400,"message":"m"}}`, `{"embeddings":[{}]}`} {
		if _, err := DecodeVectors([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := DecodeEmbedding(Embed, []byte(`{"content":{"parts":[{"inlineData":{}}]}}`)); err == nil {
		t.Error("an image was taken for text")
	}
}

// Items without their list, the other alphabet of base64, and old roles.
func TestLooseForms(t *testing.T) {
	const body = `{"contents":{"parts":{"inline_data":{"mime_type":"image/png","data":"-_8"}}},"tools":{"function_declarations":{"name":"f"}},"system_instruction":{"parts":{"text":"s"}}}`
	req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	if len(req.Turns) != 2 || req.Turns[0].Role != llm.System || req.Turns[1].Blocks[0].(*llm.Media).Data != "+/8=" || req.Tools[0].Name != "f" {
		t.Errorf("%s", protocoltest.DumpRequest(req))
	}
	const old = `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"function","parts":[{"functionResponse":{"name":"f","response":{}}}]},` +
		`{"role":"model","parts":[{"functionResponse":{"name":"g","response":{"result":null}}}]}]}`
	req, err = Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(old)})
	if err != nil {
		t.Fatal(err)
	}
	call := req.Turns[0].Blocks[0].(*llm.ToolCall)
	if res := req.Turns[1].Blocks[0].(*llm.ToolResult); req.Turns[1].Role != llm.ToolRole || res.CallID != call.CallID || res.Blocks[0].(*llm.Text).Text != "{}" {
		t.Errorf("%s", protocoltest.DumpRequest(req))
	}
	if res := req.Turns[2].Blocks[0].(*llm.ToolResult); res.CallID == "" || res.CallID == call.CallID || res.Blocks[0].(*llm.Text).Text != "null" {
		t.Errorf("%s", protocoltest.DumpRequest(req))
	}
}

// GEM-14: every finish reason leads to a kind, and home again.
func TestFinishReasons(t *testing.T) {
	for reason, kind := range finishKinds {
		c := choice{finish: reason}
		if stop := c.stop(); stop.Kind != kind || finishReason(stop) != reason {
			t.Errorf("%s: %+v, back as %s", reason, stop, finishReason(stop))
		}
		c.calls = 1
		if stop := c.stop(); (stop.Kind == llm.ToolUse) != (reason == "STOP") {
			t.Errorf("%s with a call: %s", reason, stop.Kind)
		}
	}
	if stop := (&choice{finish: "FUTURE"}).stop(); stop.Kind != llm.Other || stop.Raw != "FUTURE" || finishReason(stop) != "OTHER" {
		t.Errorf("%+v", stop)
	}
	for kind, want := range map[llm.StopKind]string{
		llm.EndTurn: "STOP", llm.StopSequence: "STOP", llm.ToolUse: "STOP", llm.MaxTokens: "MAX_TOKENS", llm.ContextWindow: "MAX_TOKENS",
		llm.Refused: "SAFETY", llm.ContentFilter: "SAFETY", llm.Malformed: "MALFORMED_FUNCTION_CALL", llm.Pause: "OTHER", llm.Other: "OTHER",
	} {
		if got := finishReason(llm.Stop{Kind: kind, Raw: "whatever"}); got != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

// What other protocols answer, in a whole and in a stream: the same to a client.
func TestForeignAnswer(t *testing.T) {
	resp := &llm.Response{
		ID: "chatcmpl-1", Model: "gpt-x", Usage: &llm.Usage{Input: 25, CacheRead: 75, CacheWrite: 10, Output: 17, Reasoning: 40},
		Choices: []llm.Choice{{Stop: llm.Stop{Kind: llm.ToolUse, Raw: "tool_calls"}, Blocks: []llm.Block{
			&llm.Thought{Parts: []llm.ThoughtPart{{Text: "hm"}}},
			&llm.Text{Text: "In 北京: ", Citations: []llm.Citation{{Start: 3, End: 5, URL: "u", Title: "t"}}},
			&llm.Refusal{Text: "no"},
			&llm.ServerCall{Protocol: "anthropic", Type: "x", Raw: `{}`, Digest: "d"},
			&llm.ToolCall{CallID: "call_1", Kind: llm.FunctionTool, Name: "f", Args: `{"a": 1.10}`},
			&llm.ToolCall{CallID: "call_2", Kind: llm.FunctionTool, Name: "f", Args: ``},
		}}},
	}
	report := &llm.Report{}
	got := string(Codec{}.EncodeResponse(resp, nil, report))
	want := `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"In 北京: "},{"text":"no"},{"functionCall":{"id":"call_1","name":"f","args":{"a":1.10}}},{"functionCall":{"id":"call_2","name":"f","args":{}}}],"role":"model"},"finishReason":"STOP","index":0,` +
		`"groundingMetadata":{"groundingChunks":[{"web":{"uri":"u","title":"t"}}],"groundingSupports":[{"segment":{"partIndex":1,"startIndex":3,"endIndex":9},"groundingChunkIndices":[0]}]}}],` +
		`"usageMetadata":{"promptTokenCount":110,"candidatesTokenCount":17,"totalTokenCount":167,"cachedContentTokenCount":75,"thoughtsTokenCount":40},"modelVersion":"gpt-x","responseId":"chatcmpl-1"}`
	if got != want || losses(report) != "dropped block.dropped choices[0].blocks[3]\n" {
		t.Errorf("\n got %s\nwant %s\n%s", got, want, losses(report))
	}
	var enc StreamEncoder
	var stream []byte
	for _, e := range llm.Explode(resp) {
		stream = enc.Encode(e, stream)
	}
	stream = enc.Encode(llm.Delta{Text: "late"}, stream) // nothing follows the end
	if strings.Contains(string(stream), "late") || strings.Count(string(stream), "finishReason") != 1 || strings.Count(string(stream), "usageMetadata") != 1 {
		t.Errorf("%s", stream)
	}
	streamed, bad := protocoltest.Collect(readStream(t, stream))
	whole, err := Codec{}.DecodeResponse([]byte(got))
	if err != nil || bad != nil {
		t.Fatalf("%v %v\n%s", err, bad, stream)
	}
	if a, b := visible(streamed), visible(whole); a != b || *streamed.Usage != *whole.Usage {
		t.Errorf("\n%s\n%s", a, b)
	}
}

// Google's SDKs send a streamed answer back as one content for each event: it is
// one turn, with the blocks of the answer.
func TestHistoryOfStreams(t *testing.T) {
	events := []llm.Event{
		llm.Start{ID: "r"}, llm.BlockStart{Block: &llm.Thought{}}, llm.Delta{Text: "thinking "}, llm.Delta{Text: "hard"},
		llm.SealDelta{Seal: llm.Seal{Form: llm.Signature, Data: "s", Origin: "anthropic"}}, llm.BlockEnd{},
		llm.BlockStart{Index: 1, Block: &llm.Text{}}, llm.Delta{Index: 1, Text: "Hel"}, llm.Delta{Index: 1, Text: "lo"}, llm.BlockEnd{Index: 1},
		llm.BlockStart{Index: 2, Block: &llm.ToolCall{CallID: "a", Name: "f", Kind: llm.FunctionTool}}, llm.BlockEnd{Index: 2},
		llm.BlockStart{Index: 3, Block: &llm.ToolCall{CallID: "b", Name: "f", Kind: llm.FunctionTool}}, llm.BlockEnd{Index: 3},
		llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.ToolUse}}, llm.End{},
	}
	enc := StreamEncoder{form: asLines}
	var out []byte
	for _, e := range events {
		out = enc.Encode(e, out)
	}
	contents := []string{`{"parts":[{"text":"Hi"}]}`}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var w Response
		if err := w.UnmarshalJSON([]byte(line)); err != nil {
			t.Fatal(err)
		}
		contents = append(contents, string(w.Candidates.Value()[0].Content))
	}
	contents = append(contents, `{"parts":[{"functionResponse":{"id":"b","name":"f","response":{}}},{"functionResponse":{"id":"a","name":"f","response":{}}}]}`)
	req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(`{"contents":[` + strings.Join(contents, ",") + `]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if len(req.Turns) != 3 || len(req.Turns[1].Blocks) != 4 {
		t.Fatalf("%s", protocoltest.DumpRequest(req))
	}
	b := req.Turns[1].Blocks
	thought, text := b[0].(*llm.Thought), b[1].(*llm.Text)
	if thought.Text("") != "thinking hard" || thought.Seals[0].Data != "s" || text.Text != "Hello" || b[3].(*llm.ToolCall).CallID != "b" {
		t.Errorf("%s", protocoltest.DumpRequest(req))
	}
}

// JSN-15: a body is read and written in a time that its size explains.
func TestLongBodies(t *testing.T) {
	const n = 3000
	for name, body := range map[string]string{
		"contents": `{"contents":[{"parts":[{"text":"x"}]}` + strings.Repeat(`,{"role":"model","parts":[{"text":"x","thought":true}]}`, n) + strings.Repeat(`,{"role":"model","parts":[{"text":"x"}]}`, n) + `]}`,
		"calls": `{"contents":[{"parts":[{"text":"x"}]},{"role":"model","parts":[{"text":""}` + strings.Repeat(`,{"functionCall":{"name":"f"}}`, n) + `]},{"parts":[` +
			strings.TrimPrefix(strings.Repeat(`,{"functionResponse":{"name":"f","response":{}}}`, n), ",") + `]}]}`,
	} {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(req.Turns) > 3 {
			t.Errorf("%s: %d turns", name, len(req.Turns))
		}
		out, report := encode(t, req, "gemini-3")
		if len(out.Body) == 0 || report.Err() != nil {
			t.Errorf("%s: %v", name, report.Err())
		}
	}
	deep := `{"contents":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`
	if _, err := (Codec{}).DecodeRequest(protocol.Incoming{Body: []byte(deep)}); err == nil || err.Kind != llm.InvalidRequest {
		t.Errorf("%v", err)
	}
}

// A call that cannot be read is a failure and does not vanish.
func TestUnreadableCall(t *testing.T) {
	events := readStream(t, []byte(`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":1,"a":2}}}]},"finishReason":"STOP"}]}`+"\n\n"))
	if f, ok := events[len(events)-1].(llm.Failure); !ok || f.Err.Code != "upstream_invalid_response" {
		t.Errorf("%+v", events)
	}
}
