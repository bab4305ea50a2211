package isogloss

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// tree holds the names that pages may use.
type tree struct {
	texts map[string]string   // Markdown files by path
	tests map[string][]string // tests, fuzz targets and benchmarks by folder
	files []string            // other files whose comments and texts have numbers of dialects
}

// repository is read once for all tests.
var repository = sync.OnceValues(walkTree)

func readTree(t *testing.T) tree {
	t.Helper()
	r, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.texts) < 50 || len(r.tests) < 50 {
		t.Fatalf("%d pages and %d folders with tests were found", len(r.texts), len(r.tests))
	}
	return r
}

// walkTree reads the repository without what is installed or built.
func walkTree() (tree, error) {
	r := tree{texts: map[string]string{}, tests: map[string][]string{}}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if slices.Contains([]string{".git", "node_modules", "testdata", "bin", "dist"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		path = filepath.ToSlash(path)
		switch ext := filepath.Ext(path); {
		case ext == ".md":
			text, err := os.ReadFile(path)
			r.texts[path] = string(text)
			return err
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			for _, f := range function.FindAllStringSubmatch(string(text), -1) {
				r.tests[filepath.ToSlash(filepath.Dir(path))] = append(r.tests[filepath.ToSlash(filepath.Dir(path))], f[1])
			}
			r.files = append(r.files, path)
			return err
		case slices.Contains([]string{".go", ".ts", ".tsx", ".yaml", ".yml"}, ext) || d.Name() == "Makefile":
			r.files = append(r.files, path)
		}
		return nil
	})
	return r, err
}

// hasTest reports whether a pattern of `go test -run` selects a test below one of the folders.
func (r tree) hasTest(pattern string, below string) bool {
	selects, err := regexp.Compile(pattern)
	if err != nil {
		return false
	}
	for dir, names := range r.tests {
		if (below == "." || dir == below || strings.HasPrefix(dir, below+"/")) && slices.ContainsFunc(names, selects.MatchString) {
			return true
		}
	}
	return false
}

// code matches what a page sets as code: in backticks, or indented, or in a fence.
var code = regexp.MustCompile("(?s)(?:^|\n)```.*?\n```|`[^`\n]+`|(?m:^ {4}.*$)")

// TestPagesNameScenarios checks that a page names what a reader finds: a scenario such as `r8` has a row in the pages of
// the cluster tests or of the failing upstreams, and nothing has the number of a promise that no page lists.
func TestPagesNameScenarios(t *testing.T) {
	pages := readTree(t).texts
	known, found := map[string]bool{}, 0
	for _, page := range []string{"docs/operations/cluster.md", "docs/reliability.md"} {
		for _, m := range regexp.MustCompile("(?m)^(?:\\| |#+ )`?(r\\d{1,2})`?\\b").FindAllStringSubmatch(pages[page], -1) {
			known[m[1]] = true
		}
	}
	for page, text := range pages {
		for _, m := range regexp.MustCompile("`(r\\d{1,2})`").FindAllStringSubmatch(text, -1) {
			if found++; !known[m[1]] {
				t.Errorf("%s names the scenario %s, which has no row", page, m[1])
			}
		}
		if m := regexp.MustCompile(`\bR\d{1,2}\b`).FindString(text); m != "" {
			t.Errorf("%s names %s, which no page explains", page, m)
		}
	}
	if found < 20 {
		t.Errorf("only %d names were found", found)
	}
}

// TestInvariants checks that docs/conform.md explains each invariant that the conformance runner names.
func TestInvariants(t *testing.T) {
	r := readTree(t)
	id, found := regexp.MustCompile(`\bINV-\d+\b`), 0
	for _, file := range r.files {
		if !strings.HasPrefix(file, "conform/") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range id.FindAllString(string(text), -1) {
			if found++; !strings.Contains(r.texts["docs/conform.md"], "| "+name+" |") {
				t.Errorf("%s names %s, which docs/conform.md does not explain", file, name)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d names were found", found)
	}
}

// TestPagesNameTargets checks that each `make TARGET` of the pages is in the Makefile.
func TestPagesNameTargets(t *testing.T) {
	targets, found := readMakefile(t).phony, 0
	call := regexp.MustCompile("(?m)(?:^|[`$&;(] ?| {4})make((?: [a-z][a-z0-9-]*)+)")
	for page, text := range readTree(t).texts {
		for _, span := range code.FindAllString(text, -1) {
			for _, m := range call.FindAllStringSubmatch(span, -1) {
				for _, target := range strings.Fields(m[1]) {
					found++
					if !slices.Contains(targets, target) {
						t.Errorf("%s: there is no `make %s`", page, target)
					}
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d targets were found", found)
	}
}

// TestPagesNameTests checks that the tests which pages name or select with -run exist.
func TestPagesNameTests(t *testing.T) {
	r, found := readTree(t), 0
	name := regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)`)
	selected := regexp.MustCompile(`go test(?: -\S+)*(?: \./(\S*))?[^\n` + "`" + `]*? -run '?([\w|/^$]+)`)
	for page, text := range r.texts {
		for _, span := range code.FindAllString(text, -1) {
			for _, m := range selected.FindAllStringSubmatch(span, -1) {
				pattern, _, _ := strings.Cut(m[2], "/")
				below := strings.TrimSuffix(strings.TrimSuffix(m[1], "..."), "/")
				for _, one := range strings.Split(pattern, "|") {
					found++
					if one != "^$" && !r.hasTest(one, filepath.ToSlash(filepath.Join(".", below))) && !r.hasTest(one, filepath.ToSlash(filepath.Join(filepath.Dir(page), below))) {
						t.Errorf("%s: no test in ./%s is selected by -run %s", page, below, one)
					}
				}
			}
			for _, m := range name.FindAllStringSubmatch(span, -1) {
				found++
				if !r.hasTest("^"+m[1], ".") {
					t.Errorf("%s: there is no %s", page, m[1])
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d names were found", found)
	}
}

// TestPagesNameFiles checks that files and folders of the repository which pages name exist. A
// name counts as one if its first part is a folder at the top.
func TestPagesNameFiles(t *testing.T) {
	top, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile("`(?:\\./)?([a-z0-9]+/[A-Za-z0-9_./-]*[A-Za-z0-9/])`")
	placeholder := regexp.MustCompile(`/[A-Z]+(/|$)`) // conform/corpus/GROUP/
	symbol := regexp.MustCompile(`\.[A-Za-z]\w*$`)
	built := []string{"console/shots", "console/dist"}
	found := 0
	for page, text := range readTree(t).texts {
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			first, _, _ := strings.Cut(m[1], "/")
			if slices.Contains(built, m[1]) || placeholder.MatchString(m[1]) || !slices.ContainsFunc(top, func(e fs.DirEntry) bool { return e.IsDir() && e.Name() == first }) {
				continue
			}
			found++
			// The tables of districts leave out internal.
			places := []string{m[1], filepath.Join(filepath.Dir(page), m[1]), filepath.Join("internal", m[1]), symbol.ReplaceAllString(m[1], "")}
			if !slices.ContainsFunc(places, func(p string) bool { _, err := os.Stat(p); return err == nil }) {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d names were found", found)
	}
}

// TestDesignsHaveTheirNumbers checks that a link to a design note has the number of the note as its text.
func TestDesignsHaveTheirNumbers(t *testing.T) {
	link, found := regexp.MustCompile(`\[(?:design |design note )?(\d{3})\]\([^)]*?(\d{3})-[a-z0-9-]+\.md`), 0
	for page, text := range readTree(t).texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if found++; m[1] != m[2] {
				t.Errorf("%s: %s) is called %s", page, m[0], m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links were found", found)
	}
}

// numbers are those that texts write as words.
var numbers = []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
	"fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"}

// dialectNames match the names by which texts call each dialect.
var dialectNames = regexp.MustCompile(`\b(chat|responses|messages|gemini|converse)\b`)

// TestTextsCountDialects compares the numbers of dialects and of their pairs with the code.
// A text that is about fewer names them after the number: "four dialects (Chat, …)".
func TestTextsCountDialects(t *testing.T) {
	r, found := readTree(t), 0
	have := map[string]int{"dialects": len(all.Names()), "pairs": len(all.Names()) * len(all.Names())}
	count := regexp.MustCompile(`\b(\w+) (?:dialect )?(dialects|pairs)\b`)
	texts := maps.Clone(r.texts)
	for _, file := range r.files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(text)
	}
	for file, text := range texts {
		text = strings.ToLower(text)
		if file == "names_test.go" || !strings.Contains(text, " dialects") && !strings.Contains(text, " pairs") {
			continue
		}
		for _, m := range count.FindAllStringSubmatchIndex(text, -1) {
			word, what := text[m[2]:m[3]], text[m[4]:m[5]]
			n := slices.Index(numbers, word)
			if digits, err := strconv.Atoi(word); err == nil {
				n = digits
			}
			if n < 3 || what == "pairs" && n != 16 && n != 25 { // pairs of something else
				continue
			}
			found++
			line := 1 + strings.Count(text[:m[0]], "\n")
			if n != have[what] && !namesDialects(text[m[1]:], n, what) {
				t.Errorf("%s:%d: %q, but there are %d %s; say which", file, line, fmt.Sprint(word, " ", what), have[what], what)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d numbers were found", found)
	}
}

// namesDialects reports whether a text goes on with the names of n dialects, or of the
// dialects of n pairs.
func namesDialects(rest string, n int, what string) bool {
	if what == "pairs" {
		n = 4
	}
	seen := map[string]bool{}
	for _, name := range dialectNames.FindAllString(rest[:min(len(rest), 160)], -1) {
		seen[name] = true
	}
	return len(seen) >= n
}
