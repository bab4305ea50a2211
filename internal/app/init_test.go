package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/discover"
	"github.com/isogloss-gateway/isogloss/internal/provider"
)

func environment(set map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := set[name]; return v, ok }
}

// TestDraft checks that the draft is a valid configuration of everything that was found,
// for every preset, and that it holds no key.
func TestDraft(t *testing.T) {
	set := map[string]string{}
	vendors := 0
	for _, p := range provider.Catalog() {
		if p.EnvKey != "" {
			set[p.EnvKey] = "key-of-the-environment"
			if p.BaseURL != "" {
				vendors++
			}
		}
	}
	workers := []discover.Worker{
		{Model: "qwen3:8b", URL: "http://127.0.0.1:11434/v1", Engine: "ollama"}, {Model: "Qwen/Qwen3-32B", URL: "http://127.0.0.1:8000/v1", Engine: "vllm"},
		{Model: "qwen3:8b", URL: "http://127.0.0.1:8000/v1", Engine: "vllm"}, {Model: "smol", URL: "http://127.0.0.1:8080/v1", Engine: "llamacpp"},
		{Model: "evil\"\n: {}", URL: "http://127.0.0.1:11434/v1", Engine: "ollama"}, {Model: "a/../b", URL: "http://127.0.0.1:11434/v1", Engine: "ollama"},
	}
	text, err := writeDraft(environment(set), workers)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("isogloss.yaml", text, environment(set))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var names []string
	for _, m := range cfg.Models {
		names = append(names, m.Name)
	}
	if len(cfg.Providers) != vendors+3 || len(cfg.Models) != vendors+3 || cfg.Listen != besideEngine {
		t.Errorf("%d providers, %q, listen %s\n%s", len(cfg.Providers), names, cfg.Listen, text)
	}
	if strings.Contains(string(text), "key-of-the-environment") || !strings.Contains(string(text), "# azure: ") {
		t.Errorf("%s", text)
	}
	if _, err := writeDraft(environment(nil), nil); err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
		t.Errorf("with nothing found: %v", err)
	}
}

// TestInit checks that a file is overwritten only by force.
func TestInit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "isogloss.yaml")
	o := Options{Env: environment(map[string]string{"GROQ_API_KEY": "k-1234567890"})}
	if cfg, err := o.Init(t.Context(), file, false); err != nil || len(cfg.Models) != 1 || cfg.Models[0].Name != "groq/*" {
		t.Fatalf("%+v %v", cfg, err)
	}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Init(t.Context(), file, false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a file that exists: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("it was changed: %s %v", text, err)
	}
	if _, err := o.Init(t.Context(), file, true); err != nil {
		t.Error(err)
	}
}
