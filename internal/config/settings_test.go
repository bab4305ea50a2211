package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestSettingsSayWhereTheyComeFrom reads a file with all kinds of values.
func TestSettingsSayWhereTheyComeFrom(t *testing.T) {
	c, err := Parse("isogloss.yaml", []byte(`keys: ["${S}-client-key", {key: "${S}", criticality: critical}, CANARY-9876543210]
store: sqlite
retries: {attempts: 3}
traces: {endpoint: "https://collector/CANARY"}
providers:
  a: {preset: openai, api_key: "${S}", headers: {X-Token: CANARY}}
  b:
    preset: azure
    api_key: CANARY-key
    base_url: "https://h/v1?sig=CANARY"
models:
  m:
    targets: [a/x, {target: b/x, weight: 2}]
    defaults: {body: {service_tier: flex}}
log:
`), lookupIn("S=CANARY-0123456789"), Override{Source: "--listen", Key: "listen", Value: "127.0.0.1:9999"})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, s := range c.Settings {
		where := "default"
		switch {
		case s.Source != "":
			where = s.Source
		case s.Line > 0:
			where = fmt.Sprint("line ", s.Line)
		}
		fmt.Fprintf(&got, "%s: %s (%s)\n", s.Key, s.Value, where)
	}
	if strings.Contains(got.String(), canary) {
		t.Errorf("a secret is shown:\n%s", got.String())
	}
	for _, want := range []string{
		"listen: 127.0.0.1:9999 (--listen)", "keys[0]: *** (line 1)", "keys[1].key: ${S} (line 1)", "keys[1].criticality: critical (line 1)", "store: sqlite (line 2)",
		"retries.attempts: 3 (line 3)", "traces.endpoint: https://collector/*** (line 4)", "providers.a.headers: {X-Token: ***} (line 6)", "providers.a.api_key: ${S} (line 6)",
		"providers.b.api_key: *** (line 9)", "providers.b.base_url: https://h/v1?*** (line 10)", "models.m.targets[0]: a/x (line 13)", "models.m.targets[1].weight: 2 (line 13)",
		"models.m.defaults.body: {service_tier: flex} (line 14)", "log.level: info (default)", "timeouts.connect: 5s (default)", "admin.listen: 127.0.0.1:8081 (default)",
	} {
		if !strings.Contains("\n"+got.String(), "\n"+want+"\n") {
			t.Errorf("%q is missing in:\n%s", want, got.String())
		}
	}
	if c.SettingsCut {
		t.Error("the settings of a small file are cut")
	}
}

// TestSettingsAreBounded reads more settings than are kept.
func TestSettingsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("providers:\n  a: {preset: vllm, base_url: \"http://127.0.0.1:1/v1\"}\nmodels:\n")
	for i := range maxSettings {
		fmt.Fprintf(&b, "  m%d: {targets: [a/%s]}\n", i, strings.Repeat("x", maxValue))
	}
	c, err := Parse("isogloss.yaml", []byte(b.String()), lookupIn(""))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Settings) != maxSettings || !c.SettingsCut {
		t.Errorf("%d settings, cut: %t", len(c.Settings), c.SettingsCut)
	}
	for _, s := range c.Settings {
		if len(s.Value) > maxValue+len("…") {
			t.Fatalf("%s has %d bytes", s.Key, len(s.Value))
		}
	}
}
