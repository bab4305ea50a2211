package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// node is a JSON value with its place in the text, so that a document can be changed
// in places and be left as it is everywhere else.
type node struct {
	kind       byte // one of { [ " 0 t, the last for true, false and null
	start, end int
	text       string // of a string, read
	members    []member
	items      []*node
}

type member struct {
	name       string
	start, end int // of the quoted name
	value      *node
}

// get is a member's value, or nil.
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

// word is the text of a member that is a string.
func (n *node) word(name string) string {
	if v := n.get(name); v != nil {
		return v.text
	}
	return ""
}

const maxDepth = 200

var errDepth = errors.New("too deep")

// parse reads a whole JSON text.
func parse(s string) (*node, error) {
	if !json.Valid([]byte(s)) {
		return nil, errors.New("not JSON")
	}
	p := &parser{s: s}
	return p.value(0)
}

// parser reads text that is known to be JSON.
type parser struct {
	s  string
	at int
}

func (p *parser) space() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	p.space()
	n := &node{start: p.at}
	var err error
	switch c := p.s[p.at]; c {
	case '{':
		n.kind = '{'
		err = p.object(n, depth)
	case '[':
		n.kind = '['
		err = p.list(n, depth)
	case '"':
		n.kind = '"'
		n.text, err = p.str()
	default:
		n.kind = 't'
		if c == '-' || c >= '0' && c <= '9' {
			n.kind = '0'
		}
		for p.at < len(p.s) && strings.IndexByte(" \t\r\n,]}", p.s[p.at]) < 0 {
			p.at++
		}
	}
	n.end = p.at
	return n, err
}

func (p *parser) object(n *node, depth int) error {
	p.at++
	for {
		p.space()
		switch p.s[p.at] {
		case '}':
			p.at++
			return nil
		case ',':
			p.at++
			continue
		}
		m := member{start: p.at}
		var err error
		if m.name, err = p.str(); err != nil {
			return err
		}
		m.end = p.at
		p.space()
		p.at++ // the colon
		if m.value, err = p.value(depth + 1); err != nil {
			return err
		}
		n.members = append(n.members, m)
	}
}

func (p *parser) list(n *node, depth int) error {
	p.at++
	for {
		p.space()
		switch p.s[p.at] {
		case ']':
			p.at++
			return nil
		case ',':
			p.at++
			continue
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, v)
	}
}

func (p *parser) str() (string, error) {
	start := p.at
	for p.at++; p.s[p.at] != '"'; p.at++ {
		if p.s[p.at] == '\\' {
			p.at++
		}
	}
	p.at++
	var text string
	if err := json.Unmarshal([]byte(p.s[start:p.at]), &text); err != nil {
		return "", fmt.Errorf("a string that cannot be read: %w", err)
	}
	return text, nil
}

// edit is a piece of a text and what takes its place.
type edit struct {
	start, end int
	with       string
}

// apply makes the edits, which are in order and apart. The function that it returns
// says where a place of the old text is in the new one.
func apply(s string, edits []edit) (string, func(int) int) {
	var b strings.Builder
	at := 0
	shifts := make([]int, len(edits)+1) // what is before each edit has moved so far
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

// quote writes a string as JSON, as vendors do.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil { // a string can be written
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
