package settings

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxCopies limits the values that aliases may add, so that a small file cannot expand
// without limit.
const maxCopies = 100_000

// Parse parses the file into a tree of nodes with ${VAR} expanded. It returns nil
// for invalid syntax, because further errors would be misleading.
func (f *File) Parse(data []byte) *Node {
	ps := &f.problems
	if len(data) > MaxFile {
		ps.add(nil, "is larger than %d MiB; write fewer entries, or names with a pattern", MaxFile>>20)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if at := invalidUTF8(data); at >= 0 {
		ps.List = append(ps.List, Problem{Line: 1 + bytes.Count(data[:at], []byte("\n")), Text: "is not UTF-8; save the file as UTF-8"})
		return nil
	}
	t := &tree{file: f, ps: ps, anchors: map[string]*Node{}, budget: maxCopies}
	root := &Node{Kind: Mapping, Line: 1}
	for _, entry := range entries(t.tokens(lexer.Tokenize(shieldVariables(string(data))))) {
		t.entry(root, entry)
	}
	t.unique(root)
	if t.budget < 0 {
		t.problem(nil, "holds aliases that expand to more than %d values; write them out, or use fewer", maxCopies)
	}
	if t.broken {
		return nil
	}
	return root
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// tree converts the library's syntax tree to nodes.
type tree struct {
	file    *File
	ps      *Problems
	anchors map[string]*Node
	budget  int // values that aliases may still add
	broken  bool
}

// problem reports invalid syntax.
func (t *tree) problem(tk *token.Token, format string, args ...any) {
	t.broken = true
	p := Problem{Text: fmt.Sprintf(format, args...)}
	if tk != nil && tk.Position != nil {
		p.Line = tk.Position.Line
	}
	t.ps.List = append(t.ps.List, p)
}

// parse parses tokens with the library. The library's error quotes the lines around the
// mistake, which may contain a key, so only its message is used.
func (t *tree) parse(tokens token.Tokens) ast.Node {
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			t.problem(syntax.GetToken(), "is not YAML: %s", syntax.GetMessage())
		} else {
			t.problem(tokens[0], "is not YAML; look at what stands around this line")
		}
		return nil
	}
	if len(f.Docs) != 1 {
		t.problem(tokens[0], "is more than one YAML document; write one")
		return nil
	}
	return f.Docs[0].Body
}

// entry adds a top-level key and its value to the root. A long block mapping is
// parsed in runs; see runs.
func (t *tree) entry(root *Node, tokens token.Tokens) {
	if len(root.Children) > 0 && nesting(tokens[0]) > 0 {
		t.problem(tokens[0], "begins with a bracket in the column of the keys; write it behind a key")
		return
	}
	key, parts := runs(tokens)
	if key == nil {
		if len(tokens) > maxPiece {
			t.problem(tokens[0], "is too long to read in one piece; write it as an indented block without an anchor")
			return
		}
		t.merge(root, t.parse(tokens))
		return
	}
	n := &Node{parent: root, Key: key.Value, Line: key.Position.Line, Kind: Mapping}
	for _, part := range parts {
		if len(part) > maxPiece {
			t.problem(part[0], "is too long to read in one piece; write fewer values")
			continue
		}
		t.merge(n, t.parse(part))
	}
	t.unique(n)
	root.Children = append(root.Children, n)
}

// merge adds the entries of a parsed mapping to a node.
func (t *tree) merge(n *Node, body ast.Node) {
	switch body := body.(type) {
	case nil:
	case ast.MapNode:
		t.pairs(n, body)
	default:
		t.problem(body.GetToken(), "is not a mapping; write \"key: value\"")
	}
}

// convert converts a node of the library at a place in the tree.
func (t *tree) convert(parent *Node, key string, line int, v ast.Node) *Node {
	n := &Node{parent: parent, Key: key, Line: line}
	switch v := v.(type) {
	case nil, *ast.NullNode:
	case *ast.AnchorNode:
		n = t.convert(parent, key, line, v.Value)
		if v.Name != nil {
			t.anchors[v.Name.GetToken().Value] = n
		}
	case *ast.AliasNode:
		source, ok := t.anchors[v.Value.GetToken().Value]
		if !ok {
			t.problem(v.Start, "names the anchor %q, which does not stand before it", v.Value.GetToken().Value)
			return n
		}
		n = source.Copy(parent, key, &t.budget)
		n.Line = line
	case *ast.TagNode:
		t.problem(v.Start, "has a tag; write the value without it")
	case ast.MapNode:
		n.Kind = Mapping
		t.pairs(n, v)
		t.unique(n)
	case *ast.SequenceNode:
		n.Kind = Sequence
		for i, item := range v.Values {
			n.Children = append(n.Children, t.convert(n, indexKey(i), lineOf(item, line), item))
		}
	case *ast.LiteralNode:
		t.scalar(n, v.Value.Value)
	case *ast.StringNode:
		t.scalar(n, v.Value)
	case ast.ScalarNode: // a number or a boolean keeps its text
		n.Kind, n.Written, n.Text, n.plain = Scalar, v.GetToken().Value, v.GetToken().Value, true
	default:
		t.problem(v.GetToken(), "holds a %s, which is not read here; write a plain value", v.Type())
	}
	return n
}

func (t *tree) scalar(n *Node, text string) {
	n.Kind, n.Written = Scalar, text
	expanded, err := t.file.expand(text)
	if err != nil {
		t.ps.add(n, "%s", err)
	}
	n.Text = expanded
}

// pairs adds the entries of a mapping. Its own entries override those merged by "<<".
func (t *tree) pairs(n *Node, m ast.MapNode) {
	var merged []*Node
	for it := m.MapRange(); it.Next(); {
		pair := it.KeyValue()
		line := pair.Key.GetToken().Position.Line
		if pair.Key.IsMergeKey() {
			merged = append(merged, t.convert(n, "<<", line, pair.Value))
			continue
		}
		name, ok := keyText(pair.Key)
		if !ok {
			t.problem(pair.Key.GetToken(), "has a key that is not plain text; write a name")
			continue
		}
		n.Children = append(n.Children, t.convert(n, name, line, pair.Value))
	}
	for _, source := range merged {
		t.mergeFrom(n, source)
	}
}

func keyText(key ast.MapKeyNode) (string, bool) {
	switch key := key.(type) {
	case *ast.StringNode:
		return key.Value, key.Value != ""
	case *ast.MappingKeyNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "", false
	}
	text := key.GetToken().Value
	return text, text != ""
}

func (t *tree) mergeFrom(n, source *Node) {
	switch source.Kind {
	case Mapping:
		have := make(map[string]bool, len(n.Children))
		for _, c := range n.Children {
			have[c.Key] = true
		}
		for _, c := range source.Children {
			if !have[c.Key] {
				c.parent = n
				n.Children = append(n.Children, c)
			}
		}
	case Sequence:
		for _, c := range source.Children {
			t.mergeFrom(n, c)
		}
	default:
		t.ps.add(source, "is %s; write an alias of a mapping, such as \"<<: *defaults\"", source.Kind)
	}
}

// unique reports duplicate keys of a mapping and keeps the first.
func (t *tree) unique(n *Node) {
	first := make(map[string]int, len(n.Children))
	n.Children = slices.DeleteFunc(n.Children, func(c *Node) bool {
		line, twice := first[c.Key]
		if twice {
			t.ps.add(c, "is set here and on line %d; keep one", line)
		} else {
			first[c.Key] = c.Line
		}
		return twice
	})
}

func lineOf(n ast.Node, otherwise int) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return otherwise
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return m.Key.GetToken().Position.Line
	}
	return n.GetToken().Position.Line
}
