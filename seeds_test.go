package isogloss

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The numbers of docs/evidence/seeds.md: requirements from 1 on, resolutions from K1 on.
const (
	requirements = 212
	resolutions  = 67
)

// seed is one row of the page.
type seed struct {
	number string
	tests  []string // "folder TestName" or "folder TestName/subtest"
	note   string
}

func (s seed) undone() bool { return strings.HasPrefix(s.note, "not done: ") }
func (s seed) partly() bool { return strings.HasPrefix(s.note, "in part: ") }

// seeds reads the rows of the page's tables, and the page.
func seeds(t *testing.T) ([]seed, string) {
	t.Helper()
	page, err := os.ReadFile("docs/evidence/seeds.md")
	if err != nil {
		t.Fatal(err)
	}
	number, code := regexp.MustCompile(`^K?\d+$`), regexp.MustCompile("`([^`]+)`")
	var rows []seed
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		s := seed{number: strings.TrimSpace(cells[0])}
		if !number.MatchString(s.number) {
			continue
		}
		if len(cells) != 4 || strings.TrimSpace(cells[1]) == "" {
			t.Errorf("%s: a row has a number, a requirement, tests and a note: %s", s.number, line)
			continue
		}
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			s.tests = append(s.tests, m[1])
		}
		s.note = strings.TrimSpace(cells[3])
		rows = append(rows, s)
	}
	return rows, string(page)
}

func TestSeedsAreComplete(t *testing.T) {
	rows, _ := seeds(t)
	seen := map[string]int{}
	for _, s := range rows {
		seen[s.number]++
	}
	want := make([]string, 0, requirements+resolutions)
	for n := range requirements {
		want = append(want, strconv.Itoa(n+1))
	}
	for n := range resolutions {
		want = append(want, "K"+strconv.Itoa(n+1))
	}
	for _, n := range want {
		if seen[n] != 1 {
			t.Errorf("%s has %d rows, want 1", n, seen[n])
		}
		delete(seen, n)
	}
	for n := range seen {
		t.Errorf("%s is the number of nothing", n)
	}
}

// What is not done is told at the top, with its reason in the row, and all else has
// a test.
func TestSeedsTellWhatIsNotDone(t *testing.T) {
	rows, page := seeds(t)
	var undone, partly []string
	for _, s := range rows {
		switch {
		case s.undone():
			undone = append(undone, s.number)
		case s.partly():
			partly = append(partly, s.number)
		}
		if s.undone() != (len(s.tests) == 0) {
			t.Errorf("%s: a row either names a test or says why it is not done", s.number)
		}
	}
	for title, want := range map[string][]string{"Not done": undone, "Done in part": partly} {
		line := fmt.Sprintf("%s (%d): %s.\n", title, len(want), strings.Join(want, ", "))
		if !strings.Contains(page, "\n"+line) {
			t.Errorf("the page lacks the line\n%s", line)
		}
	}
}

func TestSeedsNameTestsThatExist(t *testing.T) {
	rows, _ := seeds(t)
	folders := map[string]*testFolder{}
	for _, s := range rows {
		for _, name := range s.tests {
			dir, test, _ := strings.Cut(name, " ")
			if folders[dir] == nil {
				folders[dir] = readTests(t, dir)
			}
			if problem := folders[dir].find(test); problem != "" {
				t.Errorf("%s: %s: %s", s.number, name, problem)
			}
		}
	}
}

// testFolder is what the tests of a package are called.
type testFolder struct {
	funcs map[string]map[string]bool // each test, and the strings that its file holds
	cases []string                   // text files in its testdata
}

func readTests(t *testing.T, dir string) *testFolder {
	t.Helper()
	f := &testFolder{funcs: map[string]map[string]bool{}}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no tests: %v", dir, err)
	}
	for _, file := range files {
		f.read(t, file)
	}
	err = filepath.WalkDir(filepath.Join(dir, "testdata"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".txtar") {
			f.cases = append(f.cases, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	return f
}

func (f *testFolder) read(t *testing.T, file string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Error(err)
		return
	}
	texts := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				texts[text] = true
			}
		}
		return true
	})
	for _, d := range parsed.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
			f.funcs[fn.Name.Name] = texts
		}
	}
}

// find says what is wrong with "TestName", "TestName/file.txtar" or
// "TestName/subtest".
func (f *testFolder) find(test string) string {
	name, sub, has := strings.Cut(test, "/")
	texts, ok := f.funcs[name]
	isTest := slices.ContainsFunc([]string{"Test", "Fuzz", "Benchmark"}, func(p string) bool { return strings.HasPrefix(name, p) })
	switch {
	case !ok || !isTest:
		return "there is no such test"
	case !has:
		return ""
	case !strings.HasSuffix(sub, ".txtar"):
		if !texts[sub] {
			return "the test's file does not hold this name"
		}
		return ""
	}
	found := 0
	for _, c := range f.cases {
		if strings.HasSuffix(c, "/"+sub) {
			found++
		}
	}
	if found != 1 {
		return fmt.Sprintf("there are %d such files, want 1", found)
	}
	return ""
}
