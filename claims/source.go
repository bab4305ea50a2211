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
	start, end int // offsets in the file
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
			name := funcName(f)
			s.funcs[name] = append(s.funcs[name], function{path, files.Position(f.Pos()).Offset, files.Position(f.End()).Offset})
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

// apply returns the file that a mutation changes, and its new text.
func (s *source) apply(m mutation) (path, text string, err error) {
	for _, f := range s.funcs[m.Func] {
		whole := s.text[f.file]
		body := whole[f.start:f.end]
		switch n := strings.Count(body, m.Old); {
		case n == 0:
			continue
		case n > 1 || path != "":
			return "", "", fmt.Errorf("%s has %q more than once: take more of the line", m.Func, m.Old)
		}
		path, text = f.file, whole[:f.start]+strings.Replace(body, m.Old, m.New, 1)+whole[f.end:]
	}
	switch {
	case len(s.funcs[m.Func]) == 0:
		return "", "", fmt.Errorf("there is no function %s", m.Func)
	case path == "":
		return "", "", fmt.Errorf("%s has no %q", m.Func, m.Old)
	}
	return path, text, nil
}
