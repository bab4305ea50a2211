package wire

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit replaces the bytes [Start, End) of a text with Text.
type Edit struct {
	Start, End int
	Text       string
}

// Patch returns text with the edits applied. The edits must not overlap and may
// come in any order; Patch sorts them. Every byte outside the edits stays as it is.
// Without edits the result is text itself, not a copy.
func Patch(text []byte, edits []Edit) []byte {
	if len(edits) == 0 {
		return text
	}
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(a.Start, b.Start) })
	size := len(text)
	for _, e := range edits {
		size += len(e.Text) - (e.End - e.Start)
	}
	out := make([]byte, 0, size)
	from := 0
	for _, e := range edits {
		out = append(out, text[from:e.Start]...)
		out = append(out, e.Text...)
		from = e.End
	}
	return append(out, text[from:]...)
}

// Set returns the edit that gives the named member a value, which must be JSON. An
// existing member keeps its place; a new one is added at the end. One patch can add
// at most one new member to each object, because every addition assumes that it
// follows the object's present last member.
func (x *Index) Set(name, value string) Edit {
	if i := x.find(name); i >= 0 {
		m := &x.members[i]
		return Edit{m.value.start, m.value.end, value}
	}
	text := Quote(name) + ":" + value
	if len(x.members) > 0 {
		text = "," + text
	}
	return Edit{x.end, x.end, text}
}

// Remove returns the edit that deletes the named member and its comma. It reports
// false if there is no such member.
func (x *Index) Remove(name string) (Edit, bool) {
	i := x.find(name)
	if i < 0 {
		return Edit{}, false
	}
	m := &x.members[i]
	switch {
	case i > 0: // from the end of the previous value, to include the comma before m
		return Edit{Start: x.members[i-1].value.end, End: m.value.end}, true
	case len(x.members) > 1: // up to the next name, to include the comma after m
		return Edit{Start: m.key.start, End: x.members[1].key.start}, true
	}
	return Edit{Start: m.key.start, End: m.value.end}, true
}

// RemoveAll returns the edits that delete the named members and their commas. A patch with
// them may add a member only if another one stays.
func (x *Index) RemoveAll(names ...string) []Edit {
	var edits []Edit
	first := -1 // of the members that stay
	for i := range x.members {
		switch m := &x.members[i]; {
		case !slices.Contains(names, m.name):
			if first < 0 {
				first = i
			}
		case first >= 0: // from the end of the previous value, to include the comma before m
			edits = append(edits, Edit{Start: x.members[i-1].value.end, End: m.value.end})
		}
	}
	switch {
	case first > 0:
		edits = append(edits, Edit{Start: x.members[0].key.start, End: x.members[first].key.start})
	case first < 0 && len(x.members) > 0:
		edits = append(edits, Edit{Start: x.members[0].key.start, End: x.members[len(x.members)-1].value.end})
	}
	return edits
}

// Rename returns the edit that renames a member. It reports false if there is no
// member named from, or if one named to exists already.
func (x *Index) Rename(from, to string) (Edit, bool) {
	i := x.find(from)
	if i < 0 || x.find(to) >= 0 {
		return Edit{}, false
	}
	m := &x.members[i]
	return Edit{m.key.start, m.key.end, Quote(to)}, true
}

// Unquote returns the string that a JSON string stands for, with U+FFFD for every
// unpaired surrogate. It returns "" if v is not a string.
func Unquote(v Raw) string {
	if v.Kind() != '"' {
		return ""
	}
	return text(v)
}

// Scalar returns the text of a JSON string or number, and "" for anything else.
func Scalar(v Raw) string {
	switch v.Kind() {
	case '"':
		if utf8.Valid(v) {
			return text(v)
		}
		s, _ := jsontext.AppendUnquote(nil, v) // invalid UTF-8 becomes U+FFFD
		return string(s)
	case '0':
		return string(v)
	}
	return ""
}
