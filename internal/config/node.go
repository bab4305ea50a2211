package config

import "strconv"

// kind is what a node of the file is.
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

// node is one value of the file and where it stands.
type node struct {
	parent   *node
	key      string // its key in a mapping, "[2]" in a list
	line     int
	kind     kind
	written  string // a scalar as it stands in the file
	text     string // the same with ${VAR} expanded
	children []*node
	reported bool // one problem was reported; more would be noise
}

// path is how messages name the node: providers.x.base_url.
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

// child finds the value of a key. It is for the mappings of file.go, which are
// short.
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

// copyTo is a copy of the node and all below it at another place in the tree.
// It takes one from budget for each and stops at zero.
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

// at is embedded in every struct of the file: the node it was decoded from, nil
// where the file does not have it.
type at struct{ node *node }

func (a *at) place(n *node) { a.node = n }

// has says whether the file holds the key.
func (a *at) has(key string) bool { return a.node.child(key) != nil }

// writtenAt is a key's value as it stands in the file, for messages, or otherwise
// where the file does not have it.
func (n *node) writtenAt(key, otherwise string) string {
	if c := n.child(key); c != nil {
		return c.written
	}
	return otherwise
}
