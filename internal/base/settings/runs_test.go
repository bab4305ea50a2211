package settings

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"golang.org/x/tools/txtar"
)

// FuzzPieces checks that a file parsed in pieces equals the file parsed at once, if the
// library can parse it at once.
func FuzzPieces(f *testing.F) {
	files, _ := filepath.Glob("../../config/testdata/*.txtar")
	for _, path := range files {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(archive.Files[0].Data))
	}
	f.Fuzz(func(t *testing.T, data string) {
		if len(data) > 4096 {
			return
		}
		whole, pieces := newTree(), newTree()
		tokens := whole.tokens(lexer.Tokenize(data))
		if whole.broken || len(tokens) == 0 || emptyEntry(tokens) {
			return
		}
		wholeRoot := &Node{Kind: Mapping}
		if parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()); err != nil || len(parsed.Docs) != 1 {
			return
		} else {
			whole.merge(wholeRoot, parsed.Docs[0].Body)
		}
		piecesRoot := &Node{Kind: Mapping}
		for _, entry := range entries(pieces.tokens(lexer.Tokenize(data))) {
			pieces.entry(piecesRoot, entry)
		}
		// The pieces may be rejected although the whole file is not: the library accepts
		// a value in the column of its key, which YAML does not allow.
		if whole.broken || pieces.broken {
			return
		}
		if a, b := outline(wholeRoot), outline(piecesRoot); a != b {
			t.Errorf("whole:\n%s\npieces:\n%s", a, b)
		}
	})
}

// emptyEntry reports whether an entry of a list is empty and is the last one. The library
// then parses a key below the dash as its value, which YAML does not allow. See
// internal/config/testdata/list_empty_entry.txtar.
func emptyEntry(tokens token.Tokens) bool {
	for i, t := range tokens[:len(tokens)-1] {
		next := tokens[i+1]
		if t.Type == token.SequenceEntryType && next.Type != token.SequenceEntryType && next.Position.Line > t.Position.Line && next.Position.Column <= t.Position.Column {
			return true
		}
	}
	return false
}

func newTree() *tree {
	file := NewFile("", func(string) (string, bool) { return "", false })
	return &tree{file: file, ps: &file.problems, anchors: map[string]*Node{}, budget: 1000}
}

// outline returns a tree as text, without the order of merged keys.
func outline(n *Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %q\n", n.Path(), n.Kind, n.Written)
	for _, c := range n.Children {
		b.WriteString(outline(c))
	}
	return b.String()
}
