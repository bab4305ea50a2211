package all_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// reporters maps the name of a function that reports a loss to the position of the code
// among its arguments. The first three are methods of llm.Report, the others are helpers
// of the codecs.
var reporters = map[string]int{"Approximate": 1, "Drop": 1, "Refuse": 1, "DropIf": 3, "dropIf": 2, "drop": 2, "refuse": 2}

// The sections of docs/protocols/codes.md.
const (
	fieldCodes = "Codes of fields" // codes that rows of the loss tables have
	otherCodes = "Other codes"     // codes about invalid values or about something that is not a field
)

// lossCodes reads the codes of one section of codes.md.
func lossCodes(t *testing.T, section string) []string {
	t.Helper()
	var codes []string
	for heading, cells := range tableRows(t, "codes.md") {
		if heading != section {
			continue
		}
		if len(cells) != 2 || cells[1] == "" {
			t.Errorf("codes.md: the row %v must have a code and a meaning", cells)
		}
		codes = append(codes, strings.Trim(cells[0], "`"))
	}
	if !slices.Equal(codes, sorted(codes)) || len(codes) == 0 {
		t.Errorf("codes.md: %s: the codes are not in order, or a code is there twice", section)
	}
	return codes
}

// tableCodes returns the codes in the loss table of a protocol.
func tableCodes(t *testing.T, target protocol.Name) []string {
	t.Helper()
	var codes []string
	for _, r := range lossTable(t, target) {
		codes = append(codes, r.codes...)
	}
	return codes
}

// codecFolder returns the folder of a codec below protocol.
func codecFolder(codec protocol.Translator) string {
	return path.Base(reflect.TypeOf(codec).PkgPath())
}

// written is a code in the source of a codec. A "*" at its start or end stands for a part
// that is only known at run time.
type written struct {
	code, where string
}

// writtenCodes returns the codes in the source files below a folder, except those in the
// folders to skip.
func writtenCodes(t *testing.T, folder string, skip ...string) []written {
	t.Helper()
	var found []written
	fset := token.NewFileSet()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && slices.Contains(skip, d.Name()) {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if code := codeIn(n); strings.Trim(code, "*") != "" { // a wrapper passes on its own argument
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

// codeIn returns the code in a call, in an llm.Loss or in the Loss of a header rule, or ""
// for any other node.
func codeIn(n ast.Node) string {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Loss" {
			return pattern(n.Value)
		}
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

// pattern returns the value of a string expression, with "*" for the unknown parts.
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

func TestCodecsReportCodesOfTheirLossTable(t *testing.T) {
	other := lossCodes(t, otherCodes)
	for _, codec := range all.Codecs() {
		known := slices.Concat(other, tableCodes(t, codec.Name()))
		for _, w := range writtenCodes(t, "../"+codecFolder(codec)) {
			if !slices.ContainsFunc(known, func(code string) bool { return matches(w.code, code) }) {
				t.Errorf("%s: loss-%s.md has no row with the code %s", w.where, codec.Name(), w.code)
			}
		}
	}
}

func TestCodesPageListsEveryCode(t *testing.T) {
	inTables, other := lossCodes(t, fieldCodes), lossCodes(t, otherCodes)
	var folders, used []string
	for _, codec := range all.Codecs() {
		folders = append(folders, codecFolder(codec))
		used = append(used, tableCodes(t, codec.Name())...)
	}
	if used = sorted(used); !slices.Equal(used, inTables) {
		t.Errorf("codes.md lists %v, the loss tables have %v", inTables, used)
	}
	known := slices.Concat(inTables, other)
	inProtocol := writtenCodes(t, "..")
	outside := slices.Concat(writtenCodes(t, "..", folders...), writtenCodes(t, "../../internal"))
	for _, w := range outside {
		if !slices.ContainsFunc(known, func(code string) bool { return matches(w.code, code) }) {
			t.Errorf("%s: codes.md does not explain %s", w.where, w.code)
		}
	}
	for _, code := range known {
		if !slices.ContainsFunc(slices.Concat(outside, inProtocol), func(w written) bool { return matches(w.code, code) }) {
			t.Errorf("no code reports %s, which codes.md lists", code)
		}
	}
}
