package record

import (
	"errors"
	"io"
	"sort"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// node is a JSON value with its position in the text, so that edits leave all other
// bytes as they are.
type node struct {
	kind       byte // { [ " or 0; t for true, false and null
	start, end int
	text       string // the decoded text of a string
	members    []member
	items      []*node
}

type member struct {
	name       string
	start, end int // of the quoted name
	value      *node
}

// get returns the value of a member, or nil.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for i := range n.members {
		if n.members[i].name == name {
			return n.members[i].value
		}
	}
	return nil
}

// word returns the text of a member that is a string.
func (n *node) word(name string) string {
	if v := n.get(name); v != nil {
		return v.text
	}
	return ""
}

const maxDepth = 200

var errDepth = errors.New("the JSON is nested too deeply")

// parse reads a JSON text.
func parse(s string) (*node, error) {
	d := jsontext.NewDecoder(strings.NewReader(s), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	n, err := readNode(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return n, nil
}

// readNode reads the next value.
func readNode(d *jsontext.Decoder) (*node, error) {
	kind := d.PeekKind()
	if kind != '{' && kind != '[' {
		return readScalar(d)
	}
	if d.StackDepth() > maxDepth {
		return nil, errDepth
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	n := &node{kind: byte(kind), start: int(d.InputOffset()) - 1}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		var name *node
		var err error
		if kind == '{' {
			if name, err = readScalar(d); err != nil {
				return nil, err
			}
		}
		v, err := readNode(d)
		if err != nil {
			return nil, err
		}
		if kind == '{' {
			n.members = append(n.members, member{name.text, name.start, name.end, v})
		} else {
			n.items = append(n.items, v)
		}
	}
	_, err := d.ReadToken()
	n.end = int(d.InputOffset())
	return n, err
}

// readScalar reads a value that is neither an object nor an array, or a name.
func readScalar(d *jsontext.Decoder) (*node, error) {
	raw, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	n := &node{kind: 't', end: int(d.InputOffset())}
	n.start = n.end - len(raw)
	switch raw.Kind() {
	case '"':
		n.kind, n.text = '"', wire.Unquote(raw)
	case '0':
		n.kind = '0'
	}
	return n, nil
}

// edit replaces a part of a text.
type edit struct {
	start, end int
	with       string
}

// apply applies edits, which must be in order and must not overlap. The function that it
// returns maps offsets of the old text to offsets of the new one.
func apply(s string, edits []edit) (string, func(int) int) {
	var b strings.Builder
	at := 0
	shifts := make([]int, len(edits)+1) // by how much the text before each edit has moved
	for i, e := range edits {
		b.WriteString(s[at:e.start])
		b.WriteString(e.with)
		at = e.end
		shifts[i+1] = shifts[i] + len(e.with) - (e.end - e.start)
	}
	b.WriteString(s[at:])
	return b.String(), func(off int) int {
		i := sort.Search(len(edits), func(i int) bool { return edits[i].end > off })
		if i < len(edits) && off > edits[i].start {
			return edits[i].start + shifts[i] + min(off-edits[i].start, len(edits[i].with))
		}
		return off + shifts[i]
	}
}
