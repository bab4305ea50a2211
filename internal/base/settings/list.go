package settings

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
	"time"

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
	// MaxSettings is the maximum number of settings that are listed with their place.
	MaxSettings = 2000 // a table of 100,000 models has more
	maxValue    = 500  // bytes
	hidden      = "***"
)

// value is a setting in effect, without secrets.
type value struct{ key, text string }

// Listing tells of the settings of a file: where each comes from, what is in effect, and what is applied at start-up.
type Listing struct {
	Settings    []Setting
	SettingsCut bool // there are more of them
	values      []value
	starts      map[string]secret.String // the whole texts of settings that are applied only at start-up
}

// Values returns the settings in effect with their keys, in the order of the reference: those that are set, and
// defaults that are not empty. Secrets are hidden.
func (l *Listing) Values() iter.Seq2[string, string] {
	return func(yield func(key, text string) bool) {
		for _, v := range l.values {
			if !yield(v.key, v.text) {
				return
			}
		}
	}
}

// StartsOtherwise returns the keys of the settings in which two files differ and which are applied only at
// start-up.
func (l *Listing) StartsOtherwise(from *Listing) (keys []string) {
	for key, text := range l.starts {
		if text != from.starts[key] {
			keys = append(keys, key)
		}
	}
	for key := range from.starts {
		if _, both := l.starts[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// String is the settings in effect as text, one on each line, without secrets.
func (l Listing) String() string {
	var b strings.Builder
	for _, v := range l.values {
		b.WriteString(v.key + ": " + oneLine(v.text) + "\n")
	}
	return b.String()
}

// Format prints String for every verb. The value receiver leaves no way past it.
func (l Listing) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(l.String())) }

// List lists the settings of a decoded struct. A section that was listed is settled: its paths become relative to the
// working folder, and its method Settle is called. List is called once.
func (f *File) List(root *Node, of any) Listing {
	l := lister{file: f}
	l.starts = map[string]secret.String{}
	l.value(place{}, root, reflect.ValueOf(of).Elem())
	return l.Listing
}

// lister walks the structs of a file.
type lister struct {
	Listing
	file  *File
	short bool // inside of a struct that is written as one value
}

// place is where a value is, with what its field says of it.
type place struct {
	key     string
	secret  string // which part of the text is secret; see display
	restart bool   // a reload does not change the value
	bytes   bool   // it is a size
}

// below returns the place of a field of the struct at p.
func (p place) below(s *Field) place {
	return place{key: join(p.key, s.Key), secret: s.secret, restart: s.Restart(p.restart), bytes: s.bytes}
}

// value lists a value. The node is nil if the file does not have it.
func (l *lister) value(p place, n *Node, v reflect.Value) {
	if n != nil && n.Kind == Null {
		n = nil
	}
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch _, named := v.Addr().Interface().(table); {
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			entry := n.Children[i]
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(v.MapIndex(reflect.ValueOf(entry.Key)))
			l.value(place{key: join(p.key, entry.Key), restart: p.restart}, entry, item)
			v.SetMapIndex(reflect.ValueOf(entry.Key), item)
		}
	case named:
		for i := range v.Len() {
			entry := n.Children[i]
			l.value(place{key: join(p.key, entry.Key), restart: p.restart}, entry, v.Index(i).Elem().FieldByName("Value"))
		}
	case v.Kind() == reflect.Struct && !isScalar(v):
		l.fields(p, n, v)
	default:
		l.plain(p, n, v)
	}
}

// fields lists the fields of a struct.
func (l *lister) fields(p place, n *Node, v reflect.Value) {
	of, at := l.file.sectionOf(v.Type()), At{n, l.file}
	switch {
	case n == nil:
	case n.Kind == Scalar:
		if short := of.fields[0]; !l.short {
			l.written(p.key, n, textOf(n, short.Type, short.secret))
		}
		defer func(before bool) { l.short = before }(l.short)
		l.short, n = true, nil
	case n.parent != nil && len(n.Children) == 0: // some sections are on when they are empty
		l.written(p.key, n, "{}")
		l.effect(p, reflect.ValueOf("{}"))
	}
	for _, s := range of.fields {
		inner, c := v.Field(s.index), n.Child(s.Key)
		l.value(p.below(s), c, inner)
		if s.file && (c == nil || c.Source == "") { // a path of a variable or a flag is relative to the working folder
			inner.SetString(l.file.path(inner.String()))
		}
	}
	if to, ok := v.Addr().Interface().(settler); ok {
		to.Settle(&at)
	}
}

// plain lists a value that has no keys of its own, or a list.
func (l *lister) plain(p place, n *Node, v reflect.Value) {
	if n == nil && v.IsZero() {
		return
	}
	if n != nil && n.Kind == Sequence && v.Kind() == reflect.Slice && v.Len() == len(n.Children) && v.Len() > 0 && v.Index(0).Kind() == reflect.Struct && !isScalar(v.Index(0)) {
		for i, c := range n.Children {
			l.value(place{key: p.key + c.Key, restart: p.restart}, c, v.Index(i))
		}
		return
	}
	text, from := p.display(v), n
	if n == nil {
		from = &Node{}
	} else {
		text = textOf(n, v.Type(), p.secret)
	}
	if !l.short {
		l.written(p.key, from, text)
	}
	if v.Type() == reflect.TypeFor[Object]() { // a variable in it may be a secret
		v = reflect.ValueOf(text)
	}
	l.effect(p, v)
}

// effect adds a value in effect.
func (l *lister) effect(p place, v reflect.Value) {
	l.values = append(l.values, value{p.key, p.display(v)})
	if p.restart {
		p.secret = secretNot
		l.starts[p.key] = secret.String(p.display(v))
	}
}

// written adds a setting with its text in the file.
func (l *lister) written(key string, from *Node, text string) {
	if len(l.Settings) == MaxSettings {
		l.SettingsCut = true
		return
	}
	if len(text) > maxValue {
		text = strings.ToValidUTF8(text[:maxValue], "") + "…"
	}
	s := Setting{Key: key, Value: text, Line: from.Line, Source: from.Source}
	if s.Source != "" {
		s.Line = 0
	}
	l.Settings = append(l.Settings, s)
}

// The tag secret says which part of a value is hidden. A secret.String without the tag is hidden as a whole.
const (
	secretLogin  = "login"  // of a URL: user, password and query
	secretPath   = "path"   // of a URL: also its path
	secretValues = "values" // of a mapping: the values
	secretNot    = "not"    // nothing
)

// display returns a value as text, with *** for its secret part.
func (p place) display(v reflect.Value) string {
	hide := p.secret
	switch x := v.Interface().(type) {
	case time.Duration:
		return FormatDuration(x)
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
			parts[i] = p.display(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Map:
		parts := map[string]string{}
		for k, item := range v.Seq2() {
			parts[k.String()] = k.String() + ": " + hidden
			if hide != secretValues {
				parts[k.String()] = k.String() + ": " + p.display(item)
			}
		}
		sorted := make([]string, 0, len(parts))
		for _, k := range slices.Sorted(maps.Keys(parts)) {
			sorted = append(sorted, parts[k])
		}
		return "{" + strings.Join(sorted, ", ") + "}"
	case reflect.String:
		return cmp.Or(hideURL(v.String(), hide), `""`)
	case reflect.Int64:
		if p.bytes {
			return FormatSize(v.Int())
		}
		return strconv.FormatInt(v.Int(), 10)
	default:
		return fmt.Sprint(v.Interface())
	}
}

// textOf returns a node as it is written, without secrets.
func textOf(n *Node, t reflect.Type, hide string) string {
	var parts []string
	switch n.Kind {
	case Sequence:
		for _, c := range n.Children {
			parts = append(parts, textOf(c, elem(t), hide))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case Mapping:
		for _, c := range n.Children {
			text := hidden
			if hide != secretValues {
				text = textOf(c, elem(t), hide)
			}
			parts = append(parts, c.Key+": "+text)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	switch {
	case t != reflect.TypeFor[secret.String]():
		return hideURL(n.Written, hide)
	case strings.HasPrefix(n.Written, "${") && strings.Count(n.Written, "$") == 1 && strings.HasSuffix(n.Written, "}") && !strings.Contains(n.Written, ":-"):
		return n.Written // the name of a variable or a file
	case hide != "":
		return hideURL(n.Written, hide)
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

// hideURL returns a text without what is secret if it is a URL. Of every URL the credentials and the query are.
// If the tag of a text says that it is a URL and it is none, the whole text is hidden.
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

// oneLine quotes a text with line breaks.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return strconv.Quote(text)
	}
	return text
}
