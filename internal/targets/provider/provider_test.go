package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
)

func TestURL(t *testing.T) {
	const chat, messages, gem = "/v1/chat/completions", "/v1/messages", "/v1beta/models/m:generateContent"
	for _, c := range []struct {
		protocol         protocol.Name
		base, path, want string
	}{
		// Exactly one /v1, and the query is kept (LIF-13, K42).
		{protocol.OpenAIChat, "https://h", chat, "https://h/v1/chat/completions"},
		{protocol.OpenAIChat, "https://h/", chat, "https://h/v1/chat/completions"},
		{protocol.OpenAIChat, "https://h/v1", chat, "https://h/v1/chat/completions"},
		{protocol.OpenAIChat, "https://h/v1/", chat, "https://h/v1/chat/completions"},
		{protocol.OpenAIChat, "https://h/v1//", chat, "https://h/v1/chat/completions"},
		{protocol.OpenAIChat, "https://h/x/v1?api-version=1", chat, "https://h/x/v1/chat/completions?api-version=1"},
		{protocol.OpenAIChat, "https://api.groq.com/openai/v1", chat, "https://api.groq.com/openai/v1/chat/completions"},
		{protocol.OpenAIChat, "https://h?api-version=1", chat, "https://h/v1/chat/completions?api-version=1"},
		{protocol.OpenAIChat, "https://r.openai.azure.com/openai/deployments/d?api-version=X", chat,
			"https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=X"},
		{protocol.OpenAIChat, "https://h/v4", chat, "https://h/v4/chat/completions"},
		{protocol.OpenAIChat, "http://[::1]:8000/v1", chat, "http://[::1]:8000/v1/chat/completions"},
		{protocol.OpenAIResponses, "https://h/v1", "/v1/responses", "https://h/v1/responses"},
		{protocol.OpenAIResponses, "https://h", "/v1/responses", "https://h/v1/responses"},
		// Forwarded paths.
		{protocol.OpenAIChat, "https://h/v1", "/v1/audio/speech", "https://h/v1/audio/speech"},
		{protocol.OpenAIChat, "http://h:8000/v1", "/tokenize", "http://h:8000/tokenize"},
		{protocol.OpenAIChat, "http://h:8000", "/tokenize", "http://h:8000/tokenize"},
		{protocol.OpenAIChat, "http://h:8000", "/v1", "http://h:8000/v1"},
		// A bare origin for the other two protocols.
		{protocol.Anthropic, "https://api.anthropic.com", messages, "https://api.anthropic.com/v1/messages"},
		{protocol.Anthropic, "https://api.anthropic.com/", messages, "https://api.anthropic.com/v1/messages"},
		{protocol.Anthropic, "https://api.anthropic.com/v1", messages, "https://api.anthropic.com/v1/messages"},
		{protocol.Anthropic, "https://h/anthropic", messages, "https://h/anthropic/v1/messages"},
		{protocol.Gemini, "https://h", gem, "https://h" + gem},
		{protocol.Gemini, "https://h/proxy/", gem + "?alt=sse", "https://h/proxy" + gem + "?alt=sse"},
		{protocol.Gemini, "https://h?a=1", gem + "?alt=sse", "https://h" + gem + "?a=1&alt=sse"},
		// Escapes stay as they are on the wire.
		{protocol.Gemini, "https://h", "/v1beta/models/a%2Fb:generateContent", "https://h/v1beta/models/a%2Fb:generateContent"},
		{protocol.OpenAIChat, "https://h/a%2Fb/v1", chat, "https://h/a%2Fb/v1/chat/completions"},
	} {
		base, err := ParseBaseURL(c.protocol, c.base)
		if err != nil {
			t.Errorf("%s: %v", c.base, err)
			continue
		}
		p := &Provider{Protocol: c.protocol, BaseURL: base}
		if got := p.URL(c.path).String(); got != c.want {
			t.Errorf("%s + %s\n got %s\nwant %s", c.base, c.path, got, c.want)
		}
		if base.String() != c.base {
			t.Errorf("%s was changed to %s", c.base, base)
		}
	}
}

func TestParseBaseURLRefuses(t *testing.T) {
	for _, c := range []struct {
		protocol   protocol.Name
		base, want string
	}{
		{protocol.OpenAIChat, "api.x.ai", `has no scheme; write "https://api.x.ai"`},
		{protocol.OpenAIChat, "127.0.0.1:8000/v1", `has no scheme; write "http://127.0.0.1:8000/v1"`},
		{protocol.OpenAIChat, "localhost:11434/v1", `has no scheme; write "http://localhost:11434/v1"`},
		{protocol.OpenAIChat, "[::1]:8000", `has no scheme; write "http://[::1]:8000"`},
		{protocol.OpenAIChat, "localhost:8000/v1", "has no scheme"},
		{protocol.OpenAIChat, "ws://h", "scheme"},
		{protocol.OpenAIChat, "https://", "is not a URL"},
		{protocol.OpenAIChat, "https://:80/v1", "is not a URL"},
		{protocol.OpenAIChat, "https://h:CANARY/v1", "is not a URL"},
		{protocol.OpenAIChat, "https://me:CANARY@h/v1", "password"},
		{protocol.OpenAIChat, "https://h/v1#CANARY", "fragment"},
		{protocol.OpenAIChat, "https://h/v1?a=%zz", "query"},
		{protocol.OpenAIChat, "https://h/v1/chat/completions?api-version=1", `remove "/chat/completions"`},
		{protocol.Anthropic, "https://h/v1/messages/", `remove "/messages"`},
		{protocol.Gemini, "https://h/v1beta", "api_version"},
		{protocol.Gemini, "https://h/v1/models/m:generateContent", "api_version"},
	} {
		_, err := ParseBaseURL(c.protocol, c.base)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: got %v, want %s", c.base, err, c.want)
		}
	}
}

func TestAuthorize(t *testing.T) {
	for _, c := range []struct {
		auth        Auth
		name, value string
	}{
		{Bearer, "Authorization", "Bearer k"},
		{APIKey, "Api-Key", "k"},
		{XAPIKey, "X-Api-Key", "k"},
		{XGoogKey, "X-Goog-Api-Key", "k"},
		{NoneAuth, "", ""},
	} {
		h := http.Header{}
		(&Provider{Auth: c.auth, Key: "k"}).Authorize(h)
		if h.Get(c.name) != c.value || c.name == "" && len(h) > 0 || http.CanonicalHeaderKey(c.name) != c.name {
			t.Errorf("%s: %v", c.auth, h)
		}
		h = http.Header{}
		if (&Provider{Auth: c.auth}).Authorize(h); len(h) > 0 {
			t.Errorf("%s without a key: %v", c.auth, h)
		}
	}
}

func TestCatalog(t *testing.T) {
	names, envs := map[string]bool{}, map[string]bool{}
	for _, row := range Catalog() {
		if names[row.Name] || row.EnvKey != "" && row.Template == "" && envs[row.EnvKey] {
			t.Errorf("%s: name or key variable stands twice", row.Name)
		}
		names[row.Name], envs[row.EnvKey] = true, true
		if _, err := ParseBaseURL(row.Protocol, row.BaseURL); err != nil && row.BaseURL != "" {
			t.Errorf("%s: %v", row.Name, err)
		}
		if (row.BaseURL == "") != (row.Template != "" || strings.HasPrefix(row.Name, "azure")) {
			t.Errorf("%s: only azure has no address of its own", row.Name)
		}
		if row.Title == "" || row.Protocol == "" || row.Auth == "" || row.Extensions == "" {
			t.Errorf("%s: a field is empty: %+v", row.Name, row)
		}
		if row.Local != (row.UpstreamStream == Always) || row.Local != (row.EnvKey == "") && row.Template == "" {
			t.Errorf("%s: engines stream always and have no key variable, vendors mirror and have one", row.Name)
		}
		if docs, err := url.Parse(row.Docs); err != nil || docs.Scheme != "https" {
			t.Errorf("%s: docs %q", row.Name, row.Docs)
		}
		if found, ok := Lookup(row.Name); !ok || found.Name != row.Name {
			t.Errorf("%s is not found", row.Name)
		}
	}
	if _, ok := Lookup("nobody"); ok {
		t.Error("nobody is found")
	}
}

func TestCustom(t *testing.T) {
	for name, want := range map[protocol.Name]Auth{
		protocol.OpenAIChat: Bearer, protocol.OpenAIResponses: Bearer, protocol.Anthropic: XAPIKey, protocol.Gemini: XGoogKey,
	} {
		if got := Custom(name); got.Auth != want || got.UpstreamStream != Mirror || got.Extensions != RefuseExtensions {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestPrintHidesSecrets(t *testing.T) {
	base, _ := url.Parse("https://h/v1?sig=CANARY")
	p := &Provider{Name: "x", Protocol: protocol.OpenAIChat, BaseURL: base, Key: "CANARY", Headers: http.Header{"X": {"CANARY"}}}
	data, err := json.Marshal([]any{p, *p})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%v %+v %#v %d %s %s", p, *p, p, *p, data, p.LogValue())
	if strings.Contains(text, "CANARY") || !strings.Contains(text, "x (openai-chat at https://h/v1)") {
		t.Error(text)
	}
}

func BenchmarkURL(b *testing.B) {
	base, _ := url.Parse("https://api.groq.com/openai/v1")
	p := &Provider{Protocol: protocol.OpenAIChat, BaseURL: base}
	b.ReportAllocs()
	for b.Loop() {
		if p.URL("/v1/chat/completions").Path == "" {
			b.Fatal("no path")
		}
	}
}

func BenchmarkAuthorize(b *testing.B) {
	p := &Provider{Auth: Bearer, Key: "k-0123456789"}
	h := http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		p.Authorize(h)
	}
}

// TestPresetURL checks the addresses of regions and projects.
func TestPresetURL(t *testing.T) {
	for _, tt := range []struct{ preset, project, region, want string }{
		{"vertex", "p", "us-east5", "https://us-east5-aiplatform.googleapis.com"},
		{"vertex", "p", "global", "https://aiplatform.googleapis.com"},
		{"vertex-anthropic", "p", "eu", "https://aiplatform.eu.rep.googleapis.com"},
		{"vertex-openai", "p-1", "us-central1", "https://us-central1-aiplatform.googleapis.com/v1/projects/p-1/locations/us-central1/endpoints/openapi"},
		{"vertex-openai", "p-1", "global", "https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/endpoints/openapi"},
		{"bedrock", "", "eu-central-1", "https://bedrock-runtime.eu-central-1.amazonaws.com"},
		{"bedrock-openai", "", "us-west-2", "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1"},
		{"bedrock-mantle", "", "us-west-2", "https://bedrock-mantle.us-west-2.api.aws/openai/v1"},
		{"bedrock-messages", "", "us-west-2", "https://bedrock-mantle.us-west-2.api.aws/anthropic"},
		{"openai", "", "", "https://api.openai.com/v1"},
	} {
		preset, _ := Lookup(tt.preset)
		if got := preset.URL(tt.project, tt.region); got != tt.want {
			t.Errorf("%s in %s: %s, want %s", tt.preset, tt.region, got, tt.want)
		}
	}
}

// TestModelURL checks that a model in a base URL is one segment.
func TestModelURL(t *testing.T) {
	for _, tt := range []struct{ base, model, want string }{
		{"https://r.openai.azure.com/openai/deployments/{model}?api-version=1", "gpt-x", "https://r.openai.azure.com/openai/deployments/gpt-x/chat/completions?api-version=1"},
		{"https://r.openai.azure.com/openai/deployments/{model}?api-version=1", "a/b?c%2f", "https://r.openai.azure.com/openai/deployments/a%2Fb%3Fc%252f/chat/completions?api-version=1"},
		{"https://api.example.com/v1", "gpt-x", "https://api.example.com/v1/chat/completions"},
	} {
		base, err := ParseBaseURL(protocol.OpenAIChat, tt.base)
		if err != nil {
			t.Fatal(err)
		}
		p := &Provider{Protocol: protocol.OpenAIChat, BaseURL: base}
		if got := p.ModelURL("/v1/chat/completions", tt.model).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.base, got, tt.want)
		}
	}
}
