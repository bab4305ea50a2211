package all

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
)

// ruleOf returns the cache rule of a route, or nil.
func ruleOf(name string) *codec.CacheRule {
	for _, d := range Dialects() {
		if i := slices.IndexFunc(d.Routes, func(r codec.Route) bool { return r.Name == name }); i >= 0 {
			return d.Routes[i].Cacheable
		}
	}
	return nil
}

func TestCacheable(t *testing.T) {
	const chat, resp, msg, gem = "chat_completions", "responses", "messages", "gemini_generateContent"
	for _, c := range []struct {
		endpoint, body string
		want           bool
	}{
		{chat, `{"model":"m","messages":[],"temperature":0}`, true},
		{chat, `{"model":"m","messages":[],"temperature":0.0,"seed":1,"n":1,"stream":true}`, true},
		{chat, `{"model":"m","messages":[],"temperature":-0e5,"n":null}`, true},
		{chat, `{"model":"m","messages":[]}`, false},
		{chat, `{"model":"m","messages":[],"temperature":null}`, false},
		{chat, `{"model":"m","messages":[],"temperature":"0"}`, false},
		{chat, `{"model":"m","messages":[],"temperature":0.001}`, false},
		{chat, `{"model":"m","messages":[],"seed":1}`, false},
		{chat, `{"model":"m","messages":[],"temperature":0,"n":2}`, false},
		{chat, `{"model":"m","messages":[],"temperature":0,"store":true}`, false},
		{chat, `{"model":"m","messages":[],"temperature":0,"store":false}`, true},
		{chat, `{"model":"m","messages":[],"temperature":0,"Temperature":1}`, false},
		{chat, `{"model":"m","messages":[],"temperature":0,"web_search_options":{}}`, false},
		{chat, `{"model":"m","messages":[],"temperature":0,"tools":[{"type":"function","function":{}}]}`, true},
		{chat, `{"model":"m","messages":[],"temperature":0,"tools":[{"type":"web_search"}]}`, false},
		{chat, `{"model":"m","messages":[],"temperature":0,"tools":"all"}`, false},
		{chat, `{"model":"m","messages":[],"temperature":0,"modalities":["audio"]}`, false},
		{resp, `{"model":"m","input":"x","temperature":0,"store":false}`, true},
		{resp, `{"model":"m","input":"x","temperature":0}`, false},
		{resp, `{"model":"m","input":"x","temperature":0,"store":true}`, false},
		{resp, `{"model":"m","input":"x","temperature":0,"store":false,"background":true}`, false},
		{resp, `{"model":"m","input":"x","temperature":0,"store":false,"previous_response_id":"r"}`, false},
		{resp, `{"model":"m","input":"x","temperature":0,"store":false,"previous_response_id":null}`, true},
		{resp, `{"model":"m","input":"x","temperature":0,"store":false,"conversation":"c"}`, false},
		{resp, `{"model":"m","input":"x","temperature":0,"store":false,"tools":[{"type":"code_interpreter"}]}`, false},
		{resp, `{"model":"m","input":"x","temperature":0,"store":false,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"}]}`, true},
		{msg, `{"model":"m","messages":[],"max_tokens":1,"temperature":0}`, true},
		{msg, `{"model":"m","messages":[],"max_tokens":1,"temperature":0,"tools":[{"name":"f","input_schema":{}}]}`, true},
		{msg, `{"model":"m","messages":[],"max_tokens":1,"temperature":0,"tools":[{"type":"web_search_20250305","name":"w"}]}`, false},
		{msg, `{"model":"m","messages":[],"max_tokens":1,"temperature":0,"mcp_servers":[]}`, false},
		{msg, `{"model":"m","messages":[],"max_tokens":1,"temperature":0,"container":"c"}`, false},
		{gem, `{"contents":[],"generationConfig":{"temperature":0}}`, true},
		{gem, `{"contents":[],"generationConfig":{"temperature":0,"candidateCount":2}}`, false},
		{gem, `{"contents":[],"generationConfig":{"temperature":1,"temperature":0}}`, false},
		{gem, `{"contents":[],"generationConfig":{"topK":1}}`, false},
		{gem, `{"contents":[],"generationConfig":{"temperature":0,"responseModalities":["IMAGE"]}}`, false},
		{gem, `{"contents":[]}`, false},
		{gem, `{"contents":[],"generationConfig":{"temperature":0},"cachedContent":"c"}`, false},
		{gem, `{"contents":[],"generationConfig":{"temperature":0},"tools":[{"functionDeclarations":[]}]}`, true},
		{gem, `{"contents":[],"generationConfig":{"temperature":0},"tools":[{"googleSearch":{}}]}`, false},
		{"completions", `{"model":"m","prompt":"x","temperature":0}`, true},
		{"completions", `{"model":"m","prompt":"x","temperature":0,"best_of":3}`, false},
		{"embeddings", `{"model":"m","input":"x"}`, true},
		{"gemini_streamGenerateContent", `{"contents":[],"generationConfig":{"temperature":0}}`, true},
		{"gemini_embedContent", `{}`, true},
		{"gemini_batchEmbedContents", `{}`, true},
		{"gemini_countTokens", `{}`, true},
		{"models", `{}`, false},
		{"count_tokens", `{"model":"m","messages":[]}`, true},
		{"rerank", `{"model":"m"}`, true},
		{"batches", `{"temperature":0}`, false},
	} {
		if got := ruleOf(c.endpoint).Allows(members(t, c.body)); got != c.want {
			t.Errorf("%s %s: got %v, want %v", c.endpoint, c.body, got, c.want)
		}
	}
}

func members(t testing.TB, body string) func(func(string, []byte) bool) {
	var all map[string]jsontext.Value
	if err := json.Unmarshal([]byte(body), &all, jsontext.AllowDuplicateNames(true)); err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, []byte) bool) {
		for name, value := range all {
			if !yield(name, value) {
				return
			}
		}
	}
}
