package gemini

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// pendingCall is a call whose arguments have not all come.
type pendingCall struct {
	args      string
	signature string
	tree      *branch // of arguments that come value by value
}

// add takes arguments: a whole object, or values with their places.
func (p *pendingCall) add(args string, partial wire.Raw) {
	if len(partial) == 0 {
		p.args, p.tree = args, nil
		return
	}
	var values []struct {
		Path   string         `json:"jsonPath"`
		String *string        `json:"stringValue"`
		Number jsontext.Value `json:"numberValue"`
		Bool   jsontext.Value `json:"boolValue"`
	}
	if json.Unmarshal(partial, &values, lenient) != nil {
		return
	}
	if p.tree == nil {
		p.tree = &branch{}
	}
	for _, v := range values {
		leaf := p.tree.at(v.Path)
		switch {
		case leaf == nil:
		case v.String != nil:
			leaf.isText, leaf.text = true, leaf.text+*v.String // later pieces of a string are appended
		case len(v.Number) > 0:
			leaf.value = string(v.Number)
		case len(v.Bool) > 0:
			leaf.value = string(v.Bool)
		default:
			leaf.value = "null"
		}
	}
}

func (p *pendingCall) text() string {
	if p.tree == nil {
		return p.args
	}
	return string(p.tree.append(nil))
}

// branch is a value in the making: an object or a list, or a leaf.
type branch struct {
	names  []string
	inner  []*branch
	list   bool
	isText bool
	text   string
	value  string
}

// maxPath bounds how deep a value may be placed.
const maxPath = 64

// at finds the place that a path such as $.a.b[2].c names, and makes it where it
// is missing; nil for a path of another form.
func (b *branch) at(path string) *branch {
	path, ok := strings.CutPrefix(path, "$")
	for depth := 0; ok && path != ""; depth++ {
		var name string
		list := path[0] == '['
		if list {
			name, path, ok = strings.Cut(path[1:], "]")
			if quoted := strings.Trim(name, `'"`); quoted != name {
				name, list = quoted, false // $['a'] is $.a
			} else if _, err := strconv.Atoi(name); err != nil {
				return nil
			}
		} else {
			rest, dot := strings.CutPrefix(path, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			name, path, ok = rest[:end], rest[end:], dot
		}
		if !ok || depth >= maxPath {
			return nil
		}
		b = b.member(name, list)
	}
	if !ok {
		return nil
	}
	return b
}

func (b *branch) member(name string, list bool) *branch {
	b.list = list
	for i, n := range b.names {
		if n == name {
			return b.inner[i]
		}
	}
	b.names = append(b.names, name)
	b.inner = append(b.inner, &branch{})
	return b.inner[len(b.inner)-1]
}

func (b *branch) append(dst []byte) []byte {
	switch {
	case b.isText:
		return appendString(dst, b.text)
	case b.value != "":
		return append(dst, b.value...)
	}
	brackets := "{}"
	if b.list {
		brackets = "[]"
	}
	dst = append(dst, brackets[0])
	for i, inner := range b.inner {
		if i > 0 {
			dst = append(dst, ',')
		}
		if !b.list {
			dst = append(appendString(dst, b.names[i]), ':')
		}
		dst = inner.append(dst)
	}
	return append(dst, brackets[1])
}
