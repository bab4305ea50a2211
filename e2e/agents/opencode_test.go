package agents

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// opencode brings providers of Chat, Responses, Messages and Gemini with it. Which one it
// is told to use is a line of its settings.
func opencode() []*agent {
	return []*agent{
		opencodeWith("opencode", "@ai-sdk/openai-compatible", "openai-chat", "/v1", nil),
		opencodeWith("opencode-openai", "@ai-sdk/openai", "openai-responses", "/v1", map[string][]string{
			"anthropic": {"cache.key_unsupported"}, "gemini": {"cache.key_unsupported"},
		}),
		opencodeWith("opencode-anthropic", "@ai-sdk/anthropic", "anthropic", "/v1", map[string][]string{
			"openai-chat": {"cache.mark"}, "openai-responses": {"cache.mark"}, "gemini": {"cache.mark"},
		}),
		opencodeWith("opencode-google", "@ai-sdk/google", "gemini", "/v1beta", nil),
	}
}

func opencodeWith(name, provider, dialect, path string, told map[string][]string) *agent {
	args := func(v map[string]any) string { return testrig.Compact(v) }
	return &agent{
		name: name, title: "opencode, `" + provider + "`", pack: "opencode-linux-x64", version: "1.18.33", dialect: dialect, variant: name != "opencode", told: told,
		setUp: func(t *testing.T, s *site) {
			s.write(t, ".config/opencode/opencode.json", `{
  "$schema": "https://opencode.ai/config.json",
  "autoupdate": false,
  "share": "disabled",
  "provider": {
    "isogloss": {
      "npm": "`+provider+`",
      "name": "Isogloss",
      "options": { "baseURL": "`+s.url+path+`", "apiKey": "{env:ISOGLOSS_KEY}" },
      "models": {`+s.each(`"%s": { "reasoning": true, "limit": { "context": 128000, "output": 16000 } }`)+`}
    }
  }
}
`)
		},
		command: func(s *site, prompt string) []string {
			line := []string{s.module("opencode-linux-x64/bin/opencode"), "run", "-m", "isogloss/" + s.model}
			return append(s.resumed(line, "--continue"), prompt)
		},
		environment: func(s *site) []string {
			return []string{
				"ISOGLOSS_KEY=" + s.key,
				"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
				"npm_config_registry=http://127.0.0.1:9", // it would fetch a package of types for plugins
			}
		},
		shell: func(command string) call {
			return call{tool: "bash", args: args(map[string]any{"command": command})}
		},
		turns: []turn{
			{{tool: "read", args: args(map[string]any{"filePath": "notes.txt"})}},
			{{tool: "edit", args: args(map[string]any{
				"filePath": "notes.txt", "oldString": "The door is red.", "newString": "The door is purple.",
			})}},
			{{tool: "bash", args: args(map[string]any{"command": sizing})}},
		},
	}
}
