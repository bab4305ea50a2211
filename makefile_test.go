package isogloss

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
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
