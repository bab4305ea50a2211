package config

import (
	"strings"
)

// Override is a setting from outside the file: an environment variable or a flag.
type Override struct {
	Source string // its name in messages, such as ISOGLOSS_LISTEN or --listen
	Key    string // the setting, such as log.level
	Value  string
}

// variables returns the settings that environment variables override, without values.
func variables() []Override {
	return []Override{
		{Source: "ISOGLOSS_LISTEN", Key: "listen"},
		{Source: "ISOGLOSS_ADMIN_LISTEN", Key: "admin.listen"},
		{Source: "ISOGLOSS_METRICS_LISTEN", Key: "metrics.listen"},
		{Source: "ISOGLOSS_KEYS", Key: "keys"},
		{Source: "ISOGLOSS_DATA", Key: "data"},
		{Source: "ISOGLOSS_ZONE", Key: "zone"},
		{Source: "ISOGLOSS_SHUTDOWN_DRAIN", Key: "shutdown.drain"},
		{Source: "ISOGLOSS_LOG_LEVEL", Key: "log.level"},
		{Source: "ISOGLOSS_LOG_FORMAT", Key: "log.format"},
	}
}

// Environment returns the overrides that the environment sets. An empty variable counts
// as unset.
func Environment(env func(string) (string, bool)) []Override {
	var set []Override
	for _, o := range variables() {
		if value, _ := env(o.Source); value != "" {
			o.Value = value
			set = append(set, o)
		}
	}
	return set
}

// override replaces a setting in the tree.
func (n *node) override(o Override) {
	key, rest, nested := strings.Cut(o.Key, ".")
	c := n.child(key)
	if c == nil {
		c = &node{parent: n, key: key, line: n.line, source: o.Source}
		n.children = append(n.children, c)
	}
	if nested {
		if c.kind == null {
			c.kind = mapping
		}
		c.override(Override{Source: o.Source, Key: rest, Value: o.Value})
		return
	}
	*c = node{parent: n, key: key, source: o.Source, kind: scalar, written: o.Value, text: o.Value}
	if key == "keys" || key == "targets" {
		c.list(o)
	}
}

// list makes the node a list of the comma-separated parts of a value.
func (n *node) list(o Override) {
	n.kind, n.written, n.text = sequence, "", ""
	for part := range strings.SplitSeq(o.Value, ",") {
		part = strings.TrimSpace(part)
		n.children = append(n.children, &node{parent: n, key: indexKey(len(n.children)), source: o.Source, kind: scalar, written: part, text: part})
	}
}
