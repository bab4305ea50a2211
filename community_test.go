package isogloss

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/isogloss-gateway/isogloss/protocol/all"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readYAML(t *testing.T, path string, v any) {
	t.Helper()
	if err := yaml.UnmarshalWithOptions([]byte(readFile(t, path)), v, yaml.Strict()); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// TestDevcontainer checks that the file parses and has the versions that the tree needs.
func TestDevcontainer(t *testing.T) {
	var c struct {
		Image    string
		Features map[string]struct{ Version string }
	}
	if err := json.Unmarshal([]byte(readFile(t, ".devcontainer/devcontainer.json")), &c); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, "go.mod"))[1]
	if !strings.Contains(c.Image, "go:"+want) {
		t.Errorf("the image is %s, and go.mod wants Go %s", c.Image, want)
	}
	for feature, version := range map[string]string{"python:1": "3.11", "node:1": "22"} {
		if got := c.Features["ghcr.io/devcontainers/features/"+feature].Version; got != version {
			t.Errorf("%s is %q, want %s", feature, got, version)
		}
	}
}

// TestEditorconfig checks the tree's files against .editorconfig: tabs where it says so and
// nowhere else, no blanks at line ends, and a line end at the end.
func TestEditorconfig(t *testing.T) {
	rules := readFile(t, ".editorconfig")
	tabs := regexp.MustCompile(`(?m)^\[\{(.*)\}\]\nindent_style = tab$`).FindStringSubmatch(rules)
	if tabs == nil {
		t.Fatal("no section has tabs")
	}
	list, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skip("this is not a clone")
	}
	// What tools write has their form.
	written := regexp.MustCompile(`(^|/)testdata/|\.(txtar|sse|png|svg)$|package-lock\.json$|schema\.json$|^LICENSE$`)
	indented, blanks := regexp.MustCompile(`(?m)^\t.*`), regexp.MustCompile(`(?m)^.*[ \t]$`)
	for _, path := range strings.Fields(string(list)) {
		if written.MatchString(path) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			continue
		}
		hasTabs := slices.ContainsFunc(strings.Split(tabs[1], ","), func(p string) bool {
			byName, _ := filepath.Match(p, filepath.Base(path))
			return byName || p == path
		})
		if filepath.Ext(path) == ".md" || path == "console/src/playground/snippets.ts" {
			hasTabs = true // of Go code in texts
		}
		if line := indented.Find(text); line != nil && !hasTabs {
			t.Errorf("%s is indented with tabs: %s", path, line)
		}
		if line := blanks.Find(text); line != nil && filepath.Ext(path) != ".go" {
			t.Errorf("%s has blanks at the end of a line: %q", path, line)
		}
		if text[len(text)-1] != '\n' {
			t.Errorf("%s does not end with a line end", path)
		}
	}
}

// TestActionsArePinned checks that workflows name every action by a commit and its version,
// and one action by one commit.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(files) < 5 {
		t.Fatalf("there are %d workflows: %v", len(files), err)
	}
	pinned := regexp.MustCompile(`^([\w./-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+$`)
	commits := map[string]string{}
	for _, file := range files {
		var workflow map[string]any
		readYAML(t, file, &workflow)
		if workflow["permissions"] == nil {
			t.Errorf("%s: the workflow has all permissions; name those that it needs", file)
		}
		for _, use := range regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.*)$`).FindAllStringSubmatch(readFile(t, file), -1) {
			m := pinned.FindStringSubmatch(use[1])
			if m == nil {
				t.Errorf("%s: %s is not pinned; write OWNER/NAME@COMMIT # vVERSION", file, use[1])
				continue
			}
			parts := strings.SplitN(m[1], "/", 3)
			repository := strings.Join(parts[:2], "/")
			if c := commits[repository]; c != "" && c != m[2] {
				t.Errorf("%s: %s is pinned to %s here and to %s elsewhere", file, repository, m[2], c)
			}
			commits[repository] = m[2]
		}
	}
}

// TestDependabotSeesEveryModule checks that each file with dependencies has an entry.
func TestDependabotSeesEveryModule(t *testing.T) {
	var d struct {
		Version int
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
			Groups      map[string]struct{ Patterns []string }
		}
	}
	readYAML(t, ".github/dependabot.yml", &d)
	seen := map[string]bool{}
	for _, u := range d.Updates {
		for _, dir := range append(u.Directories, u.Directory) {
			if dir != "" {
				seen[u.Ecosystem+" "+strings.TrimPrefix(dir, "/")] = true
			}
		}
	}
	if !seen["github-actions "] {
		t.Error("the workflows' actions have no entry")
	}
	list, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skip("this is not a clone")
	}
	for _, path := range strings.Fields(string(list)) {
		ecosystem := map[string]string{"go.mod": "gomod", "package.json": "npm"}[filepath.Base(path)]
		if strings.HasPrefix(filepath.Base(path), "requirements-") {
			ecosystem = "pip"
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), ".")
		if ecosystem != "" && !strings.Contains(path, "testdata/") && !seen[ecosystem+" "+dir] {
			t.Errorf("%s has no entry", path)
		}
	}
}

// TestIssueForms checks that the forms parse, and that they offer the dialects that exist.
func TestIssueForms(t *testing.T) {
	type form struct {
		Name, Description string
		Labels            []string
		Body              []struct {
			Type, ID   string
			Attributes struct {
				Label, Description, Placeholder, Render, Value string
				Options                                        []string
			}
			Validations struct{ Required bool }
		}
	}
	var dialects []string
	for _, name := range all.Names() {
		dialects = append(dialects, string(name))
	}
	for file, asked := range map[string][]string{"bug.yml": {"isogloss version", "in place of each secret", "request id", "isogloss explain"}, "dialect.yml": {"isogloss version", "isogloss capture", "isogloss translate"}} {
		var f form
		readYAML(t, filepath.Join(".github/ISSUE_TEMPLATE", file), &f)
		ids, texts := map[string]bool{}, ""
		for _, b := range f.Body {
			texts += b.Attributes.Label + "\n" + b.Attributes.Description + "\n"
			if b.Type == "markdown" {
				continue
			}
			if b.ID == "" || ids[b.ID] || b.Attributes.Label == "" {
				t.Errorf("%s: a field has no id of its own or no label: %q", file, b.ID)
			}
			ids[b.ID] = true
			if b.Type == "dropdown" && !slices.Equal(b.Attributes.Options, dialects) {
				t.Errorf("%s: %s offers %v, and the dialects are %v", file, b.ID, b.Attributes.Options, dialects)
			}
		}
		for _, want := range asked {
			if !regexp.MustCompile("(?i)" + want).MatchString(texts) {
				t.Errorf("%s does not ask for %q", file, want)
			}
		}
	}
	var links map[string]any
	readYAML(t, ".github/ISSUE_TEMPLATE/config.yml", &links)
}

// TestTestingPage checks that docs/testing.md has every target, and that CI runs each night
// exactly what the page says.
func TestTestingPage(t *testing.T) {
	page, targets := readFile(t, "docs/testing.md"), readMakefile(t).phony
	named := regexp.MustCompile("`make ([a-z][a-z0-9-]*)")
	var all []string
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	for _, target := range targets {
		if !slices.Contains(all, target) && target != "build" {
			t.Errorf("the page does not name `make %s`", target)
		}
	}
	_, nightly, _ := strings.Cut(page, "\n## Every night\n")
	nightly, _, _ = strings.Cut(nightly, "\n## ")
	var want []string
	for _, m := range named.FindAllStringSubmatch(nightly, -1) {
		want = append(want, m[1])
	}
	var w struct {
		Jobs map[string]struct {
			Strategy struct{ Matrix struct{ Target []string } }
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, ".github/workflows/nightly.yml")), &w); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, target := range w.Jobs["nightly"].Strategy.Matrix.Target {
		name, _, _ := strings.Cut(target, " ")
		got = append(got, name)
		if !slices.Contains(targets, name) {
			t.Errorf("nightly.yml runs %s, which is no target", name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) < 10 || !slices.Equal(got, want) {
		t.Errorf("nightly.yml runs\n%v\nand the page says\n%v", got, want)
	}
}

// TestTimesAreOfPackages checks that docs/testing-times.txt names packages that exist.
func TestTimesAreOfPackages(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^([\d.]+) `+module+`/?(\S*)$`).FindAllStringSubmatch(readFile(t, "docs/testing-times.txt"), -1)
	if len(rows) < 20 {
		t.Fatalf("only %d packages have a time", len(rows))
	}
	for _, row := range rows {
		if files, err := filepath.Glob(filepath.Join(".", row[2], "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("%s has a time and no tests; make testing-times writes the file anew", row[2])
		}
	}
}

// TestFirstChange makes the change that CONTRIBUTING.md proposes, beside the tree, and runs
// the test that has to fail.
func TestFirstChange(t *testing.T) {
	page := readFile(t, "CONTRIBUTING.md")
	change := regexp.MustCompile(`(?m)^sed -i 's/([^/]+)/([^/]+)/' (\S+)\ngo test \./(\S+) +# FAIL: (\w+)$`).FindStringSubmatch(page)
	if change == nil {
		t.Fatal("the page proposes no change")
	}
	file, err := filepath.Abs(change[3])
	if err != nil {
		t.Fatal(err)
	}
	before := readFile(t, file)
	if strings.Count(before, change[1]) != 1 {
		t.Fatalf("%s does not have %q once", change[3], change[1])
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "changed.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{changed: strings.Replace(before, change[1], change[2], 1), filepath.Join(dir, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "./"+change[4]).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+change[5]+" ") {
		t.Errorf("the change does not fail %s: %v\n%s", change[5], err, out)
	}
}
