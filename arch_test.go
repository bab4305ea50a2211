// The test in this folder holds the layout: which way imports point, and that
// every package says what it is for.
package isogloss

import (
	"cmp"
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

const module = "github.com/isogloss-gateway/isogloss"

// jsonSyntax is the one library that public packages may import.
const jsonSyntax = "github.com/go-json-experiment/json"

// allowed says which of our own folders each row may import. A row is a district of internal/ with all its packages, or
// one package elsewhere. A package may always import its own row and what is below itself. A package without a row fails
// the test: decide where it belongs.
var allowed = map[string][]string{
	"llm":                      {},
	"sse":                      {},
	"protocol":                 {"llm"},
	"protocol/wire":            {},
	"protocol/openai":          {"protocol", "internal/codec", "protocol/wire", "llm"}, // what the two folders below share
	"protocol/openaichat":      {"protocol", "internal/codec", "protocol/openai", "protocol/wire", "llm", "sse"},
	"protocol/openairesponses": {"protocol", "internal/codec", "protocol/openai", "protocol/wire", "llm", "sse"},
	"protocol/anthropic":       {"protocol", "internal/codec", "protocol/wire", "llm", "sse"},
	"protocol/converse":        {"protocol", "internal/codec", "protocol/wire", "llm", "sse"},
	"protocol/gemini":          {"protocol", "internal/codec", "protocol/wire", "llm", "sse"},
	"protocol/rerank":          {"protocol", "internal/codec", "protocol/wire", "llm"},
	"protocol/completions":     {"protocol", "internal/codec", "protocol/openaichat", "protocol/wire", "llm", "sse"},                      // no codec of its own: the older neighbour of openaichat, whose errors it has
	"protocol/misplaced":       {"protocol", "internal/codec", "protocol/openaichat", "protocol/openairesponses", "protocol/wire", "llm"}, // no codec of its own: reads as one folder and writes as the other
	"protocol/all":             {"protocol", "internal/codec", "protocol/anthropic", "protocol/completions", "protocol/converse", "protocol/gemini", "protocol/misplaced", "protocol/openaichat", "protocol/openairesponses", "protocol/rerank"},
	"protocol/protocoltest":    {"conform", "internal/codec", "protocol", "llm", "sse"},
	"conform":                  {"sse"}, // an opinion of its own about the wire
	"conform/record":           {"conform", "protocol/wire", "sse"},
	"chaos":                    {"internal/test"},
	"redteam":                  {"internal/test"},
	"cluster":                  {"internal/test", "sse"},
	"scale":                    {},
	"translate":                {"internal/codec", "protocol", "protocol/all", "protocol/wire", "llm", "sse"},
	"gateway":                  {"internal/app", "internal/config"}, // the gateway itself, for programs that embed it: the one public package that imports more
	"examples/library/chat":    {"gateway"},
	"examples/library/proxy":   {"protocol", "translate"},
	"claims":                   {}, // reads the code as text

	// districts: a row stands for all packages of its folder
	"internal/codec":   {"protocol", "protocol/wire", "llm", "sse"}, // what codecs share, and what the gateway has to know of a dialect
	"internal/base":    {"llm"},
	"internal/money":   {"internal/base", "llm", "internal/codec", "protocol"},
	"internal/targets": {"internal/base", "llm", "internal/codec", "protocol", "protocol/wire"},
	"internal/edge":    {"internal/base", "llm", "internal/codec", "protocol"},
	"internal/people":  {"internal/base", "internal/edge", "internal/money", "llm"},
	"internal/ledger":  {"internal/base", "internal/money", "internal/people", "llm"},
	"internal/request": {"internal/base", "internal/edge", "internal/money", "internal/people", "internal/targets", "llm", "internal/codec", "protocol", "protocol/all", "protocol/openaichat", "protocol/wire", "sse"},
	"internal/config":  {"internal/api", "internal/base", "internal/edge", "internal/ledger", "internal/money", "internal/people", "internal/request", "internal/targets", "llm", "internal/codec", "protocol", "protocol/all"}, // the list of all sections
	"internal/api":     {"internal/base", "internal/edge", "internal/ledger", "internal/money", "internal/people", "internal/request", "internal/targets", "llm", "internal/codec", "protocol"},
	"internal/app":     {"console", "internal/api", "internal/base", "internal/config", "internal/edge", "internal/ledger", "internal/money", "internal/people", "internal/request", "internal/targets", "llm", "internal/codec", "protocol", "protocol/all", "sse"},
	"internal/test":    {"conform"}, // the built binary and conform's view of the wire, no codec

	"console":            {},
	"console/test/scale": {"internal/ledger", "internal/money", "internal/people", "llm"}, // fills a store

	"bench": {"internal/base", "internal/test"}, // measures the binary from outside, as a user has it; the bare proxy has the collector of the gateway

	"cmd/isogloss":       {"internal/api", "internal/app", "internal/base", "internal/config", "internal/edge", "internal/money", "internal/people", "internal/request", "internal/targets", "llm", "conform", "conform/record"},
	"cmd/isogloss/login": {"internal/base"},
}

// public packages are of use without the gateway, so they bring nothing along.
var public = []string{"llm", "sse", "protocol", "translate"}

func TestImportsPointOneWay(t *testing.T) {
	for dir, files := range packages(t) {
		rules, known := allowed[row(dir)]
		if !known {
			t.Errorf("%s: the package is not in the table of this test; decide what it may import", dir)
			continue
		}
		for _, imp := range importsOf(files) {
			own, ours := strings.CutPrefix(imp, module+"/")
			switch {
			case ours && !slices.Contains(rules, row(own)) && row(own) != row(dir) && !strings.HasPrefix(own, dir+"/"):
				t.Errorf("%s imports %s, which points the wrong way; %[1]s may import %[3]v", dir, own, rules)
			case !ours && isPublic(dir) && strings.Contains(imp, ".") && !strings.HasPrefix(imp, jsonSyntax):
				t.Errorf("%s is public and imports %s; public packages import the standard library and %s", dir, imp, jsonSyntax)
			}
		}
	}
}

// TestDependenciesHaveReasons checks that the table of dependencies names those of go.mod.
func TestDependenciesHaveReasons(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/design/003-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`.*`"+`.*?) \|`).FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			names = append(names, name[1])
		}
	}
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1)
	if len(direct) < 20 || len(names) < 20 {
		t.Fatalf("%d modules, %d names", len(direct), len(names))
	}
	for _, m := range direct {
		path := strings.TrimPrefix(m[1], "github.com/")
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(path, n) || strings.HasPrefix(n, path) }) {
			t.Errorf("%s is not in the table of docs/design/003-dependencies.md; give its job and the reason for it", m[1])
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
	have := map[string]bool{}
	for dir := range packages(t) {
		have[row(dir)] = true
	}
	for name := range allowed {
		if !have[name] {
			t.Errorf("the table has %s, but no package belongs to it", name)
		}
	}
}

// row is the name of a package's row in allowed.
func row(dir string) string {
	elements := strings.SplitN(dir, "/", 3)
	if elements[0] == "internal" && len(elements) > 1 {
		return "internal/" + elements[1]
	}
	return dir
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
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "deploy" || d.Name() == "e2e" || d.Name() == "node_modules" || path != "." && strings.HasPrefix(d.Name(), ".")):
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

// codecFiles are the files of every codec folder, so that who knows one folder
// knows all. A file is named for what it holds: types of the wire, requests,
// responses or streams.
var codecFiles = []string{
	"doc.go", "errors.go", "ext.go", "tap.go", "codec_test.go",
	"wire_json.go", "wire_request.go", "wire_response.go",
	"request_blocks.go", "request_calls.go", "request_decode.go", "request_encode.go", "request_media.go",
	"request_reasoning.go", "request_schema.go", "request_tools.go", "request_turns.go",
	"response_decode.go", "response_encode.go",
	"stream_blocks.go", "stream_calls.go", "stream_decode.go", "stream_encode.go", "stops.go",
}

// ownFiles hold what only some protocols have.
var ownFiles = []string{
	"ingress.go",                  // the protocol as clients speak it to the gateway
	"assemble.go",                 // members of a response that is assembled from a stream
	"versions.go",                 // versions of the protocol
	"count.go",                    // an endpoint that counts tokens
	"limits.go",                   // headers for the limits of a caller
	"agent.go",                    // endpoints beside inference for the vendor's own agent
	"embed.go",                    // embeddings
	"stored.go",                   // responses that later requests refer to
	"state.go",                    // what the vendor keeps
	"envelope.go",                 // the forms in which clouds offer the protocol
	"envelope_bedrock.go",         // and that of Amazon Bedrock
	"frames.go",                   // the binary stream in which the vendor sends events
	"path.go",                     // a path that names the model
	"search.go",                   // tools that the model searches for
	"stream_quick.go", "frame.go", // fast paths of the stream decoders
	"unit_tagged.go", "unit_untagged.go", // the unit of usage of the build tag testunit
}

func TestCodecFoldersHaveTheSameFiles(t *testing.T) {
	for _, folder := range []string{"anthropic", "converse", "gemini", "openaichat", "openairesponses"} {
		paths, err := filepath.Glob(filepath.Join("protocol", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range paths {
			name := filepath.Base(p)
			names = append(names, name)
			if !strings.HasSuffix(name, "_test.go") && !slices.Contains(codecFiles, name) && !slices.Contains(ownFiles, name) {
				t.Errorf("%s: the other codec folders have no such file; put what it holds into one of %v", p, codecFiles)
			}
		}
		for _, want := range codecFiles {
			if !slices.Contains(names, want) {
				t.Errorf("protocol/%s has no %s", folder, want)
			}
		}
	}
}

// Packages stay small enough to be read at once, and so does the request path.
func TestPackagesAreSmall(t *testing.T) {
	lines := map[string]int{}
	eachInternalFile(t, func(path string, fset *token.FileSet, file *ast.File) {
		lines[filepath.ToSlash(filepath.Dir(path))] += fset.File(file.FileStart).LineCount()
	})
	limits := map[string]int{"internal/request/relay": 2000}
	for dir, n := range lines {
		if limit := cmp.Or(limits[dir], 3000); n > limit {
			t.Errorf("%s has %d lines without its tests, want at most %d", dir, n, limit)
		}
	}
}

func TestStructsOfRelayAreSmall(t *testing.T) {
	const limit = 15
	eachInternalFile(t, func(path string, _ *token.FileSet, file *ast.File) {
		if filepath.ToSlash(filepath.Dir(path)) != "internal/request/relay" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok && s.Fields.NumFields() > limit {
					t.Errorf("%s: %s has %d fields, want at most %d", path, spec.Name.Name, s.Fields.NumFields(), limit)
				}
			}
			return true
		})
	})
}

// TestProtocolIsSmall checks that package protocol has the interface of a codec, and not what codecs share.
func TestProtocolIsSmall(t *testing.T) {
	const limit = 25
	var names []string
	paths, err := filepath.Glob("protocol/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names = append(names, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names = append(names, s.Name.Name)
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names = append(names, n.Name)
						}
					}
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !ast.IsExported(n) })
	if len(names) > limit || len(names) < 10 {
		t.Errorf("protocol exports %d names, want at most %d; what codecs share belongs into internal/codec: %q", len(names), limit, names)
	}
}
