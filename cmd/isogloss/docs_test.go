package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
)

const root = "../.."

// pages are those for readers of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "CHANGELOG.md")}
	for _, pattern := range []string{"docs/*.md", "docs/design/*.md", "docs/operations/*.md", "docs/clients/*.md", "docs/protocols/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("there are no %s: %v", pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLinks follows the links of every page, down to the heading.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)
	followed := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") {
				continue
			}
			followed++
			path, heading, _ := strings.Cut(target, "#")
			to := page
			if path != "" {
				to = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", page, target, err)
			} else if heading != "" && !hasHeading(read(t, to), heading) {
				t.Errorf("%s links to %s, which has no such heading", page, target)
			}
		}
	}
	if followed < 10 {
		t.Errorf("only %d links were followed", followed)
	}
}

// hasHeading knows how GitHub makes an anchor of a heading.
func hasHeading(page, anchor string) bool {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(name, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestShownBy finds the test behind each claim of the first page.
func TestShownBy(t *testing.T) {
	claims := regexp.MustCompile("`go test \\./(\\S+) -run (\\w+)`").FindAllStringSubmatch(read(t, filepath.Join(root, "README.md")), -1)
	if len(claims) < 5 {
		t.Fatalf("only %d claims name a test", len(claims))
	}
	for _, c := range claims {
		files, err := filepath.Glob(filepath.Join(root, c[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			found = found || strings.Contains(read(t, f), "\nfunc "+c[2]+"(")
		}
		if !found {
			t.Errorf("there is no %s in %s", c[2], c[1])
		}
	}
}

// TestExamples checks each example, with a value for every variable that it needs.
func TestExamples(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(root, "examples/*.yaml"))
	if err != nil || len(examples) < 4 {
		t.Fatalf("there are %d examples: %v", len(examples), err)
	}
	for _, path := range examples {
		file, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		checkConfiguration(t, file, read(t, file))
	}
}

// TestFileOfFirstPage checks the file that the first page shows.
func TestFileOfFirstPage(t *testing.T) {
	found := false
	for _, b := range fences(read(t, filepath.Join(root, "README.md"))) {
		if b.info == "yaml" {
			found = true
			checkConfiguration(t, writeFile(t, "isogloss.yaml", b.text), b.text)
		}
	}
	if !found {
		t.Error("there is none")
	}
}

func checkConfiguration(t *testing.T, file, text string) {
	t.Helper()
	var env []string
	for i, m := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(text, -1) {
		env = append(env, fmt.Sprintf("%s=a-key-of-some-length-%d", m[1], i))
	}
	if r := command(t, t.TempDir(), env, "check", "-c", file); r.code != 0 || !strings.HasPrefix(r.stdout, "ok: ") {
		t.Errorf("%s: exit code %d, %s", filepath.Base(file), r.code, r.stderr)
	}
}

// TestBounds compares the page's table of bounds with the configuration's defaults
// and with the constants of the code.
func TestBounds(t *testing.T) {
	d := config.Default()
	defaults := map[string]int64{
		"limits.body": d.Limits.Body, "limits.event": d.Limits.Event, "limits.answer": d.Limits.Answer, "limits.conversations": d.Limits.Conversations,
		"timeouts.connect": int64(d.Timeouts.Connect), "timeouts.first_byte": int64(d.Timeouts.FirstByte),
		"timeouts.idle": int64(d.Timeouts.Idle), "timeouts.total": int64(d.Timeouts.Total),
	}
	rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| (\\w+) \\| `([^`]+)` \\|$").FindAllStringSubmatch(read(t, filepath.Join(root, "docs/security.md")), -1)
	if len(rows) < 15 {
		t.Fatalf("only %d rows were found", len(rows))
	}
	for _, row := range rows {
		what, bound, where := row[1], row[2], row[3]
		want, isDefault := defaults[where]
		if !isDefault {
			want = constantOf(t, where)
		}
		if got := quantity(t, bound); got != want {
			t.Errorf("%s: the page says %s, and %s is %d", what, bound, where, want)
		}
	}
}

// quantity reads 64MiB, 30s or 512.
func quantity(t *testing.T, s string) int64 {
	t.Helper()
	for suffix, unit := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "": 1} {
		if n, err := strconv.ParseInt(strings.TrimSuffix(s, suffix), 10, 64); err == nil && strings.HasSuffix(s, suffix) {
			return n * unit
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return int64(d)
}

// constantOf finds a constant, written as internal/relay.maxDepth, in the source.
func constantOf(t *testing.T, name string) int64 {
	t.Helper()
	dir, name, _ := strings.Cut(name, ".")
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, path := range files {
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, s := range g.Specs {
					if v := s.(*ast.ValueSpec); v.Names[0].Name == name {
						return evaluate(t, fset, v.Values[0])
					}
				}
			}
		}
	}
	t.Fatalf("%s has no constant %s", dir, name)
	return 0
}

// evaluate knows the units of package time; all else is arithmetic.
func evaluate(t *testing.T, fset *token.FileSet, x ast.Expr) int64 {
	t.Helper()
	var b strings.Builder
	if err := printer.Fprint(&b, fset, x); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("time.Millisecond", "1_000_000", "time.Second", "1_000_000_000", "time.Minute", "60_000_000_000", "time.Hour", "3_600_000_000_000").Replace(b.String())
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := constant.Int64Val(v.Value)
	if !ok {
		t.Fatalf("%s is no whole number", text)
	}
	return n
}
