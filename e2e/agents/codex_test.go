package agents

import (
	"path/filepath"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// codexAgent is what all rows of codex have in common. What codex declares to the model
// depends on the model's name.
func codexAgent() agent {
	return agent{
		pack: "@openai/codex", version: "0.166.0", dialect: "openai-responses",
		setUp: func(t *testing.T, s *site) { s.write(t, ".codex/config.toml", codexSettings(s)) },
		command: func(s *site, prompt string) []string {
			line := []string{
				s.module("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"),
				"exec", "--skip-git-repo-check", "--sandbox", "danger-full-access",
			}
			return append(s.resumed(line, "resume", "--last"), prompt)
		},
		environment: func(s *site) []string { return []string{"ISOGLOSS_KEY=" + s.key} },
		shell:       shell,
	}
}

func codexSettings(s *site) string {
	return `model = "` + s.model + `"
model_provider = "isogloss"
check_for_update_on_startup = false

[model_providers.isogloss]
name = "Isogloss"
base_url = "` + s.url + `/v1"
env_key = "ISOGLOSS_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
`
}

// shell calls codex's shell.
func shell(command string) call {
	return call{tool: "exec_command", args: testrig.Compact(map[string]any{"cmd": command, "login": false})}
}

const patch = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-The door is red.\n+The door is purple.\n*** End Patch\n"

// codex is told a name of which it knows nothing, as most models behind a gateway have.
// It declares functions, a namespace of functions and the vendor's web search, and
// patches come as a command.
func codex() *agent {
	a := codexAgent()
	a.name, a.title = "codex", "codex"
	a.turns = []turn{
		{shell("cat notes.txt"), {space: "multi_agent_v1", tool: "close_agent", args: `{"target":"nobody"}`}},
		{shell("apply_patch <<'END'\n" + patch + "END\n")},
		{shell(sizing)},
	}
	a.gets = []string{`"namespace":"multi_agent_v1"`}
	a.told = map[string][]string{
		"openai-chat": {"tool.hosted"}, "anthropic": {"tool.hosted_mapped"}, "gemini": {"tool.hosted"},
	}
	return &a
}

// codexPatching is told a name that begins as one that it knows. It declares a custom
// tool for patches, and looks for further tools by a tool of its own.
func codexPatching() *agent {
	a := codexAgent()
	a.name, a.title, a.variant = "codex-gpt-5.5", "codex, model `gpt-5.5…`", true
	a.model = func(d *rig.Dialect) string { return "gpt-5.5-on-" + d.Name }
	a.turns = []turn{
		{shell("cat notes.txt")},
		{{tool: "apply_patch", args: patch, free: true}},
		{shell(sizing)},
	}
	a.gets = []string{`"type":"custom_tool_call"`}
	a.told = map[string][]string{
		"openai-chat": {"tool.hosted"},
		"anthropic":   {"custom_tool.as_function", "grammar.lost", "tool.hosted_mapped"},
		"gemini":      {"custom_tool.as_function", "grammar.lost", "tool.hosted"},
	}
	return &a
}

// codexSearching has an MCP server, whose tool codex keeps from the model until it looks
// for it. What it has found is declared by nothing but the search's result.
func codexSearching() *agent {
	a := codexPatching()
	a.name, a.title = "codex-search", "codex, model `gpt-5.5…`, with an MCP server"
	a.model = func(d *rig.Dialect) string { return "gpt-5.5-searches-on-" + d.Name }
	a.setUp = func(t *testing.T, s *site) {
		server, err := filepath.Abs("testdata/painter.mjs")
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, ".codex/config.toml", codexSettings(s)+"\n[mcp_servers.painter]\ncommand = "+testrig.Quote(s.node())+
			"\nargs = ["+testrig.Quote(server)+", "+testrig.Quote(filepath.Join(s.folder, "notes.txt"))+"]\n")
	}
	a.turns = []turn{
		{shell("cat notes.txt")},
		{{tool: "tool_search", args: `{"query":"paint a door","limit":3}`, search: true}},
		{{space: "mcp__painter", tool: "repaint", args: `{"from":"red","to":"purple"}`}},
		{shell(sizing)},
	}
	a.gets = []string{`"type":"tool_search_call"`, `"execution":"client"`, `"namespace":"mcp__painter"`}
	for upstream, codes := range a.told {
		a.told[upstream] = append(codes, "tool_search.as_function")
	}
	return a
}

// codexScripting is told a name that begins as the vendor's newest. Its tools are an
// item of the conversation, all of them in namespaces, and the one that does the work
// is a custom tool that takes a program.
func codexScripting() *agent {
	a := codexAgent()
	a.name, a.title, a.variant = "codex-gpt-6", "codex, model `gpt-6-sol…`", true
	a.model = func(d *rig.Dialect) string { return "gpt-6-sol-on-" + d.Name }
	script := func(program string) call { return call{space: "functions", tool: "exec", args: program, free: true} }
	run := func(command string) call {
		return script("text(await tools.exec_command({cmd: " + testrig.Quote(command) + "}))")
	}
	a.shell = run
	a.turns = []turn{
		{run("cat notes.txt")},
		{{space: "collaboration", tool: "list_agents", args: "{}"}},
		{script("text(await tools.apply_patch(" + testrig.Quote(patch) + "))")},
		{run(sizing)},
	}
	a.gets = []string{`"type":"custom_tool_call"`, `"namespace":"functions"`, `"namespace":"collaboration"`}
	a.told = map[string][]string{
		"anthropic": {"custom_tool.as_function", "grammar.lost"}, "gemini": {"custom_tool.as_function", "grammar.lost"},
	}
	return &a
}
