package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// function is a function's place in a file.
type function struct {
	file       string
	start, end int    // offsets in the file
	body       [2]int // those of its braces
	results    string // as its text has them
}

// source is the Go code of the project without its tests.
type source struct {
	text  map[string]string     // by file
	funcs map[string][]function // by name, for example (*clientWriter).Write
}

// readSource parses all files below a folder. Folders that are modules of their own stay out.
func readSource(root string) (*source, error) {
	s := &source{text: map[string]string{}, funcs: map[string][]function{}}
	return s, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root:
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil || d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return s.add(path)
	})
}

func (s *source) add(path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // a file of the project
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s.text[path] = string(text)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			name, at := funcName(f), func(p token.Pos) int { return files.Position(p).Offset }
			found := function{file: path, start: at(f.Pos()), end: at(f.End())}
			if f.Body != nil {
				found.body = [2]int{at(f.Body.Lbrace), at(f.Body.End())}
			}
			if r := f.Type.Results; r != nil {
				found.results = string(text[at(r.Pos()):at(r.End())])
			}
			s.funcs[name] = append(s.funcs[name], found)
		}
	}
	return nil
}

// funcName returns the name as mutations write it: F, T.F or (*T).F, without type parameters.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	typ, pointer := f.Recv.List[0].Type, false
	if star, ok := typ.(*ast.StarExpr); ok {
		typ, pointer = star.X, true
	}
	switch generic := typ.(type) {
	case *ast.IndexExpr:
		typ = generic.X
	case *ast.IndexListExpr:
		typ = generic.X
	}
	name := fmt.Sprint(typ)
	if pointer {
		name = "(*" + name + ")"
	}
	return name + "." + f.Name.Name
}

// applied is a mutation at its place.
type applied struct {
	path, text string // the file, and its new text
	in         function
	start, end int // offsets of what changes in the old text
	with       string
}

// apply finds the place of a mutation.
func (s *source) apply(m mutation) (a applied, err error) {
	for _, f := range s.funcs[m.Func] {
		whole := s.text[f.file]
		body := whole[f.start:f.end]
		switch n := strings.Count(body, m.Old); {
		case n == 0:
			continue
		case n > 1 || a.path != "":
			return applied{}, fmt.Errorf("%s has %q more than once: take more of the line", m.Func, m.Old)
		}
		start := f.start + strings.Index(body, m.Old)
		a = applied{f.file, whole[:start] + m.New + whole[start+len(m.Old):], f, start, start + len(m.Old), m.New}
	}
	switch {
	case len(s.funcs[m.Func]) == 0:
		return a, fmt.Errorf("there is no function %s", m.Func)
	case a.path == "":
		return a, fmt.Errorf("%s has no %q", m.Func, m.Old)
	case a.start <= a.in.body[0]:
		return a, fmt.Errorf("%q is not in the body of %s", m.Old, m.Func)
	}
	return a, nil
}

// mutant returns the mutation as splice takes it.
func (a applied) mutant(root string) mutant {
	return mutant{file: relative(root, a.path), results: a.in.results, body: a.in.body, start: a.start, end: a.end, text: a.with}
}

// recovers reports whether the function recovers from panics: recover has no effect in a function within it.
func (a applied) recovers(s *source) bool {
	return strings.Contains(s.text[a.path][a.in.body[0]:a.in.body[1]], "recover()")
}
