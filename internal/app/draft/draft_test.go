package draft

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
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
	text, err := Write(environment(set), workers)
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
	if len(cfg.Providers) != vendors+3 || len(cfg.Models) != vendors+3 || cfg.Listen != BesideEngine {
		t.Errorf("%d providers, %q, listen %s\n%s", len(cfg.Providers), names, cfg.Listen, text)
	}
	if strings.Contains(string(text), "key-of-the-environment") || !strings.Contains(string(text), "# azure: ") {
		t.Errorf("%s", text)
	}
	if _, err := Write(environment(nil), nil); err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
		t.Errorf("with nothing found: %v", err)
	}
}
