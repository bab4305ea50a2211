package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestCommands runs the cases of testdata/commands. A case has the command line, its
// files and variables, and the expected output, which
// `go test ./cmd/isogloss -update` rewrites.
func TestCommands(t *testing.T) {
	cases, err := filepath.Glob("testdata/commands/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("there are no cases: %v", err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			runCase(t, path, archive)
		})
	}
}

func runCase(t *testing.T, path string, archive *txtar.Archive) {
	dir := t.TempDir()
	var args, env []string
	want := map[string]string{}
	inputs := archive.Files[:0:0]
	for _, f := range archive.Files {
		switch f.Name {
		case "stdout", "stderr", "exit":
			want[f.Name] = string(f.Data)
			continue
		case "command":
			args = strings.Fields(string(f.Data))
		case "env":
			env = strings.Fields(string(f.Data))
		default:
			if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		inputs = append(inputs, f)
	}
	if len(args) == 0 || args[0] != "isogloss" {
		t.Fatal("the case has no command")
	}
	r := command(t, dir, env, args[1:]...)
	got := map[string]string{"stdout": anyPlatform(r.stdout), "stderr": anyPlatform(r.stderr), "exit": strconv.Itoa(r.code) + "\n"}
	if *update {
		updateCase(t, path, archive, inputs, got)
		return
	}
	for name, text := range got {
		if text != want[name] {
			t.Errorf("%s is\n%s\nwant\n%s", name, text, want[name])
		}
	}
}

func updateCase(t *testing.T, path string, archive *txtar.Archive, inputs []txtar.File, got map[string]string) {
	t.Helper()
	archive.Files = inputs
	for _, name := range []string{"stdout", "stderr", "exit"} {
		if got[name] != "" {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got[name])})
		}
	}
	if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

// anyPlatform replaces the parts of an output that differ between machines.
func anyPlatform(s string) string {
	return strings.NewReplacer(runtime.Version(), "GOVERSION", runtime.GOOS+"/"+runtime.GOARCH, "GOOS/GOARCH",
		strconv.Quote(runtime.GOOS), `"GOOS"`, strconv.Quote(runtime.GOARCH), `"GOARCH"`).Replace(s)
}

// TestCompletion checks that each shell gets its own completion script.
func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{"bash": "__start_isogloss", "zsh": "#compdef isogloss", "fish": "complete -c isogloss", "powershell": "Register-ArgumentCompleter"} {
		r := command(t, t.TempDir(), nil, "completion", shell)
		if r.code != 0 || r.stderr != "" || !strings.Contains(r.stdout, want) {
			t.Errorf("%s: exit code %d, %s, the script lacks %q", shell, r.code, r.stderr, want)
		}
	}
	// The command that the scripts call.
	r := command(t, t.TempDir(), nil, "__complete", "se")
	if !strings.HasPrefix(r.stdout, "serve\tServe models\n") {
		t.Errorf("se is completed to %s", r.stdout)
	}
	r = command(t, t.TempDir(), nil, "__complete", "completion", "z")
	if !strings.HasPrefix(r.stdout, "zsh\n") {
		t.Errorf("completion z is completed to %s", r.stdout)
	}
}
