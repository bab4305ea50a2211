package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// TestFileVariable checks that ${FILE:path} is the contents of a file beside the
// configuration, without its last line break, and that a file that cannot be used is a
// mistake with its line.
func TestFileVariable(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"key": "k-of-a-file-1234\n", "windows": "k-of-a-file-1234\r\n", "binary": "\xff\xfe", "large": strings.Repeat("x", 64<<10+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func(path string) (*Config, error) {
		text := "providers:\n  p: { protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\", api_key: ${FILE:" + path + "} }\nmodels: { m: { targets: [p/m] } }\n"
		return Parse(filepath.Join(dir, "isogloss.yaml"), []byte(text), func(string) (string, bool) { return "", false })
	}
	for _, path := range []string{"key", "windows", filepath.Join(dir, "key")} {
		cfg, err := load(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got := cfg.Providers[0].Key.Reveal(); got != "k-of-a-file-1234" {
			t.Errorf("%s: the key is %q", path, got)
		}
	}
	for path, want := range map[string]string{"none": "create it", "binary": "UTF-8", "large": "64 KiB"} {
		_, err := load(path)
		var mistakes *settings.Problems
		if !errors.As(err, &mistakes) || len(mistakes.List) != 1 || mistakes.List[0].Line != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want line 2 and %q", path, err, want)
		}
	}
}
