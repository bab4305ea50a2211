package agents

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// gemini has tools for files, which are functions.
func gemini() *agent {
	args := func(v map[string]any) string { return testrig.Compact(v) }
	return &agent{
		name: "gemini-cli", title: "gemini-cli", pack: "@google/gemini-cli", version: "0.61.0", dialect: "gemini",
		setUp: func(t *testing.T, s *site) {
			s.write(t, ".gemini/settings.json", `{
  "security": { "auth": { "selectedType": "gemini-api-key" } },
  "privacy": { "usageStatisticsEnabled": false },
  "telemetry": { "enabled": false },
  "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false }
}
`)
		},
		command: func(s *site, prompt string) []string {
			line := []string{
				s.node(), s.module("@google/gemini-cli/bundle/gemini.js"),
				"--skip-trust", "--approval-mode", "yolo", "-m", s.model,
			}
			return append(s.resumed(line, "--resume", "latest"), "-p", prompt)
		},
		environment: func(s *site) []string {
			return []string{"GEMINI_API_KEY=" + s.key, "GOOGLE_GEMINI_BASE_URL=" + s.url}
		},
		shell: func(command string) call {
			return call{tool: "run_shell_command", args: args(map[string]any{"command": command})}
		},
		// It sends each result twice after --resume, which Google refuses: gemini-cli #29365.
		textOnly: true,
		// Its search asks another model, with a tool that the vendor runs: here Anthropic.
		further: "gemini-3-flash-preview", reaches: `"type":"web_search_`,
		turns: []turn{
			{
				{tool: "read_file", args: args(map[string]any{"file_path": "notes.txt"})},
				{tool: "google_web_search", args: args(map[string]any{"query": "purple paint"})},
			},
			{{tool: "replace", args: args(map[string]any{
				"file_path": "notes.txt", "instruction": "Paint the door purple.",
				"old_string": "The door is red.", "new_string": "The door is purple.",
			})}},
			{{tool: "run_shell_command", args: args(map[string]any{"command": sizing})}},
		},
	}
}
