package conform

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:embed corpus
var corpus embed.FS

// Corpus returns the cases of the package. Cases with errors come last.
func Corpus() ([]*Case, error) {
	dir, err := fs.Sub(corpus, "corpus")
	if err != nil {
		return nil, err
	}
	return Load(dir)
}

// Load reads the .txtar files of a file system, one case each.
func Load(fsys fs.FS) ([]*Case, error) {
	var cases []*Case
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".txtar") {
			return err
		}
		text, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		c, err := ParseCase(strings.TrimSuffix(path, ".txtar"), text)
		if err != nil {
			return err
		}
		cases = append(cases, c)
		return nil
	})
	slices.SortStableFunc(cases, func(a, b *Case) int { return place(a) - place(b) })
	return cases, err
}

func place(c *Case) int {
	n := 0
	if c.expectsErrors() {
		n += 2
	}
	if c.Group() != "situations" {
		n++
	}
	return n
}
