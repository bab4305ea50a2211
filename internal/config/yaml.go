package config

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

// parseYAML parses the file into a tree of nodes with ${VAR} expanded. It returns nil
// for invalid syntax, because further errors would be misleading.
func parseYAML(data []byte, variables variableReader, ps *Problems) *node {
	if len(data) > maxFile {
		ps.add(nil, "is larger than %d MiB; write fewer models, or a pattern such as \"openai/*\"", maxFile>>20)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if at := invalidUTF8(data); at >= 0 {
		ps.List = append(ps.List, Problem{Line: 1 + bytes.Count(data[:at], []byte("\n")), Text: "is not UTF-8; save the file as UTF-8"})
		return nil
	}
	t := &tree{variables: variables, ps: ps, anchors: map[string]*node{}, budget: maxCopies}
	root := &node{kind: mapping, line: 1}
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
	variables variableReader
	ps        *Problems
	anchors   map[string]*node
	budget    int // values that aliases may still add
	broken    bool
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
func (t *tree) entry(root *node, tokens token.Tokens) {
	if len(root.children) > 0 && nesting(tokens[0]) > 0 {
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
	n := &node{parent: root, key: key.Value, line: key.Position.Line, kind: mapping}
	for _, part := range parts {
		if len(part) > maxPiece {
			t.problem(part[0], "is too long to read in one piece; write fewer values")
			continue
		}
		t.merge(n, t.parse(part))
	}
	t.unique(n)
	root.children = append(root.children, n)
}

// merge adds the entries of a parsed mapping to a node.
func (t *tree) merge(n *node, body ast.Node) {
	switch body := body.(type) {
	case nil:
	case ast.MapNode:
		t.pairs(n, body)
	default:
		t.problem(body.GetToken(), "is not a mapping; write \"key: value\"")
	}
}

// convert converts a node of the library at a place in the tree.
func (t *tree) convert(parent *node, key string, line int, v ast.Node) *node {
	n := &node{parent: parent, key: key, line: line}
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
		n = source.copyTo(parent, key, &t.budget)
		n.line = line
	case *ast.TagNode:
		t.problem(v.Start, "has a tag; write the value without it")
	case ast.MapNode:
		n.kind = mapping
		t.pairs(n, v)
		t.unique(n)
	case *ast.SequenceNode:
		n.kind = sequence
		for i, item := range v.Values {
			n.children = append(n.children, t.convert(n, indexKey(i), lineOf(item, line), item))
		}
	case *ast.LiteralNode:
		t.scalar(n, v.Value.Value)
	case *ast.StringNode:
		t.scalar(n, v.Value)
	case ast.ScalarNode: // a number or a boolean keeps its text
		n.kind, n.written, n.text, n.plain = scalar, v.GetToken().Value, v.GetToken().Value, true
	default:
		t.problem(v.GetToken(), "holds a %s, which is not read here; write a plain value", v.Type())
	}
	return n
}

func (t *tree) scalar(n *node, text string) {
	n.kind, n.written = scalar, text
	expanded, err := t.variables.expand(text)
	if err != nil {
		t.ps.add(n, "%s", err)
	}
	n.text = expanded
}

// pairs adds the entries of a mapping. Its own entries override those merged by "<<".
func (t *tree) pairs(n *node, m ast.MapNode) {
	var merged []*node
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
		n.children = append(n.children, t.convert(n, name, line, pair.Value))
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

func (t *tree) mergeFrom(n, source *node) {
	switch source.kind {
	case mapping:
		have := make(map[string]bool, len(n.children))
		for _, c := range n.children {
			have[c.key] = true
		}
		for _, c := range source.children {
			if !have[c.key] {
				c.parent = n
				n.children = append(n.children, c)
			}
		}
	case sequence:
		for _, c := range source.children {
			t.mergeFrom(n, c)
		}
	default:
		t.ps.add(source, "is %s; write an alias of a mapping, such as \"<<: *defaults\"", source.kind)
	}
}

// unique reports duplicate keys of a mapping and keeps the first.
func (t *tree) unique(n *node) {
	first := make(map[string]int, len(n.children))
	n.children = slices.DeleteFunc(n.children, func(c *node) bool {
		line, twice := first[c.key]
		if twice {
			t.ps.add(c, "is set here and on line %d; keep one", line)
		} else {
			first[c.key] = c.line
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
