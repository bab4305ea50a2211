package loss

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// folders are where the codecs are.
var folders = map[protocol.Name]string{
	protocol.OpenAIChat: "openaichat", protocol.OpenAIResponses: "openairesponses", protocol.Anthropic: "anthropic", protocol.Gemini: "gemini",
}

// others are where reports are made beside those of the codecs, as seen from the
// folder of the codecs.
var others = []string{"../internal/relay", "completions", "rerank"}

// reporters are the functions that take a path, a code and a note, by the place of
// the code among their arguments. Those after the first three are the codecs' own
// around them.
var reporters = map[string]int{"Approximate": 1, "Drop": 1, "Refuse": 1, "dropIf": 2, "drop": 2, "refuse": 2}

// written is a code as it stands in a codec's source. A part of it may be known
// only when it runs: then it begins or ends with *.
type written struct {
	code, where string
}

// writtenCodes reads the codes that a codec can report.
func writtenCodes(t *testing.T, folder string) []written {
	t.Helper()
	var found []written
	fset := token.NewFileSet()
	err := filepath.WalkDir(filepath.Join("..", folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if code := codeIn(n); strings.Trim(code, "*") != "" { // a wrapper hands on what it got
				found = append(found, written{code, fset.Position(n.Pos()).String()})
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("no codes were found in %s", folder)
	}
	return found
}

// codeIn is the code that a call or an llm.Loss has; empty for everything else.
func codeIn(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		if i, ok := reporters[calledName(n)]; ok && len(n.Args) > i {
			return pattern(n.Args[i])
		}
	case *ast.CompositeLit:
		if t, ok := n.Type.(*ast.SelectorExpr); !ok || t.Sel.Name != "Loss" {
			return ""
		}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && pattern(kv.Value) != "*" && kv.Key.(*ast.Ident).Name == "Code" {
				return pattern(kv.Value)
			}
		}
	}
	return ""
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// pattern is an expression's text, with * for what is not known.
func pattern(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.BinaryExpr:
		return strings.ReplaceAll(pattern(e.X)+pattern(e.Y), "**", "*")
	}
	return "*"
}

func matches(pattern, code string) bool {
	before, after, open := strings.Cut(pattern, "*")
	return !open && pattern == code || open && strings.HasPrefix(code, before) && strings.HasSuffix(code, after)
}

func TestEveryCodeThatACodecReportsHasARow(t *testing.T) {
	for target, folder := range folders {
		var rows []string
		for _, r := range Table() {
			if r.Target == target {
				rows = append(rows, r.Codes...)
			}
		}
		for _, w := range writtenCodes(t, folder) {
			general := slices.ContainsFunc(Codes(), func(c Code) bool { return c.General && matches(w.code, c.Name) })
			if !general && !slices.ContainsFunc(rows, func(code string) bool { return matches(w.code, code) }) {
				t.Errorf("%s: no row for %s has the code %s", w.where, target, w.code)
			}
		}
	}
}

func TestEveryCodeOfTheOthersIsKnown(t *testing.T) {
	for _, folder := range others {
		for _, w := range writtenCodes(t, folder) {
			if !slices.ContainsFunc(Codes(), func(c Code) bool { return matches(w.code, c.Name) }) {
				t.Errorf("%s: nothing says what %s means", w.where, w.code)
			}
		}
	}
}

func TestCodesAreThoseThatAreReported(t *testing.T) {
	var known, reported []string
	for _, c := range Codes() {
		if c.Meaning == "" {
			t.Errorf("%s: no meaning", c.Name)
		}
		if slices.Contains(known, c.Name) {
			t.Errorf("%s is there twice", c.Name)
		}
		known = append(known, c.Name)
	}
	if !slices.IsSorted(known) {
		t.Error("the codes are not in order")
	}
	for _, r := range Table() {
		reported = append(reported, r.Codes...)
	}
	for _, code := range sorted(reported) {
		if !slices.Contains(known, code) {
			t.Errorf("%s is in the table, but nothing says what it means", code)
		}
	}
	var sources []written
	for _, folder := range slices.Concat(others, slices.Collect(maps.Values(folders))) {
		sources = append(sources, writtenCodes(t, folder)...)
	}
	for _, code := range known {
		if !slices.ContainsFunc(sources, func(w written) bool { return matches(w.code, code) }) {
			t.Errorf("nobody reports %s any more", code)
		}
	}
}

func TestFindGivesTheRowsOfAField(t *testing.T) {
	rows := Find(Request, "sampling.temperature", protocol.Anthropic)
	if !slices.ContainsFunc(rows, func(r Row) bool {
		return r.Verdict == llm.Approximated && slices.Contains(r.Codes, "temperature.clamped")
	}) {
		t.Errorf("nothing says that temperatures over 1 are clamped: %v", rows)
	}
	if rows := Find(Response, "sampling.temperature", protocol.Anthropic); len(rows) > 0 {
		t.Errorf("an answer has no temperature: %v", rows)
	}
}
