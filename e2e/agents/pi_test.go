package agents

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// pi speaks Chat, Responses, Messages and Gemini. Which one is a line of its list of models.
func pi() []*agent {
	return []*agent{
		piWith("pi", "openai-completions", "openai-chat", "/v1", nil),
		piWith("pi-responses", "openai-responses", "openai-responses", "/v1", map[string][]string{
			"anthropic": {"cache.key_unsupported"}, "gemini": {"cache.key_unsupported"},
		}),
		piWith("pi-anthropic", "anthropic-messages", "anthropic", "", map[string][]string{
			"openai-chat": {"cache.mark"}, "openai-responses": {"cache.mark"}, "gemini": {"cache.mark"},
		}),
		piWith("pi-google", "google-generative-ai", "gemini", "/v1beta", nil),
	}
}

func piWith(name, api, dialect, path string, told map[string][]string) *agent {
	args := func(v map[string]any) string { return testrig.Compact(v) }
	return &agent{
		name: name, title: "pi, `" + api + "`", pack: "@mariozechner/pi-coding-agent", version: "0.73.1", dialect: dialect, variant: name != "pi", told: told,
		setUp: func(t *testing.T, s *site) {
			s.write(t, ".pi/agent/models.json", `{
  "providers": {
    "isogloss": {
      "baseUrl": "`+s.url+path+`",
      "api": "`+api+`",
      "apiKey": "ISOGLOSS_KEY",
      "models": [`+s.each(`{ "id": "%s", "reasoning": true }`)+`]
    }
  }
}
`)
		},
		command: func(s *site, prompt string) []string {
			line := []string{
				s.node(), s.module("@mariozechner/pi-coding-agent/dist/cli.js"),
				"--provider", "isogloss", "--model", s.model,
			}
			return append(s.resumed(line, "--continue"), "-p", prompt)
		},
		environment: func(s *site) []string {
			return []string{"ISOGLOSS_KEY=" + s.key, "PI_OFFLINE=1"} // it looks for news at every start
		},
		shell: func(command string) call {
			return call{tool: "bash", args: args(map[string]any{"command": command})}
		},
		turns: []turn{
			{{tool: "read", args: args(map[string]any{"path": "notes.txt"})}},
			{{tool: "edit", args: args(map[string]any{
				"path": "notes.txt", "edits": []any{map[string]any{"oldText": "The door is red.", "newText": "The door is purple."}},
			})}},
			{{tool: "bash", args: args(map[string]any{"command": sizing})}},
		},
	}
}
