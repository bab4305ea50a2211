package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected sections and the reference")

// TestCases runs every testdata/*.txtar: the section "config" is the input, and "errors"
// or "resolved" the expected output. A section "env" sets variables, one NAME=VALUE a
// line.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { runCase(t, path) })
	}
}

func runCase(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in, want := map[string][]byte{}, txtar.File{}
	kept := archive.Files[:0:0]
	for _, f := range archive.Files {
		switch f.Name {
		case "config", "env":
			in[f.Name] = f.Data
			kept = append(kept, f)
		case "errors", "resolved":
			want = f
		default:
			t.Fatalf("unknown section %q", f.Name)
		}
	}
	got := txtar.File{Name: "resolved"}
	env := lookupIn(string(in["env"]))
	c, err := Parse("isogloss.yaml", in["config"], env, Environment(env)...)
	if err != nil {
		got = txtar.File{Name: "errors", Data: []byte(err.Error() + "\n")}
	} else {
		got.Data = []byte(c.String())
	}
	if *update {
		archive.Files = kept
		archive.Files = append(archive.Files, got)
		if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.Name != want.Name || string(got.Data) != string(want.Data) {
		t.Errorf("%s\n got %s:\n%s\nwant %s:\n%s", strings.TrimSpace(string(archive.Comment)), got.Name, got.Data, want.Name, want.Data)
	}
}

// lookupIn returns a lookup function for an environment of NAME=VALUE lines.
func lookupIn(lines string) func(string) (string, bool) {
	env := map[string]string{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}
