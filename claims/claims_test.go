package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const root = ".."

func list(t *testing.T) []claim {
	t.Helper()
	claims, err := readClaims(filepath.Join(root, listPath))
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// TestMutationsApply checks that each mutation finds its place and that the changed file compiles.
func TestMutationsApply(t *testing.T) {
	src, err := readSource(root)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newChecker(t.Context(), root, "./...")
	if err != nil {
		t.Fatal(err)
	}
	mutations := 0
	for _, l := range list(t) {
		for _, m := range l.Mutants {
			found, err := src.apply(m)
			if err == nil {
				err = c.check(found.path, found.text)
			}
			if err != nil {
				t.Errorf("%s, %s: %v", l.Name, m.Name, err)
			}
			mutations++
		}
	}
	t.Logf("%d mutations", mutations)
}

// TestCheck checks that a file that does not compile is noticed.
func TestCheck(t *testing.T) {
	c, err := newChecker(t.Context(), root, "./sse")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "sse", "write.go")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.check(path, string(text)); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	for what, add := range map[string]string{"undefined: none": "\nvar x = none\n", "declared and not used": "\nfunc f() { x := 1 }\n", "expected": "\nfunc {"} {
		if err := c.check(path, string(text)+add); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v, want %q", add, err, what)
		}
	}
}

// TestPromisesPages checks that docs/promises.md and the promises of README.md are what the list says.
func TestPromisesPages(t *testing.T) {
	have, err := os.ReadFile(filepath.Join(root, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page(list(t)) {
		t.Error("docs/promises.md differs from docs/claims.yaml; run go run ./claims -write")
	}
	have, err = os.ReadFile(filepath.Join(root, readmePath))
	if err != nil {
		t.Fatal(err)
	}
	want, err := withPromises(have, list(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("the list of README.md differs from docs/claims.yaml; run go run ./claims -write")
	}
}

// TestTestsExist checks that each test that a claim names exists, that each claim names one, and that the long commands
// are targets of the Makefile.
func TestTestsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]string{} // the test files of a folder
	form := regexp.MustCompile(`^go test (-short )?\./(\S+) -run ([\w/]+|'[\w|/]+')$`)
	for _, c := range list(t) {
		for _, command := range c.Tests {
			found := form.FindStringSubmatch(command)
			if found == nil {
				if !strings.HasPrefix(command, "isogloss ") {
					t.Errorf("%s: %q is not of the form go test ./FOLDER -run 'TestOne|TestTwo', nor a command of isogloss", c.Name, command)
				}
				continue
			}
			dir := found[2]
			if functions[dir] == "" {
				functions[dir] = testFiles(t, filepath.Join(root, dir))
			}
			for name := range strings.SplitSeq(strings.Trim(found[3], "'"), "|") {
				if name, _, _ = strings.Cut(name, "/"); !strings.Contains(functions[dir], "\nfunc "+name+"(t *testing.T)") {
					t.Errorf("%s: there is no %s in %s", c.Name, name, dir)
				}
			}
		}
		for command := range strings.SplitSeq(c.Long, ", ") {
			target, ok := strings.CutPrefix(command, "make ")
			if ok && !strings.Contains(string(makefile), "\n"+target+":") {
				t.Errorf("%s: the Makefile has no %s", c.Name, target)
			}
		}
	}
}

// testFiles returns the text of all tests of a folder.
func testFiles(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestPlay plays mutations of a small module: one that its test catches, one that a test catches that builds a program, one that its
// test does not catch, and ones that cannot be played.
func TestPlay(t *testing.T) {
	dir := smallModule(t)
	src, err := readSource(dir)
	if err != nil {
		t.Fatal(err)
	}
	command := "go test ./sum -run TestAdd"
	claims := []claim{{Name: "small", Mutants: []mutation{
		{Name: "adds wrongly", Func: "Add", Old: "a + b", New: "a * b", Test: command},
		{Name: "adds wrongly in a program", Func: "Add", Old: "a + b", New: "a - b", Test: "go test ./sum -run TestProgram"},
		{Name: "subtracts wrongly", Func: "Sub", Old: "a - b", New: "a + b", Test: command},
		{Name: "has no type", Func: "Add", Old: "a + b", New: "c", Test: command},
		{Name: "is gone", Func: "Mul", Old: "a * b", New: "a", Test: command},
	}}}
	var out bytes.Buffer
	p := &player{root: dir, source: src, timeout: 5 * time.Minute}
	err = playAll(context.Background(), &out, p, claims, regexp.MustCompile(""))
	for _, want := range []string{"passes ", "caught ", "SURVIVED ", "BROKEN ", "there is no function Mul", "undefined: c", "2 passed, 3 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
	if err == nil {
		t.Error("surviving mutations are no error")
	}
	t.Log(out.String())
	out.Reset()
	claims[0].Mutants = []mutation{{Name: "adds wrongly", Func: "Add", Old: "a + b", New: "a * b", Test: "go test ./sum -run TestNone"}}
	if err := playAll(t.Context(), &out, p, claims, regexp.MustCompile("")); err == nil || !strings.Contains(out.String(), "FAILS ") {
		t.Errorf("a command that runs no test: %v:\n%s", err, &out)
	}
}

// smallModule writes the module of TestPlay and returns its folder.
func smallModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module example.org/small\n\ngo 1.26\n",
		"sum/a.go":          "package sum\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n\n// Sub subtracts.\nfunc Sub(a, b int) int { return a - b }\n",
		"sum/a_test.go":     "package sum\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
		"program/main.go":   "package main\n\nimport \"example.org/small/sum\"\n\nfunc main() { print(sum.Add(2, 3)) }\n",
		"sum/built_test.go": builtTest,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const builtTest = `package sum

import (
	"os/exec"
	"testing"
)

func TestProgram(t *testing.T) {
	if out, err := exec.Command("go", "run", "../program").CombinedOutput(); err != nil || string(out) != "5" {
		t.Errorf("%s: %v", out, err)
	}
}
`
