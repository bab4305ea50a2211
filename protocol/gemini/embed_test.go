package gemini

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

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

// verb is the location of a request for a verb.
func verb(name string) codec.Location {
	return codec.Location{Route: &codec.Route{Verb: name}}
}

func TestEmbedding(t *testing.T) {
	e, err := decodeEmbedRequest(verb(BatchEmbed), []byte(`{"requests":[{"model":"models/x","content":{"parts":[{"text":"a"},{"text":"b"}]},"task_type":"CLUSTERING","outputDimensionality":3},{"content":{"parts":{"text":"c"}},"taskType":"CLUSTERING","outputDimensionality":3}]}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := encodeEmbedRequest(e, protocol.Target{Model: "up"}, &llm.Report{})
	want := `{"requests":[{"model":"models/up","content":{"parts":[{"text":"ab"}]},"taskType":"CLUSTERING","outputDimensionality":3},{"model":"models/up","content":{"parts":[{"text":"c"}]},"taskType":"CLUSTERING","outputDimensionality":3}]}`
	if err != nil || string(out.Body) != want || out.Path != "/v1beta/models/up:batchEmbedContents" {
		t.Errorf("%s %s", out.Path, out.Body)
	}
	one, err := decodeEmbedRequest(verb(Embed), []byte(`{"content":{"parts":[{"text":"a"}]},"title":"t"}`))
	if err != nil || one.Batch || one.Inputs[0] != "a" || one.Title != "t" {
		t.Errorf("%+v %v", one, err)
	}
	v, err := decodeEmbeddings([]byte(`{"embeddings":[{"values":[0.10,1e-3]},{"values":[2]}],"usageMetadata":{"promptTokenCount":4}}`))
	if err != nil || len(v.Vectors) != 2 || v.Vectors[0] != "[0.10,1e-3]" || v.Usage.Input != 4 {
		t.Fatalf("%+v %v", v, err)
	}
	if got, err := encodeEmbeddings(v, e); err != nil || string(got) != `{"embeddings":[{"values":[0.10,1e-3]},{"values":[2]}],"usageMetadata":{"promptTokenCount":4}}` {
		t.Errorf("%s %v", got, err)
	}
	if got, err := encodeEmbeddings(&llm.Embeddings{Vectors: v.Vectors[:1]}, one); err != nil || string(got) != `{"embedding":{"values":[0.10,1e-3]}}` {
		t.Errorf("%s %v", got, err)
	}
	for _, bad := range []string{"", "{}", `{"error":{"code":400,"message":"m"}}`, `{"embeddings":[{}]}`} {
		if _, err := decodeEmbeddings([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := decodeEmbedRequest(verb(Embed), []byte(`{"content":{"parts":[{"inlineData":{}}]}}`)); err == nil {
		t.Error("an image was taken for text")
	}
}
