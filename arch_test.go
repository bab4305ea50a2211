// The test in this folder holds the layout: which way imports point, and that
// every package says what it is for.
package isogloss

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/isogloss-gateway/isogloss"

// jsonSyntax is the one library that public packages may import.
const jsonSyntax = "github.com/go-json-experiment/json"

// allowed says, for each folder, which of our own folders it may import. A folder
// stands for those below it; a package may always import those below itself. A
// package that is not here fails the test: decide where it belongs.
var allowed = map[string][]string{
	"llm":                      {},
	"sse":                      {},
	"protocol":                 {"llm"},
	"protocol/wire":            {},
	"protocol/openaichat":      {"protocol", "protocol/wire", "llm", "sse"},
	"protocol/openairesponses": {"protocol", "protocol/wire", "llm", "sse"},
	"protocol/anthropic":       {"protocol", "protocol/wire", "llm", "sse"},
	"protocol/gemini":          {"protocol", "protocol/wire", "llm", "sse"},
	"protocol/rerank":          {"protocol", "llm"},
	"protocol/completions":     {"protocol", "protocol/openaichat", "protocol/wire", "llm", "sse"}, // no codec of its own: the older neighbour of openaichat, whose errors it has
	"protocol/all":             {"protocol", "protocol/anthropic", "protocol/gemini", "protocol/openaichat", "protocol/openairesponses"},
	"protocol/loss":            {"protocol", "llm"},
	"protocol/protocoltest":    {"protocol", "llm", "sse"},
	"conform":                  {"sse"}, // an opinion of its own about the wire
	"conform/record":           {"conform", "sse"},
	"chaos":                    {"sse"},                                            // likewise, and those below it
	"cluster":                  {"internal/freeport", "internal/storetest", "sse"}, // likewise

	"internal/handover":     {},
	"internal/secret":       {},
	"internal/upstreamtest": {},
	"internal/provider":     {"internal/secret", "protocol"},
	"internal/balance":      {},
	"internal/health":       {},
	"internal/limit":        {},
	"internal/route":        {"internal/balance", "internal/health", "internal/limit", "internal/provider"},
	"internal/freeport":     {},
	"internal/storetest":    {"internal/freeport"},
	"internal/usage":        {"llm"},
	"internal/quota":        {"internal/usage"},
	"internal/discover":     {"internal/secret"},
	"internal/access":       {"internal/quota", "internal/secret", "llm"},
	"internal/store":        {"internal/access", "internal/quota", "internal/usage", "llm"},
	"internal/admin":        {"internal/access", "internal/quota", "internal/store", "internal/usage", "llm"},
	"internal/observe":      {"llm"},
	"internal/config":       {"internal/provider", "internal/secret", "protocol"},
	"internal/cache":        {},
	"internal/capture":      {},
	"internal/relay": {"internal/access", "internal/balance", "internal/cache", "internal/capture", "internal/quota", "internal/usage", "internal/health", "internal/limit", "internal/observe", "internal/provider", "internal/route",
		"protocol", "protocol/anthropic", "protocol/completions", "protocol/gemini", "protocol/openaichat", "protocol/rerank", "llm", "sse"},
	"internal/app": {"internal/access", "internal/admin", "internal/balance", "internal/cache", "internal/capture", "internal/config", "internal/discover", "internal/quota", "internal/secret", "internal/store", "internal/usage", "internal/limit", "internal/observe", "internal/provider", "internal/relay", "internal/route",
		"protocol", "protocol/all", "llm", "sse"},
	"chaos/rig":     {"internal/freeport"}, // the built binary and the wire, nothing else of ours
	"chaos/restart": {"chaos/rig"},
	"chaos/reload":  {"chaos/rig"},
	"bench":         {"internal/freeport"}, // measures the binary from outside, as a user has it

	"cmd/isogloss": {"internal/access", "internal/app", "internal/capture", "internal/config", "internal/discover", "internal/usage", "internal/handover", "internal/relay", "llm", "conform", "conform/record"},
}

// public packages are of use without the gateway, so they bring nothing along.
var public = []string{"llm", "sse", "protocol"}

func TestImportsPointOneWay(t *testing.T) {
	for dir, files := range packages(t) {
		rules, known := allowed[dir]
		if !known {
			t.Errorf("%s: the package is not in the table of this test; decide what it may import", dir)
			continue
		}
		for _, imp := range importsOf(files) {
			own, ours := strings.CutPrefix(imp, module+"/")
			switch {
			case ours && !slices.Contains(rules, own) && !strings.HasPrefix(own, dir+"/"):
				t.Errorf("%s imports %s, which points the wrong way; it may import %v", dir, own, rules)
			case !ours && isPublic(dir) && strings.Contains(imp, ".") && !strings.HasPrefix(imp, jsonSyntax):
				t.Errorf("%s is public and imports %s; public packages import the standard library and %s", dir, imp, jsonSyntax)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for dir, files := range packages(t) {
		docs := 0
		for _, f := range files {
			if f.Doc != nil {
				docs++
			}
		}
		if docs != 1 {
			t.Errorf("%s has %d package comments, want one", dir, docs)
		}
	}
}

func TestTableHasNoLeftovers(t *testing.T) {
	have := packages(t)
	for dir := range allowed {
		if _, ok := have[dir]; !ok {
			t.Errorf("the table has %s, but there is no such package", dir)
		}
	}
}

func isPublic(dir string) bool {
	if dir == "protocol/protocoltest" { // only tests import it
		return false
	}
	return slices.ContainsFunc(public, func(p string) bool { return dir == p || strings.HasPrefix(dir, p+"/") })
}

// packages parses the packages of this module, without their tests.
func packages(t *testing.T) map[string][]*ast.File {
	t.Helper()
	found := map[string][]*ast.File{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "e2e" || d.Name() == "node_modules" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		found[dir] = append(found[dir], f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no packages were found")
	}
	return found
}

func importsOf(files []*ast.File) []string {
	var all []string
	for _, f := range files {
		for _, imp := range f.Imports {
			if path, err := strconv.Unquote(imp.Path.Value); err == nil && !slices.Contains(all, path) {
				all = append(all, path)
			}
		}
	}
	return all
}
