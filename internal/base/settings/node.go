package settings

import "strconv"

// Kind is the YAML kind of a node.
type Kind int

// The kinds.
const (
	Null Kind = iota
	Scalar
	Mapping
	Sequence
)

// String returns the kind for messages.
func (k Kind) String() string {
	return [...]string{"empty", "a single value", "a mapping", "a list"}[k]
}

// Node is one value of the file with its position.
type Node struct {
	parent   *Node
	Key      string // its key in a mapping, "[2]" in a list
	Line     int
	Source   string // the variable or flag that set it; empty: the file
	Kind     Kind
	Written  string // a scalar as it stands in the file
	Text     string // the same with ${VAR} expanded
	plain    bool   // a number or a boolean, and not a text
	Children []*Node
	reported bool // one problem was reported; more would be noise
}

// Path returns the name of the node in messages: providers.x.base_url.
func (n *Node) Path() string {
	if n.parent == nil {
		return ""
	}
	return join(n.parent.Path(), n.Key)
}

func join(path, key string) string {
	if path == "" || key == "" || key[0] == '[' {
		return path + key
	}
	return path + "." + key
}

// Child returns the value of a key. It searches linearly, because the mappings of
// settings are short.
func (n *Node) Child(key string) *Node {
	if n == nil {
		return nil
	}
	for _, c := range n.Children {
		if c.Key == key {
			return c
		}
	}
	return nil
}

// Copy copies the node and its descendants to another place in the tree. Each copy
// decrements budget; copying stops at zero.
func (n *Node) Copy(parent *Node, key string, budget *int) *Node {
	if *budget--; *budget < 0 {
		return &Node{parent: parent, Key: key, Line: n.Line}
	}
	c := *n
	c.parent, c.Key = parent, key
	c.Children = make([]*Node, 0, len(n.Children))
	for _, child := range n.Children {
		if *budget < 0 {
			break
		}
		c.Children = append(c.Children, child.Copy(&c, child.Key, budget))
	}
	return &c
}

func indexKey(i int) string { return "[" + strconv.Itoa(i) + "]" }
