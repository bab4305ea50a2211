package agents

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
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

// claudeFor is Claude Code configured for a cloud. The gateway is in the place of the cloud, and
// takes its paths and frames with its own key.
func claudeFor(cloud, sends string, environment func(s *site) []string) *agent {
	a := claude()
	a.name, a.title, a.variant, a.sends = "claude-code-"+strings.ToLower(cloud), "Claude Code for "+cloud, true, sends
	a.environment = func(s *site) []string {
		return append(environment(s), "ANTHROPIC_DEFAULT_HAIKU_MODEL="+s.model, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1")
	}
	return a
}

func claudeOnClouds() []*agent {
	return []*agent{
		claudeFor("Bedrock", "/invoke-with-response-stream HTTP/1.1", func(s *site) []string {
			return []string{"CLAUDE_CODE_USE_BEDROCK=1", "ANTHROPIC_BEDROCK_BASE_URL=" + s.url, "AWS_BEARER_TOKEN_BEDROCK=" + s.key, "AWS_REGION=us-east-1"}
		}),
		claudeFor("Vertex", ":streamRawPredict HTTP/1.1", func(s *site) []string {
			return []string{
				"CLAUDE_CODE_USE_VERTEX=1", "ANTHROPIC_VERTEX_BASE_URL=" + s.url + "/v1", "CLAUDE_CODE_SKIP_VERTEX_AUTH=1", "ANTHROPIC_AUTH_TOKEN=" + s.key,
				"ANTHROPIC_VERTEX_PROJECT_ID=my-project", "CLOUD_ML_REGION=us-east5",
			}
		}),
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
