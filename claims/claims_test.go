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

// TestMutationsApply checks that each mutation finds its place and that the changed files still compile.
// Mutations of one file are tried in one go, unless they change the same function.
func TestMutationsApply(t *testing.T) {
	src, err := readSource(root)
	if err != nil {
		t.Fatal(err)
	}
	var mutants []mutation
	for _, c := range list(t) {
		for _, m := range c.Mutants {
			if _, _, err := src.apply(m); err != nil {
				t.Errorf("%s, %s: %v", c.Name, m.Name, err)
				continue
			}
			mutants = append(mutants, m)
		}
	}
	if testing.Short() || t.Failed() {
		return
	}
	for len(mutants) > 0 {
		mutants = compileSome(t, mutants)
	}
}

// compileSome compiles as many mutations together as have a file to themselves, and returns the others.
func compileSome(t *testing.T, mutants []mutation) (rest []mutation) {
	src, err := readSource(root)
	if err != nil {
		t.Fatal(err)
	}
	changed, packages := map[string]string{}, map[string]bool{}
	for _, m := range mutants {
		path, text, err := src.apply(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, taken := changed[path]; taken {
			rest = append(rest, m)
			continue
		}
		changed[path] = text
		packages["./"+relative(root, filepath.Dir(path))] = true
	}
	overlay, err := writeOverlay(t.TempDir(), changed)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-overlay", overlay}
	for p := range packages {
		args = append(args, p)
	}
	p := &player{root: root, timeout: 10 * time.Minute}
	if out, err := p.command(t.Context(), "go", args...); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return rest
}

// TestPromisesPage checks that docs/promises.md is what the list says.
func TestPromisesPage(t *testing.T) {
	have, err := os.ReadFile(filepath.Join(root, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page(list(t)) {
		t.Error("docs/promises.md differs from docs/claims.yaml; run go run ./claims -write")
	}
}

// TestPlay plays three mutations of a small module: one that its test catches, one that it does not, and one that does not compile.
func TestPlay(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module example.org/small\n\ngo 1.26\n",
		"sum/a.go":      "package sum\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n\n// Sub subtracts.\nfunc Sub(a, b int) int { return a - b }\n",
		"sum/a_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
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
	command := "go test ./sum -run TestAdd"
	claims := []claim{{Name: "small", Mutants: []mutation{
		{Name: "adds wrongly", Func: "Add", Old: "a + b", New: "a * b", Test: command},
		{Name: "subtracts wrongly", Func: "Sub", Old: "a - b", New: "a + b", Test: command},
		{Name: "has no type", Func: "Add", Old: "a + b", New: "c", Test: command},
		{Name: "is gone", Func: "Mul", Old: "a * b", New: "a", Test: command},
	}}}
	var out bytes.Buffer
	p := &player{root: dir, source: src, timeout: 5 * time.Minute}
	err = playAll(context.Background(), &out, p, claims, regexp.MustCompile(""))
	for _, want := range []string{"caught ", "SURVIVED ", "BROKEN ", "there is no function Mul", "undefined: c", "1 passed, 3 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q", want)
		}
	}
	if err == nil {
		t.Error("surviving mutations are no error")
	}
	t.Log(out.String())
}
