package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// TestLoadPlace reads where the store is from files with mistakes elsewhere, and nothing from files whose
// mistake may concern it.
func TestLoadPlace(t *testing.T) {
	const rest = "providers:\n  up: { protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\" }\nmodels: { fast: { targets: [up/m] } }\n"
	const place = "listen: 127.0.0.1:9\ndata: /d\ncell: eu\nnode: gw-1\nstore:\n  # beside the data\n  url: sqlite:/s.db\n"
	unset := func(string) (string, bool) { return "", false }
	for name, c := range map[string]struct {
		text, warning, mistake string
	}{
		"no mistake":             {text: place + rest},
		"an unset variable":      {text: place + strings.Replace(rest, "openai-chat", "openai-chat, api_key: \"${OPENAI_API_KEY}\"", 1), warning: "OPENAI_API_KEY"},
		"an unknown key":         {text: place + rest + "stor: x\n", warning: "did you mean"},
		"wrong indentation":      {text: place + rest + "  - x\n y: 1\n", warning: "isogloss.yaml:11"},
		"an open quote":          {text: rest + "aliases: \"x\n" + place, warning: "isogloss.yaml:"},
		"an open bracket":        {text: place + "keys: [\n" + rest, warning: "isogloss.yaml:"},
		"no provider":            {text: place, warning: "providers"},
		"a setting of its range": {text: place + rest + "admin: { listen: nowhere }\n", warning: "admin.listen"},
		"the store":              {text: strings.Replace(place, "sqlite:/s.db", "mysql:x", 1) + rest, mistake: "store.url: is no store"},
		"a variable of it":       {text: strings.Replace(place, "sqlite:/s.db", "${DB}", 1) + rest, mistake: "DB"},
		"no store":               {text: "data: /d\nstor: sqlite\n" + rest, mistake: "stor"},
		"merged":                 {text: "<<: *x\n" + place + rest, mistake: "names the anchor"},
		"in braces":              {text: "{ store: sqlite, data: /d, x: 1 }", mistake: "x: is not a known key"},
		"indented":               {text: "  store: sqlite\n  data: /d\n  x: 1\n", mistake: "x: is not a known key"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "isogloss.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := LoadPlace(file, unset)
			if c.mistake != "" {
				var wrong *settings.Problems
				if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.mistake) {
					t.Error(err)
				}
				return
			}
			if err != nil || p.Listen != "127.0.0.1:9" || p.Data != "/d" || !p.DataSet || p.Cell != "eu" || p.Node != "gw-1" || p.Store.URL.Reveal() != "sqlite:/s.db" {
				t.Fatalf("%+v, %v", p, err)
			}
			if (p.Wrong != nil) != (c.warning != "") || p.Wrong != nil && !strings.Contains(p.Wrong.Error(), c.warning) {
				t.Errorf("a warning %v, want %q", p.Wrong, c.warning)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "isogloss.yaml")
	if err := os.WriteFile(file, []byte("store: sqlite\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := LoadPlace(file, unset); err != nil || p.DataSet {
		t.Errorf("the default of data counts as written: %v", err)
	}
	if p, err := LoadPlace(file, unset, settings.Override{Source: "ISOGLOSS_DATA", Key: "data", Value: "/e"}); err != nil || !p.DataSet || p.Data != "/e" {
		t.Errorf("data of the environment: %v", err)
	}
	if _, err := LoadPlace("/nowhere", unset); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
