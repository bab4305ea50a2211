package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow has the members of a workflow file that the test reads.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions    map[string]string
		TimeoutMinutes int `json:"timeout-minutes"`
		Strategy       struct {
			Matrix struct{ Target []string }
		}
		Steps []struct{ Uses, Run string }
	}
}

// TestWorkflows checks that every action is pinned by the digest of a commit with its
// version beside it, that no token has more rights than its job needs, and that every
// make target exists.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`^\s*- uses: [\w-]+(?:/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "uses:") && !pinned.MatchString(strings.TrimRight(line, "\n")) {
				t.Errorf("%s: %q is not pinned", file, line)
			}
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatal(file, err)
		}
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: the permissions are %v", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			if job.TimeoutMinutes == 0 {
				t.Errorf("%s: the job %s has no timeout", file, name)
			}
			commands := job.Strategy.Matrix.Target
			for _, step := range job.Steps {
				if target, found := strings.CutPrefix(step.Run, "make "); found {
					commands = append(commands, target)
				}
			}
			for _, command := range commands {
				target, _, _ := strings.Cut(command, " ")
				if target != "${{" && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(target)+`:`).Match(makefile) {
					t.Errorf("%s: the Makefile has no target %q", file, target)
				}
			}
		}
	}
}
