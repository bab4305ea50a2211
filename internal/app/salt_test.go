package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestCacheSalt checks which requests to an engine get a salt: the same for all keys of an
// organisation and after a restart, another for another organisation, and never the
// client's own. Nothing else of the body changes.
func TestCacheSalt(t *testing.T) {
	const (
		chat     = `{"model":"MODEL", "messages":[{"role":"user","content":"hi"}],"temperature":1.0}`
		own      = `{"model":"MODEL", "cache_salt":"of the victim", "messages":[{"role":"user","content":"hi"}]}`
		messages = `{"model":"MODEL","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`
	)
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(vendor())
	configuration := func(data string) string {
		return strings.Replace(everyDialect(up, data, `  engine: { targets: [engine/m] }
  always: { targets: [always/m] }
  dynamo: { targets: [dynamo/m] }
  never: { targets: [never/m] }
`), "providers:\n", fmt.Sprintf(`providers:
  engine: { preset: vllm, base_url: "http://%[1]s/v1", upstream_stream: mirror }
  always: { protocol: openai-chat, base_url: "http://%[1]s/v1", cache_salt: tenant }
  dynamo: { preset: dynamo, base_url: "http://%[1]s/v1", upstream_stream: mirror, cache_salt: tenant }
  never: { preset: vllm, base_url: "http://%[1]s/v1", upstream_stream: mirror, cache_salt: none }
`, up.Addr), 1)
	}
	send := func(g *gateway, key secret.String, path, body, model string) (salt, sent string) {
		t.Helper()
		g.post(t, key, path, strings.Replace(body, "MODEL", model, 1))
		sent = string(up.Last(t).Body)
		var got struct {
			Salt string `json:"cache_salt"`
		}
		if err := json.Unmarshal([]byte(sent), &got); err != nil {
			t.Fatal(err)
		}
		return got.Salt, sent
	}

	keys := keyringOf(t, configuration(data))
	one, colleague := keys.keyOf(t, "o1"), keys.keyOf(t, "o1")
	g := start(t, configuration(data), pace{})
	if salt, _ := send(g, one, "/v1/chat/completions", chat, "engine"); salt != "" {
		t.Errorf("the only organisation has the salt %q", salt)
	}
	alone, _ := send(g, one, "/v1/chat/completions", chat, "always")
	g.wait(t)

	other := keys.keyOf(t, "o2")
	g = start(t, configuration(data), pace{})
	send(g, other, "/v1/chat/completions", chat, "engine") // the gateway may know only the keys of its last run
	salt, sent := send(g, one, "/v1/chat/completions", chat, "engine")
	if len(salt) != 64 || salt != alone {
		t.Errorf("the salt is %q, and was %q before the restart", salt, alone)
	}
	if want := `{"model":"m", "messages":[{"role":"user","content":"hi"}],"temperature":1.0,"cache_salt":"` + salt + `"}`; sent != want {
		t.Errorf("the upstream got %s, want %s", sent, want)
	}
	for _, c := range []struct {
		name             string
		key              secret.String
		path, body, with string
		same             bool
	}{
		{"colleague", colleague, "/v1/chat/completions", chat, "engine", true},
		{"another setting", one, "/v1/chat/completions", chat, "always", true},
		{"translated", one, "/v1/messages", messages, "engine", true},
		{"a salt of its own", one, "/v1/chat/completions", own, "engine", true},
		{"another organisation", other, "/v1/chat/completions", chat, "engine", false},
		{"another organisation, translated", other, "/v1/messages", messages, "always", false},
		{"another organisation with the victim's", other, "/v1/chat/completions", strings.Replace(own, "of the victim", salt, 1), "engine", false},
	} {
		if got, _ := send(g, c.key, c.path, c.body, c.with); len(got) != 64 || (got == salt) != c.same {
			t.Errorf("%s: %q, of the first organisation: %q", c.name, got, salt)
		}
	}
	within := strings.Replace(chat, `"messages"`, `"nvext":{"top_k":1,"cache_salt":"of the victim","priority":1}, "messages"`, 1)
	if got, sent := send(g, one, "/v1/chat/completions", within, "dynamo"); got != salt || strings.Contains(sent, "of the victim") || strings.Count(sent, salt) != 2 {
		t.Errorf("a salt in an extension: %s", sent)
	}
	if got, _ := send(g, one, "/v1/chat/completions", chat, "never"); got != "" {
		t.Errorf("a provider without salts gets %q", got)
	}
	if got, _ := send(g, one, "/v1/chat/completions", chat, "chat/m"); got != "" {
		t.Errorf("a provider that is no engine gets %q", got)
	}
}
