package agents

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

// claude is Claude Code. Its tools for files take absolute paths.
func claude() *agent {
	args := func(v map[string]any) string { return testrig.Compact(v) }
	return &agent{
		name: "claude-code", title: "Claude Code", pack: "@anthropic-ai/claude-code-linux-x64", version: "2.1.326", dialect: "anthropic",
		setUp: func(*testing.T, *site) {},
		command: func(s *site, prompt string) []string {
			line := []string{
				s.module("@anthropic-ai/claude-code-linux-x64/claude"),
				"-p", "--model", s.model, "--permission-mode", "acceptEdits", "--allowedTools", "Bash",
			}
			return append(s.resumed(line, "--continue"), "--", prompt)
		},
		environment: func(s *site) []string {
			return []string{
				"ANTHROPIC_BASE_URL=" + s.url, "ANTHROPIC_AUTH_TOKEN=" + s.key, "ANTHROPIC_DEFAULT_HAIKU_MODEL=" + s.model,
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
			}
		},
		shell: func(command string) call {
			return call{tool: "Bash", args: args(map[string]any{"command": command})}
		},
		dialogue: claudeDialogue,
		told: map[string][]string{
			"openai-chat": {"cache.mark", "header.anthropic_beta"}, "openai-responses": {"cache.mark", "header.anthropic_beta"},
			"gemini": {"cache.mark", "header.anthropic_beta"},
		},
		turns: []turn{
			{{tool: "Read", args: args(map[string]any{"file_path": "notes.txt"})}},
			{{tool: "Edit", args: args(map[string]any{
				"file_path": "notes.txt", "old_string": "The door is red.", "new_string": "The door is purple.",
			})}},
			{{tool: "Bash", args: args(map[string]any{"command": sizing})}},
		},
	}
}

// claudeDialogue is Claude Code with messages on its standard input. It keeps its
// thinking when the model changes, which it drops when it resumes with another model.
func claudeDialogue(s *site) *dialogue {
	line := claude().command(s, "")
	line = append(line[:len(line)-2], "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
	return &dialogue{
		line: line,
		change: func(model string) string {
			return testrig.Compact(map[string]any{
				"type": "control_request", "request_id": "change", "request": map[string]any{"subtype": "set_model", "model": model},
			})
		},
		say: func(prompt string) string {
			return testrig.Compact(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": prompt}})
		},
		ends: `"type":"result"`,
	}
}
