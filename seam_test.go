package isogloss

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// vendorNames matches the names of dialects and of vendors in identifiers, string
// literals and import paths.
var vendorNames = regexp.MustCompile(`(?i)openai|anthropic|gemini|claude|goog|nvext|nvidia|cohere|jina|bedrock|vertex|azure|mistral|vllm|count_tokens|chat_?completions|previous_response_id`)

// mayNameVendors are the folders that are about particular vendors: the configuration,
// the catalogue of providers, the credentials of clouds, the engines that discovery knows, and what codecs share.
var mayNameVendors = []string{"internal/codec", "internal/config", "internal/targets/provider", "internal/targets/cloud", "internal/targets/discover", "internal/edge/agents", "internal/test/testrig", "internal/test/upstreamtest"}

// vendorWords are texts that name a vendor and belong to no dialect, by their file.
var vendorWords = map[string][]string{
	"internal/app/app.go": {"point an OpenAI SDK at "}, // for the person who starts the gateway
	"internal/money/usage/settings.go": { // examples of the reference
		`key:"provider" example:"bedrock-eu"`, `key:"cloud" enum:"aws,google,azure" example:"aws"`,
		`is required; write prices by model, such as "anthropic.claude-*": {input: 3, output: 15}`, `has a "*" that is not its last character; write a name such as "anthropic.claude-*"`,
	},
}

// codecMethods are those by which a codec, a tap or a stream codec could be asked for
// more than its interface has.
var codecMethods = regexp.MustCompile(`^(Encode|Decode|NewTap|NewStream|Stored|Overflow|Report|Whole|Array|Names|Recount)`)

func TestInternalNamesNoDialect(t *testing.T) {
	eachInternalFile(t, func(path string, fset *token.FileSet, file *ast.File) {
		if slices.ContainsFunc(mayNameVendors, func(dir string) bool { return strings.HasPrefix(path, dir+"/") }) {
			return
		}
		check := func(n ast.Node, text string) {
			if strings.HasPrefix(text, "google.golang.org/") || text == "github.com/google/uuid" || slices.Contains(vendorWords[path], text) {
				return
			}
			if name := vendorNames.FindString(text); name != "" {
				t.Errorf("%s: %q names %s; a dialect describes itself in protocol/<name>/ingress.go", fset.Position(n.Pos()), text, name)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				check(n, n.Name)
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					check(n, text)
				}
			}
			return true
		})
	})
}

func TestCodecCapabilitiesAreNotAsserted(t *testing.T) {
	eachInternalFile(t, func(_ string, fset *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			assertion, ok := n.(*ast.TypeAssertExpr)
			if !ok || assertion.Type == nil {
				return true
			}
			switch to := assertion.Type.(type) {
			case *ast.InterfaceType:
				for _, method := range to.Methods.List {
					for _, name := range method.Names {
						if codecMethods.MatchString(name.Name) {
							t.Errorf("%s: a codec's %s is found by type assertion; make it a field of codec.Dialect", fset.Position(n.Pos()), name.Name)
						}
					}
				}
			case *ast.SelectorExpr:
				if pkg, ok := to.X.(*ast.Ident); ok && pkg.Name == "protocol" {
					t.Errorf("%s: an interface of package protocol is found by type assertion; make it a field of codec.Dialect", fset.Position(n.Pos()))
				}
			}
			return true
		})
	})
}

// eachInternalFile parses the files of internal/ that are not tests.
func eachInternalFile(t *testing.T, f func(path string, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	fset, files := token.NewFileSet(), 0
	err := filepath.WalkDir("internal", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		files++
		f(filepath.ToSlash(path), fset, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no files were found")
	}
}
