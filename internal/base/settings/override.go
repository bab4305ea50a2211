package settings

import "strings"

// Override is a setting from outside the file: an environment variable or a flag.
type Override struct {
	Source string // its name in messages, such as ISOGLOSS_LISTEN or --listen
	Key    string // the setting, such as log.level
	Value  string
}

// Override replaces a setting in the tree.
func (n *Node) Override(o Override) {
	key, rest, nested := strings.Cut(o.Key, ".")
	c := n.Child(key)
	if c == nil {
		c = &Node{parent: n, Key: key, Line: n.Line, Source: o.Source}
		n.Children = append(n.Children, c)
	}
	if nested {
		if c.Kind == Null {
			c.Kind = Mapping
		}
		c.Override(Override{Source: o.Source, Key: rest, Value: o.Value})
		return
	}
	*c = Node{parent: n, Key: key, Source: o.Source, Kind: Scalar, Written: o.Value, Text: o.Value}
}

// split makes a value from outside the file a list of its comma-separated parts.
func (n *Node) split() {
	parts := strings.Split(n.Text, ",")
	n.Kind, n.Written, n.Text = Sequence, "", ""
	for i, part := range parts {
		part = strings.TrimSpace(part)
		n.Children = append(n.Children, &Node{parent: n, Key: indexKey(i), Source: n.Source, Kind: Scalar, Written: part, Text: part})
	}
}
