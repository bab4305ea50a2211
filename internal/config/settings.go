package config

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Setting is one value of the configuration and where it comes from.
type Setting struct {
	Key    string // such as providers.openai.base_url
	Value  string // as it is written, without secrets
	Line   int    // in the file; 0: the file does not set it
	Source string // environment variable or flag that sets it; empty: the file or a default
}

const (
	maxSettings = 2000 // of a Config; a table of 100,000 models has more
	maxValue    = 500  // bytes
	hidden      = "***"
)

// value is a setting in effect, without secrets.
type value struct{ key, text string }

// Values returns the settings in effect with their keys, in the order of the reference: those that are set, and
// defaults that are not empty. Secrets are hidden.
func (c *Config) Values() iter.Seq2[string, string] {
	return func(yield func(key, text string) bool) {
		for _, v := range c.values {
			if !yield(v.key, v.text) {
				return
			}
		}
	}
}

// list walks the structs of a resolved file, and sets what the configuration tells of its settings.
func (c *Config) list(raw *file, root *node) {
	c.starts = map[string]secret.String{}
	l := lister{c: c}
	l.value(field{}, root, reflect.ValueOf(raw).Elem())
}

// lister walks the structs of a file.
type lister struct {
	c     *Config
	short bool // inside of a struct that is written as one value
}

// field is the place of a value, with the tags of its struct field.
type field struct {
	key     string
	secret  string // which part of the text is secret; see display
	restart bool   // a reload does not change the value
}

// below returns the place of a field of the struct at f.
func (f field) below(t reflect.StructField) field {
	restart := f.restart
	if tag, ok := t.Tag.Lookup("restart"); ok {
		restart = tag == "yes"
	}
	return field{key: join(f.key, t.Tag.Get("key")), secret: t.Tag.Get("secret"), restart: restart}
}

// value lists a value. The node is nil if the file does not have it.
func (l *lister) value(f field, n *node, v reflect.Value) {
	if n != nil && n.kind == null {
		n = nil
	}
	switch v.Addr().Interface().(type) {
	case placed:
		l.fields(f, n, v)
	case named:
		for i := range v.Len() {
			l.value(field{key: join(f.key, n.children[i].key), restart: f.restart}, n.children[i], v.Index(i).Elem())
		}
	default:
		l.plain(f, n, v)
	}
}

// fields lists the fields of a struct.
func (l *lister) fields(f field, n *node, v reflect.Value) {
	switch {
	case n == nil:
	case n.kind == scalar:
		if short := shortFor(v.Type()); !l.short {
			l.written(f.key, n, textOf(n, short.Type, short.Tag.Get("secret")))
		}
		defer func(before bool) { l.short = before }(l.short)
		l.short, n = true, nil
	case n.parent != nil && len(n.children) == 0: // some sections are on when they are empty
		l.written(f.key, n, "{}")
		l.effect(f, reflect.ValueOf("{}"))
	}
	for t, inner := range v.Fields() {
		if name := t.Tag.Get("key"); name != "" {
			l.value(f.below(t), n.child(name), inner)
		}
	}
}

// plain lists a value that has no keys of its own, or a list.
func (l *lister) plain(f field, n *node, v reflect.Value) {
	if n == nil && v.IsZero() {
		return
	}
	if n != nil && n.kind == sequence && v.Kind() == reflect.Slice && v.Len() == len(n.children) && v.Len() > 0 {
		if _, structs := v.Index(0).Addr().Interface().(placed); structs {
			for i, c := range n.children {
				l.value(field{key: f.key + c.key, restart: f.restart}, c, v.Index(i))
			}
			return
		}
	}
	text, from := display(v, f.secret), n
	if n == nil {
		from = &node{}
	} else {
		text = textOf(n, v.Type(), f.secret)
	}
	if !l.short {
		l.written(f.key, from, text)
	}
	if v.Type() == reflect.TypeFor[jsonObject]() { // a variable in it may be a secret
		v = reflect.ValueOf(text)
	}
	l.effect(f, v)
}

// effect adds a value in effect.
func (l *lister) effect(f field, v reflect.Value) {
	l.c.values = append(l.c.values, value{f.key, display(v, f.secret)})
	if f.restart {
		l.c.starts[f.key] = secret.String(display(v, secretNot))
	}
}

// written adds a setting with its text in the file.
func (l *lister) written(key string, from *node, text string) {
	if len(l.c.Settings) == maxSettings {
		l.c.SettingsCut = true
		return
	}
	if len(text) > maxValue {
		text = strings.ToValidUTF8(text[:maxValue], "") + "…"
	}
	s := Setting{Key: key, Value: text, Line: from.line, Source: from.source}
	if s.Source != "" {
		s.Line = 0
	}
	l.c.Settings = append(l.c.Settings, s)
}

// shortFor returns the field that a shorthand sets: the first one with a key.
func shortFor(t reflect.Type) reflect.StructField {
	for f := range t.Fields() {
		if f.Tag.Get("key") != "" {
			return f
		}
	}
	panic("config: " + t.Name() + " has no keys")
}

// The tag secret says which part of a value is hidden. A secret.String without the tag is hidden as a whole.
const (
	secretLogin  = "login"  // of a URL: user, password and query
	secretPath   = "path"   // of a URL: also its path
	secretValues = "values" // of a mapping: the values
	secretNot    = "not"    // nothing
)

// display returns a value as text, without what is secret of it.
func display(v reflect.Value, hide string) string {
	switch x := v.Interface().(type) {
	case secret.String:
		if x == "" {
			return `""`
		}
		if hide == "" {
			return hidden
		}
		return hideURL(x.Reveal(), hide)
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = display(v.Index(i), hide)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Map:
		parts := map[string]string{}
		for k, item := range v.Seq2() {
			parts[k.String()] = k.String() + ": " + hidden
			if hide != secretValues {
				parts[k.String()] = k.String() + ": " + display(item, hide)
			}
		}
		sorted := make([]string, 0, len(parts))
		for _, k := range slices.Sorted(maps.Keys(parts)) {
			sorted = append(sorted, parts[k])
		}
		return "{" + strings.Join(sorted, ", ") + "}"
	case reflect.String:
		return cmp.Or(hideURL(v.String(), hide), `""`)
	default:
		return fmt.Sprint(v.Interface())
	}
}

// textOf returns a node as it is written, without secrets.
func textOf(n *node, t reflect.Type, hide string) string {
	var parts []string
	switch n.kind {
	case sequence:
		for _, c := range n.children {
			parts = append(parts, textOf(c, elem(t), hide))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case mapping:
		for _, c := range n.children {
			text := hidden
			if hide != secretValues {
				text = textOf(c, elem(t), hide)
			}
			parts = append(parts, c.key+": "+text)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	switch {
	case t != reflect.TypeFor[secret.String]():
		return hideURL(n.written, hide)
	case strings.HasPrefix(n.written, "${") && strings.Count(n.written, "$") == 1 && strings.HasSuffix(n.written, "}") && !strings.Contains(n.written, ":-"):
		return n.written // the name of a variable or a file
	case hide != "":
		return hideURL(n.written, hide)
	}
	return hidden
}

// elem returns the type of the items of a list or a map.
func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String || t.Kind() == reflect.Map {
		return t.Elem()
	}
	return t
}

// hideURL returns a text without what is secret if it is a URL. Of every URL the credentials and the query are. A
// text whose tag says that it is a URL is hidden if it is none.
func hideURL(text, hide string) string {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL && hide == "" || hide == secretNot {
		return text
	}
	u, err := url.Parse(text)
	switch {
	case text == "" || text == "sqlite" || strings.HasPrefix(text, "sqlite:"): // the path of a file
		return text
	case hide != "" && (err != nil || u.Host == "" || strings.Contains(u.Path, "@")):
		return hidden
	}
	rest, _, query := strings.Cut(rest, "?")
	host, path, hasPath := strings.Cut(rest, "/")
	if at := strings.LastIndex(host, "@"); at >= 0 {
		host = hidden + host[at:]
	}
	switch {
	case hide == secretPath && (path != "" || query):
		return scheme + "://" + host + "/" + hidden
	case query:
		path += "?" + hidden
	}
	if hasPath || query {
		host += "/" + path
	}
	return scheme + "://" + host
}

// String is the configuration as text: a setting in effect on each line, without secrets.
func (c Config) String() string {
	var b strings.Builder
	for _, v := range c.values {
		b.WriteString(v.key + ": " + oneLine(v.text) + "\n")
	}
	return b.String()
}

// oneLine quotes a text with line breaks.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return strconv.Quote(text)
	}
	return text
}
