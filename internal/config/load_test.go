package config

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// forEachConfig calls f with the configuration and environment of every case.
func forEachConfig(t testing.TB, f func(name string, data []byte, env string)) {
	t.Helper()
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range files {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var data, env []byte
		for _, file := range archive.Files {
			switch file.Name {
			case "config":
				data = file.Data
			case "env":
				env = file.Data
			}
		}
		f(path, data, string(env))
	}
}

func noEnv(string) (string, bool) { return "", false }

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "isogloss.yaml")
	if _, err := Load(path, noEnv); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(path, []byte("lisen: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, noEnv); err == nil || !strings.HasPrefix(err.Error(), path+":1: ") {
		t.Errorf("messages begin with the file and the line: %v", err)
	}
}

func TestBytesThatAreNoText(t *testing.T) {
	for name, data := range map[string][]byte{
		"isogloss.yaml:2: is not UTF-8":  []byte("listen: a\nlog: \xff\n"),
		"isogloss.yaml: is larger than ": bytes.Repeat([]byte("#"), settings.MaxFile+1),
		"isogloss.yaml:1: lisen: ":       []byte("\ufefflisen: x\n"),
	} {
		if _, err := Parse("isogloss.yaml", data, noEnv); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	c, err := FromEnvironment(lookupIn("OPENAI_API_KEY=k-1\nGEMINI_API_KEY= k-2 \nGROQ_API_KEY=\nAZURE_OPENAI_API_KEY=k-3"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range c.Models {
		got = append(got, m.Name+" -> "+m.Targets[0].Provider.Name+"/"+m.Targets[0].Model)
	}
	if want := []string{"openai/* -> openai/*", "gemini/* -> gemini/*"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if c.Providers[1].Key.Reveal() != "k-2" || c.Models[0].Targets[0].Timeouts != c.Timeouts || c.Listen != "127.0.0.1:8080" {
		t.Errorf("key, timeouts or address are not filled in:\n%s", c)
	}
	values := maps.Collect(c.Values())
	if values["providers.gemini.api_key"] != "***" || values["providers.gemini.base_url"] != "https://generativelanguage.googleapis.com" || values["models.openai/*.targets"] != "" || values["models.openai/*.targets[0].target"] != "openai/*" {
		t.Errorf("the providers of the environment are not printed:\n%s", c)
	}
	if _, err := FromEnvironment(lookupIn("OPENAI_API_KEY=CANARY 1")); err == nil || !strings.HasPrefix(err.Error(), "OPENAI_API_KEY: ") || strings.Contains(err.Error(), canary) {
		t.Errorf("a key that no header can carry: %v", err)
	}
	if _, err := FromEnvironment(noEnv); err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
		t.Errorf("an error that names what to set: %v", err)
	}
}

// TestEveryPresetWithOnlyAKey builds a provider from each preset with only a key set.
func TestEveryPresetWithOnlyAKey(t *testing.T) {
	for _, p := range provider.Catalog() {
		base := ""
		switch {
		case p.Template != "":
			base = ", region: us-east5"
			if strings.HasPrefix(p.Name, "vertex") {
				base += ", project: p"
			}
		case p.BaseURL == "":
			base = ", base_url: https://r.example.com/v1"
		}
		text := fmt.Sprintf("listen: 127.0.0.1:9999\nproviders: {x: {preset: %s, api_key: k-1%s}}\nmodels: {m: {targets: [x/y]}}\n", p.Name, base)
		if _, err := Parse(p.Name, []byte(text), noEnv); err != nil {
			t.Error(err)
		}
	}
}

// TestEveryKeyExample checks that the example contains every key.
func TestEveryKeyExample(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/every_key.txtar")
	if err != nil {
		t.Fatal(err)
	}
	root := newFile("", lookupIn(string(archive.Files[1].Data))).Parse(archive.Files[0].Data)
	used := map[string]bool{}
	var walk func(n *settings.Node)
	walk = func(n *settings.Node) {
		used[n.Key] = true
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(root)
	eachSetting("", false, nil, reflect.TypeFor[Config](), func(name string, _ bool, path []string, _ *settings.Field) {
		if !used[path[len(path)-1]] && !strings.HasPrefix(name, "usage.sink.nats.") { // instead of kafka
			t.Errorf("the example does not use %s", name)
		}
	})
}

// manyModels returns a file with n models in block style.
func manyModels(n int) []byte {
	var b bytes.Buffer
	b.WriteString("providers:\n  openai: {preset: openai, api_key: k-1}\nmodels:\n")
	for i := range n {
		fmt.Fprintf(&b, "  model-%d:\n    targets:\n      - openai/m-%d\n      - { target: openai/gpt-5-mini, weight: 2 }\n", i, i)
	}
	return b.Bytes()
}

// TestManyModels checks mappings so large that they are parsed in several pieces.
func TestManyModels(t *testing.T) {
	const n = 641
	_, err := Parse("isogloss.yaml", append(manyModels(n), "  model-7: {targets: [openai/x]}\n"...), noEnv)
	want := fmt.Sprintf("isogloss.yaml:%d: models.model-7: is set here and on line %d; keep one", 4+4*n, 4+4*7)
	if err == nil || err.Error() != want {
		t.Errorf("a name twice, far apart: %v, want %s", err, want)
	}
	c, err := Parse("isogloss.yaml", manyModels(n), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range c.Models {
		if m.Name != fmt.Sprintf("model-%d", i) || m.Targets[0].Model != fmt.Sprintf("m-%d", i) || m.Targets[1].Weight != 2 {
			t.Fatalf("model %d is %+v", i, m)
		}
	}
	if len(c.Models) != n {
		t.Errorf("%d models, want %d", len(c.Models), n)
	}
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		data := manyModels(n)
		b.Run(fmt.Sprintf("models=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := Parse("isogloss.yaml", data, noEnv); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzParse checks that no input panics and that an accepted configuration satisfies the
// rules on which the rest of the program relies.
func FuzzParse(f *testing.F) {
	forEachConfig(f, func(_ string, data []byte, _ string) { f.Add(data) })
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data, func(name string) (string, bool) { return "v-" + name, len(name) < 4 })
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a message")
			}
			return
		}
		if !c.Discover.On() && (len(c.Providers) == 0 || len(c.Models) == 0) {
			t.Error("nothing to serve")
		}
		for _, p := range c.Providers {
			if p.BaseURL.Host == "" || p.URL("/v1/chat/completions").Host != p.BaseURL.Host {
				t.Errorf("provider %s has no address", p)
			}
		}
		for _, m := range c.Models {
			for _, target := range m.Targets {
				if target.Provider == nil && !c.Discover.On() || target.Model == "" || target.Weight < 1 || target.Timeouts.Total <= 0 {
					t.Errorf("model %s has the target %+v", m.Name, target)
				}
			}
		}
	})
}
