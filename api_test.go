package isogloss

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAPI compares what the public packages export with the lists in api: another program may use each line. -update
// writes the lists.
func TestAPI(t *testing.T) {
	want := map[string]bool{}
	for dir := range packages(t) {
		if !isPublic(dir) && dir != "gateway" {
			continue
		}
		path := filepath.Join("api", strings.ReplaceAll(dir, "/", "-")+".txt")
		want[path] = true
		var lines []string
		pkg, err := build.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				lines = append(lines, exported(d)...)
			}
		}
		slices.Sort(lines)
		text := strings.Join(lines, "\n") + "\n"
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		old, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		before := strings.Split(strings.TrimSuffix(string(old), "\n"), "\n")
		for _, line := range before {
			if !slices.Contains(lines, line) {
				t.Errorf("%s no longer has\n\t%s\nPrograms that use it break. If that is intended: go test . -run TestAPI -update", dir, line)
			}
		}
		for _, line := range lines {
			if !slices.Contains(before, line) {
				t.Errorf("%s has a new name, which it will have to keep:\n\t%s\nIf that is intended: go test . -run TestAPI -update", dir, line)
			}
		}
	}
	lists, err := filepath.Glob("api/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lists {
		if !want[path] {
			t.Errorf("%s is of no public package", path)
		}
	}
	if len(want) < 10 {
		t.Errorf("%d public packages", len(want))
	}
}

// exported returns a line for each exported name of a declaration: functions, methods, types with their fields and
// methods, constants and variables.
func exported(d ast.Decl) (lines []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() {
			return nil
		}
		receiver := ""
		if d.Recv != nil {
			of := source(d.Recv.List[0].Type)
			if !ast.IsExported(strings.TrimLeft(of, "*")) {
				return nil
			}
			receiver = "(" + of + ") "
		}
		return []string{"func " + receiver + d.Name.Name + strings.TrimPrefix(source(d.Type), "func")}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				lines = append(lines, exportedType(s)...)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Tok, name.Name, source(s.Type))))
					}
				}
			}
		}
	}
	return lines
}

func exportedType(s *ast.TypeSpec) []string {
	if !s.Name.IsExported() {
		return nil
	}
	name := "type " + s.Name.Name
	if s.Assign.IsValid() {
		return []string{name + " = " + source(s.Type)}
	}
	var kind string
	var fields *ast.FieldList
	switch of := s.Type.(type) {
	case *ast.StructType:
		kind, fields = "struct", of.Fields
	case *ast.InterfaceType:
		kind, fields = "interface", of.Methods
	default:
		return []string{name + " " + source(s.Type)}
	}
	lines := []string{name + " " + kind}
	for _, f := range fields.List {
		if len(f.Names) == 0 {
			lines = append(lines, name+", embeds "+source(f.Type))
		}
		for _, n := range f.Names {
			if n.IsExported() {
				lines = append(lines, name+", "+n.Name+" "+source(f.Type))
			}
		}
	}
	return lines
}

// source returns an expression on one line, without its comments.
func source(e ast.Node) string {
	if e == nil || e == ast.Expr(nil) {
		return ""
	}
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), e); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
