package config

import "strconv"

// kind is the YAML kind of a node.
type kind int

const (
	null kind = iota
	scalar
	mapping
	sequence
)

func (k kind) String() string {
	return [...]string{"empty", "a single value", "a mapping", "a list"}[k]
}

// node is one value of the file with its position.
type node struct {
	parent   *node
	key      string // its key in a mapping, "[2]" in a list
	line     int
	source   string // the variable or flag that set it; empty: the file
	kind     kind
	written  string // a scalar as it stands in the file
	text     string // the same with ${VAR} expanded
	plain    bool   // a number or a boolean, and not a text
	children []*node
	reported bool // one problem was reported; more would be noise
}

// path returns the name of the node in messages: providers.x.base_url.
func (n *node) path() string {
	if n.parent == nil {
		return ""
	}
	return join(n.parent.path(), n.key)
}

func join(path, key string) string {
	if path == "" || key[0] == '[' {
		return path + key
	}
	return path + "." + key
}

// child returns the value of a key. It searches linearly, because the mappings of
// file.go are short.
func (n *node) child(key string) *node {
	if n == nil {
		return nil
	}
	for _, c := range n.children {
		if c.key == key {
			return c
		}
	}
	return nil
}

// copyTo copies the node and its descendants to another place in the tree. Each copy
// decrements budget; copying stops at zero.
func (n *node) copyTo(parent *node, key string, budget *int) *node {
	if *budget--; *budget < 0 {
		return &node{parent: parent, key: key, line: n.line}
	}
	c := *n
	c.parent, c.key = parent, key
	c.children = make([]*node, 0, len(n.children))
	for _, child := range n.children {
		if *budget < 0 {
			break
		}
		c.children = append(c.children, child.copyTo(&c, child.key, budget))
	}
	return &c
}

func indexKey(i int) string { return "[" + strconv.Itoa(i) + "]" }

// at is embedded in every struct of the file. It holds the node that the struct was
// decoded from, or nil if the file does not have it.
type at struct{ node *node }

func (a *at) place(n *node) { a.node = n }

// has reports whether the file sets the key.
func (a *at) has(key string) bool { return a.node.child(key) != nil }

// writtenAt returns the text of a key's value in the file, for messages, or otherwise
// if the file does not set it.
func (n *node) writtenAt(key, otherwise string) string {
	if c := n.child(key); c != nil {
		return c.written
	}
	return otherwise
}
