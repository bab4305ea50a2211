package isogloss

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// makefile is what Makefile says of its targets.
type makefile struct {
	phony     []string          // the targets that are no files
	sentences map[string]string // the text behind ## by target
}

func readMakefile(t *testing.T) makefile {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := makefile{sentences: map[string]string{}}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		if names, ok := strings.CutPrefix(line, ".PHONY:"); ok {
			m.phony = append(m.phony, strings.Fields(names)...)
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):[^=\n]*?(?:## (.*))?$`).FindAllStringSubmatch(string(text), -1) {
		m.sentences[row[1]] = strings.TrimSpace(row[2])
	}
	if len(m.phony) < 20 {
		t.Fatalf("only %d targets were found", len(m.phony))
	}
	return m
}

// TestTargetsHaveSentences checks that each target that people run says what it does, and
// that `make help` prints it.
func TestTargetsHaveSentences(t *testing.T) {
	m := readMakefile(t)
	help, err := exec.Command("make", "--no-print-directory", "help").CombinedOutput()
	if err != nil {
		t.Fatalf("make help: %v\n%s", err, help)
	}
	printed := map[string]string{}
	for line := range strings.Lines(string(help)) {
		name, sentence, _ := strings.Cut(strings.TrimSpace(line), " ")
		printed[name] = strings.TrimSpace(sentence)
	}
	for _, target := range m.phony {
		sentence, known := m.sentences[target]
		switch {
		case !known:
			t.Errorf(".PHONY names %s, which is no target of the Makefile", target)
		case sentence == "":
			t.Errorf("make %s has no sentence; write `%s: … ## what it does`", target, target)
		case printed[target] != sentence:
			t.Errorf("make help prints %q for %s, want %q", printed[target], target, sentence)
		}
	}
	for target := range m.sentences {
		if !slices.Contains(m.phony, target) {
			t.Errorf(".PHONY lacks %s, so a file of that name would stop it", target)
		}
	}
	for target := range printed {
		if !slices.Contains(m.phony, target) {
			t.Errorf("make help prints %s, which is no target", target)
		}
	}
}

// TestMakeBuilds checks that `make` without a target builds the gateway.
func TestMakeBuilds(t *testing.T) {
	plan, err := exec.Command("make", "--no-print-directory", "--dry-run").CombinedOutput()
	if err != nil || !strings.Contains(string(plan), "deploy/build.sh") {
		t.Errorf("make would run %s (%v)", plan, err)
	}
}

// TestUnracedTestsRun checks that make test-plain runs the tests of files that the race detector leaves out, and their packages.
func TestUnracedTestsRun(t *testing.T) {
	plan, err := exec.Command("make", "--no-print-directory", "-n", "test-plain").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "e2e", "deploy", "node_modules"}, d.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text := readFile(t, path)
		if !strings.HasPrefix(text, "//go:build !race\n") {
			return nil
		}
		names := regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text, -1)
		for _, name := range append(names, []string{"", "./" + filepath.Dir(path)}) {
			found++
			if !regexp.MustCompile(regexp.QuoteMeta(name[1]) + `\b`).Match(plan) {
				t.Errorf("%s: make test-plain does not run %s", path, name[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 4 {
		t.Errorf("only %d tests and packages were found", found)
	}
}

// TestTimesOfCheck checks that docs/testing.md has the CPU seconds of each target that .ci/run starts, and that their sum fits
// into 25 minutes on two cores. Changing a target's cost means measuring the table again.
func TestTimesOfCheck(t *testing.T) {
	const budget = 2 * 25 * 60 // CPU seconds
	_, section, found := strings.Cut(readFile(t, "docs/testing.md"), "\n### Of `.ci/run`\n")
	if !found {
		t.Fatal("docs/testing.md has no section «Of `.ci/run`»")
	}
	section, _, _ = strings.Cut(section, "\n#")
	measured, sum := []string{"build"}, 0
	for _, list := range []string{"targets", "alone"} {
		names, err := exec.Command("make", "--no-print-directory", list).Output()
		if err != nil {
			t.Fatal(err)
		}
		measured = append(measured, strings.Fields(string(names))...)
	}
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|.* ([0-9,]+) \\|$").FindAllStringSubmatch(section, -1) {
		seconds, err := strconv.Atoi(strings.ReplaceAll(row[2], ",", ""))
		if err != nil {
			t.Error(err)
		}
		rows = append(rows, row[1])
		sum += seconds
	}
	slices.Sort(rows)
	slices.Sort(measured)
	if !slices.Equal(rows, measured) {
		t.Errorf("the table has %v\n.ci/run has %v", rows, measured)
	}
	if sum > budget {
		t.Errorf("the targets take %d seconds of CPU, want at most %d: 25 minutes on two cores", sum, budget)
	}
}
