package isogloss

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// generated are the pages whose figures come from runs.
var generated = []string{
	"docs/reliability.md", "docs/operations/cluster.md", "docs/operations/failures.md",
	"docs/evidence/compatibility.md", "docs/performance.md", "docs/scale.md",
	"docs/performance/streams-h1-h1.md", "docs/performance/streams-h2-h2.md",
}

// TestGeneratedPagesSayHowTheyWereMade checks that each generated page has the date, the commit, the machine and the command of
// its figures, and that the commit and the command exist.
func TestGeneratedPagesSayHowTheyWereMade(t *testing.T) {
	m := readMakefile(t)
	for _, page := range generated {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range originProblems(m, string(text)) {
			t.Errorf("%s: %s", page, problem)
		}
	}
}

// TestPagesNameCommits checks that the history has the commits that pages name, for example the older version from which one can
// upgrade.
func TestPagesNameCommits(t *testing.T) {
	commit, found := regexp.MustCompile("\\b(?:commit|version) `?([0-9a-f]{8})\\b"), 0
	for page, text := range readTree(t).texts {
		for _, m := range commit.FindAllStringSubmatch(text, -1) {
			if found++; !commitExists(m[1]) {
				t.Errorf("%s: there is no commit %s", page, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d commits were found", found)
	}
}

func TestPagesWithoutAnOriginAreFound(t *testing.T) {
	m := readMakefile(t)
	good := testrig.Origin{When: time.Now(), Commit: "81d97f8c", Machine: "two cores", Command: "make chaos"}
	wrong := map[string]func(*testrig.Origin){
		"future":                func(o *testrig.Origin) { o.When = time.Now().Add(72 * time.Hour) },
		"no target":             func(o *testrig.Origin) { o.Command = "make nothing" },
		"no folder":             func(o *testrig.Origin) { o.Command = "go run ./nothing --short" },
		"no test of that name":  func(o *testrig.Origin) { o.Command = "go test ./chaos -run TestNothing" },
		"neither make nor go":   func(o *testrig.Origin) { o.Command = "by hand" },
		"begin with \"Run on\"": func(o *testrig.Origin) { o.Machine = "" },
	}
	if problems := originProblems(m, good.Line()); len(problems) > 0 {
		t.Errorf("%s%q", good.Line(), problems)
	}
	for want, change := range wrong {
		o := good
		change(&o)
		if problems := strings.Join(originProblems(m, o.Line()), "; "); !strings.Contains(problems, want) {
			t.Errorf("%sgives %q, want %q", o.Line(), problems, want)
		}
	}
	if len(originProblems(m, "# A page\n")) == 0 {
		t.Error("a page without an origin is accepted")
	}
}

// originProblems returns what is wrong with the origins on a page.
func originProblems(m makefile, page string) (problems []string) {
	origins, err := testrig.ReadOrigins(page)
	switch {
	case err != nil:
		return []string{err.Error()}
	case len(origins) == 0:
		return []string{"there is no line as testrig.Origin writes it: date, commit, machine and command"}
	}
	for _, o := range origins {
		if o.When.After(time.Now().Add(24 * time.Hour)) {
			problems = append(problems, "the date is in the future: "+o.Line())
		}
		if commit := strings.Fields(o.Commit)[0]; !commitExists(commit) {
			problems = append(problems, "there is no commit "+commit)
		}
		if problem := commandProblem(m, o.Command); problem != "" {
			problems = append(problems, o.Command+": "+problem)
		}
	}
	return problems
}

// commitExists tells whether the history has a commit. Where there is no complete history, all exist.
func commitExists(commit string) bool {
	if shallow, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output(); err != nil || strings.TrimSpace(string(shallow)) != "false" {
		return true
	}
	return exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run() == nil
}

var testName = regexp.MustCompile(`-run '?\^?(Test\w+)`)

// commandProblem returns why a command does not exist, or "".
func commandProblem(m makefile, command string) string {
	words := strings.Fields(command)
	if target := words[1:]; words[0] == "make" && len(target) > 0 {
		if _, ok := m.sentences[target[0]]; !ok {
			return "there is no target of that name"
		}
		return ""
	}
	if words[0] != "go" {
		return "it is neither make nor go"
	}
	folder := regexp.MustCompile(`\./[\w/-]+`).FindString(command)
	files, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	if folder == "" || len(files) == 0 {
		return "there is no folder of Go files " + folder
	}
	if name := testName.FindStringSubmatch(command); name != nil {
		for _, file := range files {
			if text, _ := os.ReadFile(file); strings.Contains(string(text), "\nfunc "+name[1]) {
				return ""
			}
		}
		return "there is no test of that name"
	}
	return ""
}
