package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Setting is one value of the configuration and where it comes from.
type Setting struct {
	Key    string // such as providers.openai.base_url
	Value  string // without secrets
	Line   int    // in the file; 0: the file does not set it
	Source string // environment variable or flag that sets it; empty: the file or a default
}

const (
	maxSettings = 2000 // of a Config; a table of 100,000 models has more
	maxValue    = 500  // bytes
	hidden      = "***"
)

// settingsOf lists the settings of a decoded file in the order of its structs. Defaults that are
// empty are left out, and defaults of a preset are not known here.
func settingsOf(raw *file, root *node) (list []Setting, cut bool) {
	l := lister{}
	l.value("", root, reflect.ValueOf(raw).Elem())
	return l.list, l.cut
}

type lister struct {
	list []Setting
	cut  bool // there are more
}

// value adds the settings of a value. The node is nil if the file does not have it.
func (l *lister) value(key string, n *node, v reflect.Value) {
	if l.cut {
		return
	}
	if n != nil && n.kind == null {
		n = nil
	}
	switch v.Addr().Interface().(type) {
	case placed:
		if n != nil && n.kind == scalar {
			l.add(key, n, leaf(n, shortFor(v.Type())))
			return
		}
		for i := range v.NumField() {
			if name := v.Type().Field(i).Tag.Get("key"); name != "" {
				l.value(join(key, name), n.child(name), v.Field(i))
			}
		}
	case named:
		for i := range v.Len() {
			l.value(join(key, n.children[i].key), n.children[i], v.Index(i).Elem())
		}
	default:
		l.plain(key, n, v)
	}
}

// plain adds a value that has no keys of its own, or a list.
func (l *lister) plain(key string, n *node, v reflect.Value) {
	if n == nil {
		if !v.IsZero() {
			l.add(key, &node{}, fmt.Sprint(v.Interface()))
		}
		return
	}
	if n.kind == sequence && v.Kind() == reflect.Slice && v.Len() == len(n.children) && v.Len() > 0 {
		if _, structs := v.Index(0).Addr().Interface().(placed); structs {
			for i, c := range n.children {
				l.value(key+c.key, c, v.Index(i))
			}
			return
		}
	}
	l.add(key, n, textOf(n, v.Type()))
}

func (l *lister) add(key string, from *node, value string) {
	if len(l.list) == maxSettings {
		l.cut = true
		return
	}
	if strings.HasSuffix(key, ".endpoint") { // may have a credential in its path
		value = hidden
	}
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "") + "…"
	}
	s := Setting{Key: key, Value: value, Line: from.line, Source: from.source}
	if s.Source != "" {
		s.Line = 0
	}
	l.list = append(l.list, s)
}

// shortFor returns the type of the field that a shorthand sets: the first one with a key.
func shortFor(t reflect.Type) reflect.Type {
	for f := range t.Fields() {
		if f.Tag.Get("key") != "" {
			return f.Type
		}
	}
	return t
}

// textOf returns a node as it is written, without secrets.
func textOf(n *node, t reflect.Type) string {
	var parts []string
	switch n.kind {
	case sequence:
		for _, c := range n.children {
			parts = append(parts, textOf(c, elem(t)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case mapping:
		for _, c := range n.children {
			text := hidden
			if n.key != "headers" {
				text = textOf(c, elem(t))
			}
			parts = append(parts, c.key+": "+text)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	default:
		return leaf(n, t)
	}
}

// elem returns the type of the items of a list or a map.
func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String || t.Kind() == reflect.Map {
		return t.Elem()
	}
	return t
}

// leaf returns a scalar as it is written. A secret is hidden unless it is only the name of a variable
// or a file. Of a URL, the credentials and the query are hidden.
func leaf(n *node, t reflect.Type) string {
	text := n.written
	if t == reflect.TypeFor[secret.String]() {
		if strings.HasPrefix(text, "${") && strings.Count(text, "$") == 1 && strings.HasSuffix(text, "}") && !strings.Contains(text, ":-") {
			return text
		}
		return hidden
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return text
	}
	rest, _, query := strings.Cut(rest, "?")
	if host, path, _ := strings.Cut(rest, "/"); strings.Contains(host, "@") {
		rest = hidden + host[strings.LastIndex(host, "@"):] + "/" + path
	}
	if query {
		rest += "?" + hidden
	}
	return scheme + "://" + rest
}
