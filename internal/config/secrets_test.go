package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const canary = "CANARY"

// TestSecretsAreNotPrinted sets every secret to a canary, prints the configuration in
// every way, and checks that the canary does not appear.
func TestSecretsAreNotPrinted(t *testing.T) {
	c, err := Parse("isogloss.yaml", []byte(`
keys: ["${S}-client-key"]
providers:
  a: {preset: openai, api_key: "${S}-key", headers: {X-Token: "${S}-header"}}
  b: {preset: azure, api_key: "${S}-key", base_url: "https://h/v1?sig=${S}"}
models:
  m: {targets: [a/x, b/x]}
`), lookupIn("S="+canary))
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	for _, log := range []*slog.Logger{slog.New(slog.NewJSONHandler(&logged, nil)), slog.New(slog.NewTextHandler(&logged, nil))} {
		log.Info("m", "config", c, "value", *c, "provider", c.Providers[0], "model", c.Models[0], "target", c.Models[0].Targets[0])
	}
	printed := map[string]string{"slog": logged.String()}
	values := map[string]any{
		"config": c, "config value": *c, "model": c.Models[0], "target": c.Models[0].Targets[0],
		"providers": c.Providers, "provider value": *c.Providers[0],
	}
	for name, v := range values {
		// %p is excluded: fmt calls no method for it, and vet rejects such a line.
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
			printed[name+" "+verb] = fmt.Sprintf(verb, v)
		}
		for format, marshal := range map[string]func(any) ([]byte, error){"json": json.Marshal, "yaml": yaml.Marshal} {
			data, err := marshal(v)
			if err != nil {
				t.Errorf("%s as %s: %v", name, format, err)
			}
			printed[name+" "+format] = string(data)
		}
	}
	hex := fmt.Sprintf("%x", canary)
	for how, text := range printed {
		if strings.Contains(text, canary) || strings.Contains(strings.ToLower(text), hex) {
			t.Errorf("%s shows a secret:\n%s", how, text)
		}
	}
}

// TestNoCaseQuotesASecret checks the error messages of all cases: none contains CANARY,
// which the cases use as their secrets.
func TestNoCaseQuotesASecret(t *testing.T) {
	forEachConfig(t, func(name string, data []byte, env string) {
		if _, err := Parse("isogloss.yaml", data, lookupIn(env)); err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	})
}

// TestSecretsOfExamples checks that a pepper or a password that an example has is refused, because everybody knows it.
func TestSecretsOfExamples(t *testing.T) {
	const random = "3f1c9a7e5b2d8c4f6a0e9d7b1c5f3a8e"
	for _, c := range []struct{ url, pepper, want string }{
		{"sqlite", random, ""},
		{"sqlite", "change-this-pepper-before-use-0123456789", "has a pepper, number 1, of an example"},
		{"sqlite", "0123456789-CHANGE_ME-0123456789abcdef", "has a pepper, number 1, of an example"},
		{"postgres://isogloss:" + random + "@db.example:5432/isogloss", random, ""},
		{"postgres://isogloss:changeme@db.example:5432/isogloss", random, "has a password of an example"},
		{"postgres://isogloss:isogloss@db.example:5432/isogloss", random, "or the name of its user as password"},
		{"postgres://isogloss:isogloss@127.0.0.1:5432/isogloss", random, ""},
	} {
		_, err := Parse("isogloss.yaml", fmt.Appendf(nil, "store: { url: %q, peppers: [%q] }\nproviders:\n  a: { preset: openai, api_key: k }\nmodels:\n  m: { targets: [a/x] }\n", c.url, c.pepper), lookupIn(""))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with the pepper %s: %v, want %q", c.url, c.pepper, err, c.want)
		}
	}
}
