package codec

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// InnerModel is a model that a request names beside Head.Model, at a place where an
// upstream may read it: in a list of fallbacks, in a tool that runs a model, or in a request
// inside the request. Models that generate nothing, such as those of moderation, are not
// included.
type InnerModel struct {
	Name  string // AnyModel if the upstream chooses
	Param string // the path of the member, for messages

	// Prefix is what the dialect writes before the name.
	Prefix string
	// Same says that the vendor requires this model to be that of the request itself.
	Same bool

	// Start and End are the position of the JSON string in the body.
	Start, End int
}

// AnyModel is the name of an inner model that the upstream chooses.
const AnyModel = "*"

// FindModels returns the models that a request names at these paths. A path is a list of
// members that are separated by dots; "[]" after a name means each item of a list. Names
// are compared without case and underscores, because servers differ in what they accept.
func FindModels(body *wire.Index, paths ...string) []InnerModel {
	f := finder{body: body, models: true}
	f.find(paths, `odel"`, `odels"`, `ODEL`)
	return f.found
}

// finder finds strings of a request by their paths.
type finder struct {
	body   *wire.Index
	models bool // it finds models, also in objects
	s      wire.Scanner
	param  string
	found  []InnerModel
}

// find collects the strings at the paths. Lists of tools and turns are long, and few of them
// have such strings. So a list is searched only if it contains one of the marks, or an
// escape that could hide a mark.
func (f *finder) find(paths []string, marks ...string) {
	for name := range f.body.All() {
		searched, marked := false, false
		for _, path := range paths {
			if differ(name, path) {
				continue
			}
			first, rest, _ := strings.Cut(path, ".")
			first, each := strings.CutSuffix(first, "[]")
			if !sameName(name, first) {
				continue
			}
			f.param, f.s = path, f.body.Scan(name)
			if each && !searched {
				searched, marked = true, containsAny(f.s.Rest(), marks)
			}
			if !each || marked {
				f.walk(each, rest)
			}
		}
	}
}

// differ reports whether two names begin with different letters. It decides most comparisons of
// names quickly.
func differ(a, b string) bool {
	letter := func(s string) byte {
		if s == "" {
			return 0
		}
		if c := s[0] | 0x20; 'a' <= c && c <= 'z' {
			return c
		}
		return 0
	}
	x, y := letter(a), letter(b)
	return x != y && x != 0 && y != 0
}

// containsAny reports whether a JSON text contains one of the marks, or an escape that could hide a mark. Long texts
// have few quotes, so it looks for marks that end with a quote only before each quote.
func containsAny(text []byte, marks []string) bool {
	quoted := func(mark string) bool { return strings.HasSuffix(mark, `"`) }
	if slices.ContainsFunc(marks, quoted) {
		for end := 0; ; {
			i := bytes.IndexByte(text[end:], '"')
			if i < 0 {
				break
			}
			end += i + 1
			for _, mark := range marks {
				if end >= len(mark) && quoted(mark) && string(text[end-len(mark):end]) == mark {
					return true
				}
			}
		}
	}
	for _, mark := range marks {
		if !quoted(mark) && bytes.Contains(text, []byte(mark)) {
			return true
		}
	}
	return bytes.Contains(text, []byte(`\u00`))
}

// walk reads the next value and collects the strings at a path in it. each says that the
// value may be a list: then the path applies to each of its items.
func (f *finder) walk(each bool, path string) {
	if each && f.s.Kind() == '[' {
		for range f.s.Items() {
			f.walk(false, path)
		}
		return
	}
	if path == "" {
		f.collect()
		return
	}
	first, rest, _ := strings.Cut(path, ".")
	first, each = strings.CutSuffix(first, "[]")
	for name := range f.s.Members() {
		if sameName(string(wire.Name(name)), first) {
			f.walk(each, rest)
		}
	}
}

// collect reads the next value and collects it, if it is a string, or the strings of a list.
// Models may also be in objects: in a member "model" or, without one, in lists.
func (f *finder) collect() {
	switch f.s.Kind() {
	case '"':
		v := f.s.Value()
		f.found = append(f.found, InnerModel{Name: wire.Unquote(v), Param: f.param, Start: f.s.Offset() - len(v), End: f.s.Offset()})
	case '[':
		for range f.s.Items() {
			f.collect()
		}
	case '{':
		if !f.models {
			f.s.Value()
			return
		}
		look, hasModel := f.s, false
		for name := range look.Members() {
			hasModel = hasModel || isModel(string(wire.Name(name)))
		}
		for name := range f.s.Members() {
			if isModel(string(wire.Name(name))) || !hasModel && f.s.Kind() == '[' {
				f.collect()
			}
		}
	default:
		f.s.Value()
	}
}

func isModel(name string) bool { return sameName(name, "model") || sameName(name, "models") }

// sameName reports whether two names are equal but for case and underscores.
func sameName(a, b string) bool {
	if strings.IndexFunc(a, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 { // Unicode has a third case of k and of s
		return strings.EqualFold(strings.ReplaceAll(a, "_", ""), b)
	}
	for {
		a, b = strings.TrimLeft(a, "_"), strings.TrimLeft(b, "_")
		if a == "" || b == "" {
			return a == b
		}
		if a[0]|0x20 != b[0]|0x20 {
			return false
		}
		a, b = a[1:], b[1:]
	}
}

// WrongModel is the error of an inner model that the request cannot use. It is the same
// for a model that does not exist and for one that the caller may not use.
func WrongModel(param string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_model", Param: param,
		Message: "\"" + param + "\" names a model that this request cannot use; write names that GET /v1/models lists and that the provider of the request's model serves, or leave it out"}
}
