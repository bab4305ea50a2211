package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is a change of the code that a machine made.
type mutant struct {
	file       string // as source names it
	fun        string // as mutations of claims name it, for example (*clientWriter).Write
	line       int
	kind       string // the operator, for example negate
	old        string // the text that changes, on one line
	results    string // of the function, as its text has them
	body       [2]int // offsets of the function's body with its braces
	start, end int    // offsets of the text that changes
	text       string // takes its place
}

// name says which mutant it is. It is the same as long as the file is.
func (m mutant) name() string { return fmt.Sprintf("%s:%d %s: %s", m.file, m.line, m.kind, m.old) }

// finder collects the mutants of a file.
type finder struct {
	path    string
	text    string
	files   *token.FileSet
	reports bool // only calls that report losses
	found   []mutant
	// The function whose statements are read, and the results of the function literal in it.
	decl    *ast.FuncDecl
	results []*ast.FieldList
}

// mutantsOf returns the mutants of a file in the order of its text. Where reports is set, they are the calls that report losses.
// A function that calls recover has none: it works only in the function that is deferred.
func mutantsOf(path, text string, reports bool) ([]mutant, error) {
	f := &finder{path: filepath.ToSlash(path), text: text, files: token.NewFileSet(), reports: reports}
	file, err := parser.ParseFile(f.files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		if decl, ok := d.(*ast.FuncDecl); ok && decl.Body != nil && !recovers(decl) {
			f.decl, f.results = decl, []*ast.FieldList{decl.Type.Results}
			f.walk(decl.Body)
		}
	}
	return f.found, nil
}

func recovers(decl *ast.FuncDecl) bool {
	found := false
	ast.Inspect(decl, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && called(call) == "recover"
		_, literal := n.(*ast.FuncLit)
		return !literal
	})
	return found
}

func (f *finder) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok {
			f.results = append(f.results, lit.Type.Results)
			f.walk(lit.Body)
			f.results = f.results[:len(f.results)-1]
			return false
		}
		f.visit(n)
		return true
	})
}

func (f *finder) visit(n ast.Node) {
	if f.reports {
		if s, ok := n.(*ast.ExprStmt); ok && isReport(s) {
			f.add("drop", s, "")
		}
		return
	}
	switch n := n.(type) {
	case *ast.IfStmt:
		f.add("negate", n.Cond, "!("+f.source(n.Cond)+")")
		f.add("skip", n.Cond, "false && ("+f.source(n.Cond)+")")
	case *ast.CaseClause:
		if len(n.Body) > 0 {
			f.addRange("skip case", n.Body[0].Pos(), n.Body[len(n.Body)-1].End(), "")
		}
	case *ast.BinaryExpr:
		if other, ok := swapped[n.Op]; ok && !isText(n.X) && !isText(n.Y) {
			f.addRange("swap", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
		}
	case *ast.BlockStmt:
		f.drops(n.List)
	case *ast.CommClause:
		f.drops(n.Body)
	case *ast.ReturnStmt:
		f.returns(n)
	}
	if c, ok := n.(*ast.CaseClause); ok {
		f.drops(c.Body)
	}
}

// swapped has the operators that take each other's place.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.LAND: token.LOR, token.LOR: token.LAND,
}

// drops leaves out statements that a function compiles without. A lock stays: without it the test would wait for its end.
func (f *finder) drops(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && !slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock", "panic"}, called(call)) {
				f.add("drop", s, "")
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.add("drop", s, "")
			}
		case *ast.IncDecStmt, *ast.SendStmt:
			f.add("drop", s, "")
		}
	}
}

// returns changes the last result: an error becomes nil, a bool the other one.
func (f *finder) returns(s *ast.ReturnStmt) {
	results := f.results[len(f.results)-1]
	if results == nil || len(s.Results) != results.NumFields() {
		return
	}
	last := s.Results[len(s.Results)-1]
	switch f.source(results.List[len(results.List)-1].Type) {
	case "error", "*llm.Error":
		if f.source(last) != "nil" {
			f.add("no error", last, "nil")
		}
	case "bool":
		f.add("negate", last, "!("+f.source(last)+")")
	}
}

func (f *finder) add(kind string, n ast.Node, text string) { f.addRange(kind, n.Pos(), n.End(), text) }

func (f *finder) addRange(kind string, from, to token.Pos, text string) {
	at := f.files.Position(from)
	start, end := at.Offset, f.files.Position(to).Offset
	old := strings.Join(strings.Fields(f.text[start:end]), " ")
	if kind == "swap" {
		line, _, _ := strings.Cut(f.text[start-at.Column+1:], "\n")
		old = fmt.Sprintf("%s in %s (column %d)", old, strings.TrimSpace(line), at.Column)
	}
	results := ""
	if f.decl.Type.Results != nil {
		results = f.source(f.decl.Type.Results)
	}
	f.found = append(f.found, mutant{
		file: f.path, fun: funcName(f.decl), line: at.Line, kind: kind, old: old, results: results,
		body:  [2]int{f.files.Position(f.decl.Body.Pos()).Offset, f.files.Position(f.decl.Body.End()).Offset},
		start: start, end: end, text: text,
	})
}

func (f *finder) source(n ast.Node) string {
	return f.text[f.files.Position(n.Pos()).Offset:f.files.Position(n.End()).Offset]
}

// isReport tells whether a statement tells the client what a translation loses: Drop, Approximate, Refuse of llm.Report, and
// the codecs' functions of like names.
func isReport(s *ast.ExprStmt) bool {
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	name := strings.ToLower(called(call))
	for _, verb := range []string{"drop", "approximate", "refuse"} {
		if strings.HasPrefix(name, verb) {
			return true
		}
	}
	return false
}

// called returns the name of the function that is called, without its package or receiver.
func called(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

func isText(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING
}
