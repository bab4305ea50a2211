package protocol

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// InnerModel is a place in a request, beside that of Head.Model, in which an upstream may
// read the name of a model: a list of fallbacks, a tool that runs a model, or a request
// inside the request. Models that generate nothing, such as those of moderation, are not
// among them.
type InnerModel struct {
	Name  string // AnyModel if the upstream chooses
	Param string // the path of the member, for messages

	// Prefix is what the dialect writes before the name.
	Prefix string
	// Same says that the vendor requires the model of the request itself.
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

// find finds the strings at some paths. Lists of tools and turns are long, and few have
// anything to find: they are searched only if they contain one of the marks, or an escape
// that could hide it.
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

// differ reports whether names begin with different letters, which decides most comparisons.
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

// containsAny reports whether a JSON text contains one of the marks. Long texts have few quotes, so it looks for marks
// that end with one before each quote.
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

// walk reads the next value, at a path. each says that the value is a list of such values.
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

// collect reads the next value: a string or a list of them. Models may also be in objects,
// in a member "model" or else in lists.
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
	if strings.IndexFunc(a, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 { // two further letters are cases of k and s
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
