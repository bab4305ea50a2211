// The test in this folder holds the layout: which way imports point, and that
// every package says what it is for.
package isogloss

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
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

// allowed says, for each folder, which of our own folders it may import. A folder
// stands for those below it; a package may always import those below itself. A
// package that is not here fails the test: decide where it belongs.
var allowed = map[string][]string{
	"llm":                      {},
	"sse":                      {},
	"protocol":                 {"llm"},
	"protocol/wire":            {},
	"protocol/openai":          {"protocol", "protocol/wire", "llm"}, // what the two folders below share
	"protocol/openaichat":      {"protocol", "protocol/openai", "protocol/wire", "llm", "sse"},
	"protocol/openairesponses": {"protocol", "protocol/openai", "protocol/wire", "llm", "sse"},
	"protocol/blockcodec":      {"protocol", "protocol/wire", "llm"}, // what the two folders below share
	"protocol/anthropic":       {"protocol", "protocol/blockcodec", "protocol/wire", "llm", "sse"},
	"protocol/converse":        {"protocol", "protocol/blockcodec", "protocol/wire", "llm", "sse"},
	"protocol/gemini":          {"protocol", "protocol/wire", "llm", "sse"},
	"protocol/rerank":          {"protocol", "protocol/wire", "llm"},
	"protocol/completions":     {"protocol", "protocol/openaichat", "protocol/wire", "llm", "sse"},                      // no codec of its own: the older neighbour of openaichat, whose errors it has
	"protocol/misplaced":       {"protocol", "protocol/openaichat", "protocol/openairesponses", "protocol/wire", "llm"}, // no codec of its own: reads as one folder and writes as the other
	"protocol/all":             {"protocol", "protocol/anthropic", "protocol/completions", "protocol/converse", "protocol/gemini", "protocol/misplaced", "protocol/openaichat", "protocol/openairesponses", "protocol/rerank"},
	"protocol/protocoltest":    {"conform", "protocol", "llm", "sse"},
	"conform":                  {"sse"}, // an opinion of its own about the wire
	"conform/record":           {"conform", "protocol/wire", "sse"},
	"chaos":                    {"internal/test/testrig"},
	"redteam":                  {"internal/test/hostile", "internal/test/storetest", "internal/test/testrig"},
	"cluster":                  {"internal/test/storetest", "internal/test/testrig", "sse"},
	"scale":                    {},
	"claims":                   {}, // reads the code as text

	"internal/edge/agents":               {},
	"internal/app/draft":                 {"internal/config", "internal/targets/discover", "internal/targets/provider"},
	"internal/api/agentapi":              {"internal/people/access", "internal/money/billing", "internal/request/exchange", "internal/edge/ingress", "internal/money/quota", "llm", "protocol"},
	"internal/edge/certs":                {"internal/edge/agents"},
	"internal/edge/framing":              {},
	"internal/request/eventstream":       {"protocol", "sse"},
	"internal/edge/conns":                {},
	"internal/base/crash":                {}, // of the standard library only; whoever starts goroutines may import it
	"internal/edge/handover":             {},
	"internal/base/heap":                 {},
	"internal/test/growth":               {"internal/test/testrig"},
	"internal/test/hostile":              {},
	"internal/base/plain":                {},
	"internal/edge/webpage":              {},
	"internal/edge/welcome":              {"internal/edge/webpage", "protocol"},
	"internal/base/secret":               {},
	"internal/base/safeurl":              {},
	"internal/base/similar":              {},
	"internal/test/upstreamtest":         {"conform", "internal/test/testrig"},
	"internal/test/testrig":              {"conform"}, // the built binary and conform's view of the wire, no codec
	"internal/targets/provider":          {"internal/base/secret", "protocol"},
	"internal/targets/cloud":             {"internal/targets/provider", "internal/base/secret"},
	"internal/targets/balance":           {"protocol/wire"},
	"internal/targets/health":            {},
	"internal/targets/limit":             {},
	"internal/targets/limit/limittest":   {"internal/targets/limit"},
	"internal/targets/params":            {"protocol", "protocol/wire", "llm"},
	"internal/targets/route":             {"internal/targets/balance", "internal/targets/discover/signals", "internal/targets/health", "internal/targets/limit", "internal/targets/params", "internal/targets/provider"},
	"internal/targets/fleet":             {"internal/base/plain", "internal/targets/balance", "internal/targets/discover/signals", "internal/targets/health", "internal/targets/limit", "internal/base/observe", "internal/targets/provider", "internal/targets/route", "llm"},
	"internal/request/models":            {"internal/base/plain", "llm", "internal/targets/fleet", "internal/targets/provider", "internal/targets/route", "internal/base/similar", "internal/money/usage", "protocol"},
	"internal/test/storetest":            {"internal/test/testrig"},
	"internal/money/usage":               {"llm"},
	"internal/money/spool":               {"internal/money/usage", "llm"},
	"internal/ledger/usagelog":           {"internal/money/usage", "llm"},
	"internal/ledger/usagelog/kafka":     {"internal/ledger/usagelog"},
	"internal/ledger/usagelog/nats":      {"internal/ledger/usagelog"},
	"internal/ledger/usagelog/ledger":    {"internal/ledger/store", "internal/ledger/store/db", "internal/money/usage"},
	"internal/ledger/usagelog/consume":   {"internal/ledger/clickhouse", "internal/ledger/store", "internal/money/usage", "internal/ledger/usagelog", "internal/ledger/usagelog/ledger"},
	"internal/app/usagesetup":            {"internal/people/access", "internal/ledger/clickhouse", "internal/config", "internal/base/observe", "internal/money/quota", "internal/ledger/store", "internal/money/usage", "internal/ledger/usagelog", "internal/ledger/usagelog/consume", "internal/ledger/usagelog/kafka", "internal/ledger/usagelog/ledger", "internal/ledger/usagelog/nats"},
	"internal/ledger/clickhouse":         {"internal/base/plain", "internal/ledger/store", "internal/ledger/store/detail", "internal/ledger/store/labels", "internal/money/usage"},
	"internal/base/resp":                 {},
	"internal/base/redis":                {"internal/base/resp"},
	"internal/money/quota":               {"internal/base/redis", "internal/money/usage"},
	"internal/money/quota/budget":        {"internal/money/usage"},
	"internal/money/quota/timing":        {},
	"internal/money/quota/few":           {},
	"internal/money/quota/seed":          {"internal/money/usage"},
	"internal/money/quota/script":        {"internal/base/redis"},
	"internal/money/quota/allowance":     {"internal/money/usage"},
	"internal/money/quota/sliding":       {"internal/money/usage"},
	"internal/targets/discover":          {"internal/targets/limit", "internal/base/secret"},
	"internal/targets/discover/rotation": {"internal/targets/limit"},
	"internal/people/access":             {"internal/edge/agents", "internal/money/quota", "internal/base/secret", "llm"},
	"internal/people/keyfeed":            {"internal/people/access", "internal/base/redis"},
	"internal/people/identity":           {"internal/base/plain", "internal/people/access", "internal/money/quota", "internal/base/safeurl", "llm"},
	"cmd/isogloss/login":                 {"internal/base/plain", "internal/base/safeurl"},
	"internal/api/signin":                {"internal/base/plain", "internal/people/access", "internal/people/identity", "internal/edge/webpage", "internal/base/secret", "internal/ledger/store", "llm"},
	"internal/test/signintest":           {},
	"internal/ledger/store":              {"internal/base/plain", "internal/people/access", "internal/money/quota", "internal/money/quota/budget", "internal/money/usage", "llm"},
	"internal/ledger/store/db":           {},
	"internal/ledger/store/labels":       {"internal/money/usage"},
	"internal/ledger/store/sums":         {"internal/ledger/store/db", "internal/ledger/store/labels", "internal/money/usage", "llm"},
	"internal/ledger/store/detail":       {"internal/money/usage", "llm"},
	"internal/ledger/retention":          {"internal/money/quota/budget", "internal/ledger/store/db", "internal/ledger/store/detail", "internal/ledger/store/labels", "internal/ledger/store/partition", "internal/money/usage"},
	"internal/ledger/alerts":             {"internal/base/secret", "internal/ledger/store"},
	"internal/api/openapi":               {},
	"internal/ledger/nodes":              {"internal/ledger/store"},
	"internal/api/export":                {"internal/ledger/store", "internal/money/usage"},
	"internal/api/admin":                 {"internal/base/plain", "internal/people/access", "internal/api/export", "internal/targets/fleet", "internal/request/models", "internal/ledger/nodes", "internal/api/openapi", "internal/money/quota", "internal/money/quota/budget", "internal/ledger/store", "internal/money/usage", "llm", "internal/request/translation"},
	"internal/api/scim":                  {"internal/people/access", "internal/api/admin", "internal/api/openapi", "internal/ledger/store", "internal/ledger/store/db"},
	"internal/base/observe":              {"internal/base/plain", "llm"},
	"internal/config":                    {"internal/targets/params", "internal/targets/provider", "internal/base/safeurl", "internal/base/secret", "internal/base/similar", "llm", "protocol", "protocol/all", "protocol/wire"},
	"internal/money/billing":             {"internal/base/plain", "internal/money/quota", "internal/money/spool", "internal/money/usage", "llm", "protocol"},
	"internal/request/cache":             {"internal/base/redis"},
	"internal/request/capture":           {"internal/edge/agents", "internal/base/secret"},
	"internal/request/upstream":          {"internal/targets/provider", "llm", "sse"},
	"internal/request/exchange":          {"internal/money/billing", "internal/request/eventstream", "internal/base/observe", "internal/targets/params", "internal/targets/provider", "internal/targets/route", "internal/request/upstream", "internal/money/usage", "protocol", "protocol/openaichat", "protocol/wire", "llm", "sse"},
	"internal/edge/ingress":              {"internal/base/similar", "protocol", "llm"},
	"internal/request/replay":            {"internal/request/cache", "internal/request/exchange", "internal/targets/route", "internal/request/upstream", "llm"},
	"internal/request/lane/translate":    {"internal/request/conversation", "internal/request/exchange", "internal/targets/provider", "internal/request/upstream", "protocol", "protocol/wire", "llm", "sse"},
	"internal/request/lane/verbatim":     {"internal/request/exchange", "internal/request/lane/translate", "internal/targets/provider", "internal/request/upstream", "protocol", "protocol/wire", "llm", "sse"},
	"internal/request/conversation":      {"llm", "protocol"},
	"internal/request/translation":       {"internal/targets/provider", "protocol", "protocol/all", "llm", "sse"},
	"internal/request/relay": {"internal/edge/ingress", "internal/request/models", "internal/edge/welcome", "internal/request/replay", "internal/edge/agents", "internal/request/lane/translate", "internal/request/lane/verbatim", "internal/request/exchange", "internal/request/upstream", "internal/people/access", "internal/targets/balance", "internal/money/billing", "internal/request/cache", "internal/request/capture", "internal/request/conversation", "internal/targets/fleet", "internal/money/quota", "internal/money/usage", "internal/targets/health", "internal/targets/limit", "internal/base/observe", "internal/targets/provider", "internal/targets/route",
		"protocol", "protocol/openaichat", "protocol/wire", "llm", "sse"},
	"console": {},
	"internal/app": {"console", "internal/people/keyfeed", "internal/app/draft", "internal/app/usagesetup", "internal/ledger/nodes", "internal/ledger/retention", "internal/api/openapi", "internal/api/agentapi", "internal/edge/certs", "internal/targets/fleet", "internal/request/models", "internal/people/identity", "internal/api/signin", "internal/edge/conns", "internal/base/similar", "internal/edge/ingress", "internal/request/replay", "internal/request/exchange", "internal/edge/framing", "internal/people/access", "internal/api/admin", "internal/targets/balance", "internal/money/billing", "internal/request/cache", "internal/request/capture", "internal/targets/cloud", "internal/config", "internal/targets/discover", "internal/money/quota", "internal/base/redis", "internal/base/secret", "internal/money/spool", "internal/ledger/store", "internal/money/usage", "internal/targets/limit", "internal/base/observe", "internal/targets/provider", "internal/request/relay", "internal/targets/route", "internal/request/upstream", "internal/ledger/alerts", "internal/money/quota/budget", "internal/api/scim",
		"protocol", "protocol/all", "llm", "sse"},
	"internal/targets/discover/signals": {},

	"internal/ledger/store/partition": {"internal/ledger/store/db"},

	"console/test/scale": {"internal/people/access", "internal/money/quota", "internal/ledger/store", "internal/money/usage", "llm"}, // fills a store

	"bench": {"internal/base/heap", "internal/test/storetest", "internal/test/testrig"}, // measures the binary from outside, as a user has it; the bare proxy has the collector of the gateway

	"cmd/isogloss": {"internal/base/plain", "internal/app/usagesetup", "internal/people/access", "internal/app", "internal/request/capture", "internal/config", "internal/targets/discover", "internal/targets/fleet", "cmd/isogloss/login", "internal/request/models", "internal/money/usage", "internal/edge/handover", "internal/base/heap", "internal/request/translation", "llm", "conform", "conform/record"},
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
			case own == "internal/base/crash" && strings.HasPrefix(dir, "internal/"):
			case ours && !slices.Contains(rules, own) && !strings.HasPrefix(own, dir+"/"):
				t.Errorf("%s imports %s, which points the wrong way; it may import %v", dir, own, rules)
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
	"stream_blocks.go", "stream_calls.go", "stream_decode.go", "stream_encode.go",
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
	"search.go",                   // tools that the model searches for
	"stream_quick.go", "frame.go", // fast paths of the stream decoders
}

func TestCodecFoldersHaveTheSameFiles(t *testing.T) {
	for _, folder := range []string{"anthropic", "gemini", "openaichat", "openairesponses"} {
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
	limits := map[string]int{"internal/request/relay": 2000, "internal/config": math.MaxInt}
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
