package provider

import (
	"net/http"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestSeedOpenAI checks OpenAI's preset against docs/evidence/seeds.md: OpenAI's address,
// a bearer key, and no version header.
func TestSeedOpenAI(t *testing.T) {
	row, ok := Lookup("openai")
	if !ok {
		t.Fatal("there is no such row")
	}
	base, err := ParseBaseURL(row.Protocol, row.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{Protocol: row.Protocol, APIVersion: row.APIVersion, BaseURL: base, Auth: row.Auth, Key: "k"}
	for path, want := range map[string]string{
		"/v1/chat/completions": "https://api.openai.com/v1/chat/completions",
		"/v1/models":           "https://api.openai.com/v1/models",
		"/v1/models/m":         "https://api.openai.com/v1/models/m",
		"/v1/embeddings":       "https://api.openai.com/v1/embeddings",
		"/v1/rerank":           "https://api.openai.com/v1/rerank",
	} {
		if got := p.URL(path).String(); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
	h := http.Header{}
	p.Authorize(h)
	if p.Protocol != protocol.OpenAIChat || len(h) != 1 || h.Get("Authorization") != "Bearer k" || len(p.Headers) > 0 || p.APIVersion != "" {
		t.Errorf("%+v is sent %v", p, h)
	}
}
