package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// goPackage is a package as `go list` describes it.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
}

// checker checks the types of changed packages. It takes other packages from the build cache, so that a change costs
// the parsing of one package.
type checker struct {
	exports map[string]string     // the compiled package, by import path
	folders map[string]*goPackage // by absolute folder
	files   *token.FileSet
	read    types.Importer
	parsed  map[string]*ast.File // of unchanged files
}

// newChecker compiles packages of a module and those that they import, or takes them from the build cache.
func newChecker(ctx context.Context, root, packages string) (*checker, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Standard", packages) //nolint:gosec // a pattern of this program
	cmd.Dir = root
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return nil, fmt.Errorf("go list: %w\n%s", err, failed.Stderr)
	}
	if err != nil {
		return nil, err
	}
	c := &checker{exports: map[string]string{}, folders: map[string]*goPackage{}, files: token.NewFileSet(), parsed: map[string]*ast.File{}}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(goPackage)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		c.exports[p.ImportPath] = p.Export
		if !p.Standard {
			c.folders[p.Dir] = p
		}
	}
	c.read = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) {
		if c.exports[path] == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(c.exports[path])
	})
	return c, nil
}

// check reports what does not compile if a file has another text.
func (c *checker) check(path, text string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	p := c.folders[filepath.Dir(path)]
	if p == nil {
		return fmt.Errorf("%s belongs to no package", path)
	}
	var files []*ast.File
	found := false
	for _, name := range p.GoFiles {
		name = filepath.Join(p.Dir, name)
		f := c.parsed[name]
		switch {
		case name == path:
			found = true
			if f, err = parser.ParseFile(c.files, name, text, parser.SkipObjectResolution); err != nil {
				return err
			}
		case f == nil:
			if f, err = parser.ParseFile(c.files, name, nil, parser.SkipObjectResolution); err != nil {
				return err
			}
			c.parsed[name] = f
		}
		files = append(files, f)
	}
	if !found {
		return fmt.Errorf("%s is not compiled on this system", path)
	}
	var all []error
	conf := types.Config{Importer: c.read, Sizes: types.SizesFor("gc", runtime.GOARCH), Error: func(err error) { all = append(all, err) }}
	_, _ = conf.Check(p.ImportPath, c.files, files, nil) // Error receives its errors
	return errors.Join(all...)
}
