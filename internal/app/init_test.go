package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func environment(set map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := set[name]; return v, ok }
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
