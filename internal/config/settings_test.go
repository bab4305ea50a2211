package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
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
    defaults: {body: {service_tier: flex, token: "${S}"}}
log:
`), lookupIn("S=CANARY-0123456789"), settings.Override{Source: "--listen", Key: "listen", Value: "127.0.0.1:9999"})
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
	if strings.Contains(got.String()+c.String(), canary) {
		t.Errorf("a secret is shown:\n%s\n%s", got.String(), c)
	}
	for _, want := range []string{
		"listen: 127.0.0.1:9999 (--listen)", "keys[0]: *** (line 1)", "keys[1].key: ${S} (line 1)", "keys[1].criticality: critical (line 1)", "store: sqlite (line 2)",
		"retries.attempts: 3 (line 3)", "traces.endpoint: https://collector/*** (line 4)", "providers.a.headers: {X-Token: ***} (line 6)", "providers.a.api_key: ${S} (line 6)",
		"providers.b.api_key: *** (line 9)", "providers.b.base_url: https://h/v1?*** (line 10)", "models.m.targets[0]: a/x (line 13)", "models.m.targets[1].weight: 2 (line 13)",
		"models.m.defaults.body: {service_tier: flex, token: ${S}} (line 14)", "log.level: info (default)", "timeouts.connect: 5s (default)", "admin.listen: 127.0.0.1:8081 (default)",
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
	for i := range settings.MaxSettings {
		fmt.Fprintf(&b, "  m%d: {targets: [a/%s]}\n", i, strings.Repeat("x", 500))
	}
	c, err := Parse("isogloss.yaml", []byte(b.String()), lookupIn(""))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Settings) != settings.MaxSettings || !c.SettingsCut {
		t.Errorf("%d settings, cut: %t", len(c.Settings), c.SettingsCut)
	}
	for _, s := range c.Settings {
		if len(s.Value) > 500+len("…") {
			t.Fatalf("%s has %d bytes", s.Key, len(s.Value))
		}
	}
}

// TestChangesThatAreReported changes settings that nodes compare, or that a reload cannot change.
func TestChangesThatAreReported(t *testing.T) {
	const text = `listen: 127.0.0.1:1
store: {url: "postgres://u:CANARY@db/isogloss", peppers: [CANARY-0123456789-0123456789-0123456789], disk_full: serve}
redis: "redis://:CANARY@redis:6379/0"
identity: {issuers: [{issuer: "https://idp.example.com", audiences: [isogloss], rules: [{role: auditor}]}]}
usage: {sink: {kafka: {brokers: ["kafka-1:9092"]}}}
alerts: {url: "https://hooks.example.com/CANARY", secret: "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}
log: {endpoint: "https://collector/CANARY"}
tags: {keys: [team]}
providers: {a: {preset: openai, api_key: CANARY-1}}
models: {m: {targets: [a/x]}}
`
	parse := func(text string) *Config {
		c, err := Parse("isogloss.yaml", []byte(text), noEnv)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(c.String(), canary) {
			t.Errorf("a secret is shown:\n%s", c)
		}
		return c
	}
	for _, change := range []struct {
		from, to, key string
		seen, restart bool
	}{
		{"role: auditor", "role: owner", "identity.issuers[0].rules[0].role", true, false},
		{"keys: [team]", "keys: [team, feature]", "tags.keys", true, false},
		{"kafka-1", "kafka-2", "usage.sink.kafka.brokers", true, true},
		{"@redis:", "@other:", "redis.url", true, true},
		{":CANARY@redis", ":CANARY-2@redis", "redis.url", false, true},
		{"hooks.", "hook.", "alerts.url", true, true},
		{"collector/", "collector-2/", "log.endpoint", true, true},
		{"disk_full: serve", "disk_full: refuse", "store.disk_full", true, false},
		{"CANARY-1}", "CANARY-2}", "providers.a.api_key", false, false},
	} {
		before, after := parse(text), parse(strings.Replace(text, change.from, change.to, 1))
		if seen := maps.Collect(before.Values())[change.key] != maps.Collect(after.Values())[change.key]; seen != change.seen {
			t.Errorf("%s: nodes see the difference: %t", change.to, seen)
		}
		if keys := after.StartsOtherwise(&before.Listing); slices.Contains(keys, change.key) != change.restart || len(keys) > 1 {
			t.Errorf("%s: a reload reports %v", change.to, keys)
		}
	}
}

// TestEverySetting changes every setting of the reference, one after the other, in files that have them all. Each must
// be printed and compared, and be reported on a reload if the reference says that it takes effect at the next start.
func TestEverySetting(t *testing.T) {
	examples := []example{readExample(t, "every_key"), readExample(t, "usage_nats"), readExample(t, "rest_of_keys")}
	eachSetting("", false, nil, reflect.TypeFor[Config](), func(name string, restarts bool, path []string, f *settings.Field) {
		for _, e := range examples {
			n := find(e.root, path)
			if n == nil {
				continue
			}
			key, after := n.Path(), e.config(t, func(root *settings.Node) { alter(find(root, path), f, f.Type) })
			if restart := after.StartsOtherwise(&e.usual.Listing); slices.Contains(restart, key) != restarts {
				t.Errorf("%s takes effect at the next start: %t; a reload reports %v", key, restarts, restart)
			}
			a := maps.Collect(e.usual.Values())
			if strings.Contains(a[key], "***") && (f.Secret() == "values" || f.Secret() == "" && elem(f.Type) == reflect.TypeFor[secret.String]()) { // that it is set can be seen
				after = e.config(t, func(root *settings.Node) {
					remove(root, find(root, path))
				})
			}
			if b := maps.Collect(after.Values()); a[key] == "" || a[key] == b[key] {
				t.Errorf("%s is printed as %q and then as %q", key, a[key], b[key])
			}
			return
		}
		t.Errorf("no example has %s; add it to testdata/every_key.txtar", name)
	})
}

// eachSetting calls f with every value of the reference and the keys that lead to it. "*" is any name or place.
func eachSetting(name string, restart bool, path []string, of reflect.Type, f func(name string, restart bool, path []string, of *settings.Field)) {
	for _, one := range words.Fields(of) {
		inner, below, restarts := join(name, one.Key), append(slices.Clone(path), one.Key), one.Restart(restart)
		switch child, suffix := structBelow(one.Type); {
		case child == nil:
			f(inner, restarts, below, one)
		case suffix == "":
			eachSetting(inner, restarts, below, child, f)
		default:
			eachSetting(inner+suffix, restarts, append(below, "*"), child, f)
		}
	}
}

// example is the tree of a file and its configuration.
type example struct {
	root  *settings.Node
	env   func(string) (string, bool)
	usual *Config
}

func readExample(t *testing.T, name string) example {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	e := example{env: lookupIn(string(archive.Files[1].Data))}
	e.root = newFile("./"+name, e.env).Parse(archive.Files[0].Data)
	if e.usual, err = Parse("./"+name, archive.Files[0].Data, e.env); err != nil {
		t.Fatal(err)
	}
	return e
}

// config returns the configuration of an example in which a setting is changed. It is listed even if the checks refuse
// the change.
func (e example) config(t *testing.T, change func(root *settings.Node)) *Config {
	t.Helper()
	budget, f, c := 1_000_000, newFile("./x", e.env), new(Config)
	root := e.root.Copy(nil, "", &budget)
	change(root)
	c.setDefaults(f)
	f.Decode(root, c)
	c.Listing = f.List(root, c)
	return c
}

// elem returns the type of the items of a list or a map.
func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String || t.Kind() == reflect.Map {
		return t.Elem()
	}
	return t
}

// find returns the first node at a path.
func find(n *settings.Node, path []string) *settings.Node {
	if len(path) == 0 {
		return n
	}
	for _, c := range n.Children {
		if c.Key == path[0] || path[0] == "*" {
			if found := find(c, path[1:]); found != nil {
				return found
			}
		}
	}
	return nil
}

// remove removes a node from a tree.
func remove(from, n *settings.Node) {
	from.Children = slices.DeleteFunc(from.Children, func(c *settings.Node) bool { return c == n })
	for _, c := range from.Children {
		remove(c, n)
	}
}

// alter replaces the value of a node by another one of its type.
func alter(n *settings.Node, f *settings.Field, of reflect.Type) {
	if len(n.Children) > 0 {
		alter(n.Children[0], f, elem(of))
		return
	}
	text := n.Text + "1"
	if all := f.Words(); all != nil && of.Kind() == reflect.String {
		if text = all[0]; text == n.Text {
			text = all[1]
		}
	}
	if u, err := url.Parse(n.Text); err == nil && u.Host != "" {
		u.Host = "x" + u.Host
		text = u.String()
	}
	switch of.Kind() {
	case reflect.Bool:
		text = strconv.FormatBool(n.Text != "true")
	case reflect.Int64: // duration and size
		text = "7" + n.Text
	}
	n.Kind, n.Text, n.Written = settings.Scalar, text, text
}
