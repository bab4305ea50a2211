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

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"golang.org/x/tools/txtar"

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
		"isogloss.yaml: is larger than ": bytes.Repeat([]byte("#"), maxFile+1),
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
	if values["providers.gemini.api_key"] != hidden || values["providers.gemini.base_url"] != "https://generativelanguage.googleapis.com" || values["models.openai/*.targets"] != "" || values["models.openai/*.targets[0].target"] != "openai/*" {
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

// TestEveryKeyExample checks that the example contains every key of file.go.
func TestEveryKeyExample(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/every_key.txtar")
	if err != nil {
		t.Fatal(err)
	}
	root := parseYAML(archive.Files[0].Data, variableReader{env: lookupIn(string(archive.Files[1].Data)), dir: "."}, &Problems{})
	used := map[string]bool{}
	var walk func(n *node)
	walk = func(n *node) {
		used[n.key] = true
		for _, c := range n.children {
			walk(c)
		}
	}
	walk(root)
	eachSetting(field{}, nil, reflect.TypeFor[file](), func(f field, path []string, _ reflect.Type) {
		if !used[path[len(path)-1]] && !strings.HasPrefix(f.key, "usage.sink.nats.") { // instead of kafka
			t.Errorf("the example does not use %s", f.key)
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
	const n = 5*entriesPerRun + 1
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

// FuzzPieces checks that a file parsed in pieces equals the file parsed at once, if the
// library can parse it at once.
func FuzzPieces(f *testing.F) {
	forEachConfig(f, func(_ string, data []byte, _ string) { f.Add(string(data)) })
	f.Fuzz(func(t *testing.T, data string) {
		if len(data) > 4096 {
			return
		}
		whole, pieces := newTree(), newTree()
		tokens := whole.tokens(lexer.Tokenize(data))
		if whole.broken || len(tokens) == 0 || emptyEntry(tokens) {
			return
		}
		wholeRoot := &node{kind: mapping}
		if parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()); err != nil || len(parsed.Docs) != 1 {
			return
		} else {
			whole.merge(wholeRoot, parsed.Docs[0].Body)
		}
		piecesRoot := &node{kind: mapping}
		for _, entry := range entries(pieces.tokens(lexer.Tokenize(data))) {
			pieces.entry(piecesRoot, entry)
		}
		// The pieces may be rejected although the whole file is not: the library accepts
		// a value in the column of its key, which YAML does not allow.
		if whole.broken || pieces.broken {
			return
		}
		if a, b := outline(wholeRoot), outline(piecesRoot); a != b {
			t.Errorf("whole:\n%s\npieces:\n%s", a, b)
		}
	})
}

// emptyEntry reports whether an entry of a list is empty and is the last one. The library
// then parses a key below the dash as its value, which YAML does not allow. See
// testdata/list_empty_entry.txtar.
func emptyEntry(tokens token.Tokens) bool {
	for i, t := range tokens[:len(tokens)-1] {
		next := tokens[i+1]
		if t.Type == token.SequenceEntryType && next.Type != token.SequenceEntryType && next.Position.Line > t.Position.Line && next.Position.Column <= t.Position.Column {
			return true
		}
	}
	return false
}

func newTree() *tree {
	return &tree{variables: variableReader{env: noEnv}, ps: &Problems{}, anchors: map[string]*node{}, budget: 1000}
}

// outline returns a tree as text, without the order of merged keys.
func outline(n *node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %q\n", n.path(), n.kind, n.written)
	for _, c := range n.children {
		b.WriteString(outline(c))
	}
	return b.String()
}
