package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const sample = `package sum

func Add(a, b int) int { return a + b }

func Check(n int, tell func(string)) error {
	if n < 10 {
		tell("small")
	}
	switch n {
	case 3:
		n = 4
	}
	return fail(n)
}

func fail(int) error { return nil }

func rescue() { recover() }

func (r *report) use(path string) {
	r.Drop(path, "code", "note")
	r.keep(path)
}
`

// TestMutantsOfAFile checks which mutants the operators make.
func TestMutantsOfAFile(t *testing.T) {
	names := func(reports bool) (list []string) {
		found, err := mutantsOf("sum/a.go", sample, reports)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range found {
			list = append(list, strings.TrimPrefix(m.name(), "sum/a.go:"))
		}
		return list
	}
	want := []string{
		"3 swap: + in func Add(a, b int) int { return a + b } (column 35)",
		"6 negate: n < 10", "6 skip: n < 10", "6 swap: < in if n < 10 { (column 7)", `7 drop: tell("small")`,
		"11 skip case: n = 4", "11 drop: n = 4", "13 no error: fail(n)",
		`21 drop: r.Drop(path, "code", "note")`, "22 drop: r.keep(path)",
	}
	if got := names(false); !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
	if got := names(true); !slices.Equal(got, []string{`21 drop: r.Drop(path, "code", "note")`}) {
		t.Errorf("reports: %q", got)
	}
}

// TestMutants plays all mutants of a small module. One is caught, one is not, one has no end, one does not compile.
func TestMutants(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example.org/small\n\ngo 1.26\n",
		equivalentPath: "- { file: sum/a.go, func: Same, kind: swap, old: '> in if a > b { (column 7)', reason: equal numbers are the same }\n",
		"sum/a.go": `package sum

func Add(a, b int) int { return a + b }

func Text(s string) string { return s + "" + s }

func Same(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func Until(n int) int {
	for n < 3 {
		n++
	}
	return n
}

func Unused(a, b int) int { return a * b }
`,
		"sum/a_test.go": `package sum

import "testing"

func TestAdd(t *testing.T) {
	if Add(2, 3) != 5 || Same(1, 2) != 2 || Until(0) != 3 || Text("a") != "aa" {
		t.Error("wrong")
	}
}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	src, err := readSource(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := &player{root: dir, source: src, timeout: 5 * time.Minute}
	d, err := newDraw(p, []area{{folder: "sum"}}, 100, 1, regexp.MustCompile(`Add|Text|a > b|a \* b|n < 3`))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = playMutants(t.Context(), &out, p, d, 1)
	for _, want := range []string{
		"caught ", "sum/a.go:3 swap: + in func Add(a, b int) int { return a + b } (column 35) (TestAdd)",
		"SURVIVED", "(no test runs Unused)",
		"1 others did not compile",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
	if strings.Contains(out.String(), "swap: >") {
		t.Error("an equivalent mutant was played")
	}
	t.Logf("%v\n%s", err, out.String())
}

// TestEquivalentsExist checks that each mutant in the list is one that the draw would have otherwise.
func TestEquivalentsExist(t *testing.T) {
	list, err := readEquivalents(root)
	if err != nil {
		t.Fatal(err)
	}
	src, err := readSource(root)
	if err != nil {
		t.Fatal(err)
	}
	var all []mutant
	for _, a := range testedAreas {
		found, err := a.population(root, src)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s has %d mutants", a.folder, len(found))
		if len(found) < 20 {
			t.Errorf("%s has %d mutants", a.folder, len(found))
		}
		all = append(all, found...)
	}
	for _, e := range list {
		if !slices.ContainsFunc(all, e.is) {
			t.Errorf("%s: %s in %s of %s is no mutant any more: remove it or write its present text", equivalentPath, e.Old, e.Func, e.File)
		}
	}
}
