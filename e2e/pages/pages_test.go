// Package pages does what the quickstart and the pages about clients tell a stranger to
// do, word for word, with the real clients and a real engine.
package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const docs = "../../docs"

// answers is what the engine says to everything, so that a page can show it.
var answers = []string{"Hello", "!"}

// short are the pages of a short run.
var short = []string{"openai-sdk.md", "claude-code.md"}

// TestClientPages follows the quickstart up to a gateway that serves, and then one page
// after the other. Each block of shell is run as it stands, and a block of text after
// it is its output. A block "sh install" is not run; what it installs has to be what
// setup.sh has installed. Only the ports are others. A short run follows one page of an SDK
// and one of an agent.
func TestClientPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(docs, "clients", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	engine := rig.StartEngine(t, rig.EngineOptions{Weights: rig.ScriptedWeights(t, answers...), Model: "qwen3", Context: 65536})
	s := newStranger(t, engine)
	s.follow(t, fences(t, "quickstart.md", "## 3. Write a file", "## 5. Send a request"))
	for _, path := range pages {
		page := filepath.Base(path)
		if page == "README.md" || testing.Short() && !slices.Contains(short, page) {
			continue
		}
		t.Run(strings.TrimSuffix(page, ".md"), func(t *testing.T) { s.visit(t, page) })
	}
}

// fence is a block of a page.
type fence struct{ info, text string }

// fences are the blocks of a page between two of its lines, or of all of it.
func fences(t *testing.T, page string, between ...string) []fence {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(docs, page))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if len(between) == 2 {
		_, rest, found := strings.Cut(text, between[0])
		part, _, ended := strings.Cut(rest, between[1])
		if !found || !ended {
			t.Fatalf("%s has no part between %q and %q", page, between[0], between[1])
		}
		text = part
	}
	var all []fence
	for _, m := range regexp.MustCompile("(?ms)^```(\\S[^\n]*)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		all = append(all, fence{m[1], m[2]})
	}
	return all
}

// stranger follows pages.
type stranger struct {
	home  string
	path  []string // folders with what is installed
	more  []string // of the environment
	ports *strings.Replacer
}

func newStranger(t *testing.T, engine *rig.Engine) *stranger {
	t.Helper()
	ports, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{home: t.TempDir(), path: []string{filepath.Dir(rig.Build(t))}}
	s.ports = strings.NewReplacer("127.0.0.1:8000", strings.TrimPrefix(engine.URL, "http://"), "127.0.0.1:8080", ports[0], "127.0.0.1:8081", ports[1])
	return s
}

// visit follows a page about a client, in a folder of its own.
func (s *stranger) visit(t *testing.T, page string) {
	needs, known := clients()[page]
	if !known {
		t.Fatalf("clients() does not say what docs/clients/%s needs", page)
	}
	own := &stranger{home: t.TempDir(), ports: s.ports}
	needs(t, own)
	blocks := fences(t, filepath.Join("clients", page))
	for _, b := range blocks {
		if b.info == "sh install" {
			checkInstalls(t, b.text)
		}
	}
	if own.follow(t, blocks) == 0 {
		t.Error("there is nothing on the page to do")
	}
}

// follow runs the blocks and returns how many.
func (s *stranger) follow(t *testing.T, blocks []fence) int {
	t.Helper()
	ran := 0
	for i, b := range blocks {
		script := s.ports.Replace(b.text)
		switch b.info {
		case "sh":
			want := ""
			if i+1 < len(blocks) && blocks[i+1].info == "text" {
				want = s.ports.Replace(blocks[i+1].text)
			}
			s.run(t, script, want)
		case "sh background":
			s.leaveRunning(t, script)
		default:
			continue
		}
		ran++
	}
	return ran
}

func (s *stranger) command(script string) *exec.Cmd {
	cmd := exec.Command("bash", "-c", "set -euo pipefail\n"+script)
	cmd.Dir = s.home
	path := strings.Join(append(slices.Clone(s.path), os.Getenv("PATH")), ":")
	cmd.Env = []string{"HOME=" + s.home, "PATH=" + path, "TERM=dumb"}
	cmd.Env = append(cmd.Env, s.more...)
	return cmd
}

// run holds that a script ends well and that its output is the page's, if the page
// shows any. Agents decorate what they print: the page's lines have to be among theirs.
func (s *stranger) run(t *testing.T, script, want string) {
	t.Helper()
	cmd := s.command(script)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s\nends with %v\n%s\n%s", script, err, out, stderr.String())
	}
	if got := strings.TrimSpace(string(out)); got != strings.TrimSpace(want) {
		t.Errorf("%s\nprints\n%s\nwant\n%s\non standard error\n%s", script, got, want, stderr.String())
	}
}

// leaveRunning starts a script that goes on until t ends, and waits until the gateway
// that it starts says that it listens.
func (s *stranger) leaveRunning(t *testing.T, script string) {
	t.Helper()
	cmd, log := s.command("exec "+script), &rig.Log{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // as the page says: Ctrl-C
		if err := cmd.Wait(); err != nil {
			t.Errorf("after Ctrl-C %s ends with %v", script, err)
		}
		if t.Failed() {
			t.Logf("the end of its log:\n%s", log.Tail())
		}
	})
	for late := time.Now().Add(rig.Patience); !strings.Contains(log.String(), `"msg":"listening"`); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s\ndoes not listen:\n%s", script, log)
		}
	}
}

var pinned = regexp.MustCompile(`['" ](@?[a-z0-9][\w./-]*)(?:\[[\w,]*\])?(?:==|@v?)([0-9][\w.]*)`)

// checkInstalls holds that what a page installs is pinned, to what setup.sh installs.
func checkInstalls(t *testing.T, script string) {
	t.Helper()
	found := pinned.FindAllStringSubmatch(script, -1)
	if len(found) == 0 {
		t.Errorf("the page installs nothing at a version that could be checked:\n%s", script)
	}
	pins := pins(t)
	for _, m := range found {
		name, version := m[1], m[2]
		switch name { // what it installs here
		case "opencode-ai":
			name = "opencode-linux-x64"
		case "@anthropic-ai/claude-code":
			name += "-linux-x64"
		}
		forms := []string{name + "==" + version + "\n", `"` + name + `": "` + version + `"`, name + " v" + version + "\n"}
		if !slices.ContainsFunc(forms, func(f string) bool { return strings.Contains(pins, f) }) {
			t.Errorf("the page installs %s %s, which is not what the tests run", name, version)
		}
	}
}

// pins are all files that say what setup.sh and Go install.
func pins(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"../go.mod", "../*/python/requirements-*.txt", "../*/node/package.json", "../*/node-*/package.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
	}
	return all.String()
}
