package wire

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxMembers is the maximum number of members of an object that [IndexObject]
// accepts.
const MaxMembers = 512

// Index locates the members of one JSON object in its text. It copies the names and
// leaves the values where they are, so that a large request can be routed and
// patched without decoding it. The zero Index has no members.
type Index struct {
	text    []byte
	members []location
	end     int // where Set inserts a new member
}

// location is the position of one member in the text.
type location struct {
	name  string
	key   span // the quoted name
	value span
}

// span is the range of bytes [start, end).
type span struct{ start, end int }

// IndexObject indexes text, which must be one JSON object. It checks all of text:
// it rejects syntax errors, invalid UTF-8, duplicate names at any level, nesting
// beyond [MaxDepth] and more than [MaxMembers] members. Unpaired surrogates in
// escapes are accepted, because fragments of text may contain them.
//
// It also rejects a member whose name differs from one of names only in case. A
// server that ignores case would read that member where the caller reads another.
//
// The error is an [*Error]. It quotes nothing of text except one of names, so it is
// safe to log. The Index refers to text, which must not change while it is in use.
func IndexObject(text []byte, names ...string) (Index, error) {
	if !utf8.Valid(text) {
		return Index{}, &Error{Message: "not valid UTF-8"}
	}
	return indexAt(text, span{0, len(text)}, names)
}

// Object indexes the named member, as [IndexObject] does for a whole text. It
// returns an error if the member is absent or is not an object.
func (x *Index) Object(member string, names ...string) (Index, error) {
	i := x.find(member)
	if i < 0 {
		return Index{}, errNotObject()
	}
	return indexAt(x.text, x.members[i].value, names)
}

// Text returns the text that IndexObject was given.
func (x *Index) Text() []byte { return x.text }

// Len returns the number of members.
func (x *Index) Len() int { return len(x.members) }

// Has reports whether the object has the named member.
func (x *Index) Has(name string) bool { return x.find(name) >= 0 }

// Raw returns the text of the named member's value. It returns nil if the member is
// absent or null.
func (x *Index) Raw(name string) Raw {
	i := x.find(name)
	if i < 0 {
		return nil
	}
	v := x.raw(i)
	if v.Kind() == 'n' {
		return nil
	}
	return v
}

// Scan returns a Scanner that reads the named member's value. Its offsets are those of
// the whole text. If the member is absent there is nothing to read.
func (x *Index) Scan(name string) Scanner {
	i := x.find(name)
	if i < 0 {
		return Scanner{}
	}
	at := x.members[i].value
	return Scanner{b: x.text[:at.end], i: at.start}
}

// All iterates over the names and values of the members in their order.
func (x *Index) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := range x.members {
			if !yield(x.members[i].name, x.raw(i)) {
				return
			}
		}
	}
}

func (x *Index) raw(i int) Raw {
	at := x.members[i].value
	return x.text[at.start:at.end]
}

// find returns the position of the named member, or -1.
func (x *Index) find(name string) int {
	return slices.IndexFunc(x.members, func(m location) bool { return m.name == name })
}

// indexAt indexes the object at one place of a text that is valid UTF-8.
func indexAt(text []byte, at span, names []string) (Index, error) {
	if x, ok := scanIndex(text, at, names); ok {
		return x, nil
	}
	x := Index{text: text}
	if err := x.decode(at, names); err != nil {
		return Index{}, err
	}
	return x, nil
}

// scanIndex builds the index of the object at one place of a text with a strict
// Scanner, which is several times as fast as the JSON library. It reports false if
// the text is invalid, and also if it is valid but rare, such as an object with an
// escape in a name.
func scanIndex(text []byte, at span, names []string) (Index, bool) {
	x := Index{text: text, members: make([]location, 0, 8)}
	s := Scanner{b: text[:at.end], i: at.start, strict: true, names: make([]uint64, 0, 32)}
	if s.next() != '{' {
		return x, false
	}
	x.end = s.i + 1
	for name := range s.Members() {
		m := location{name: string(name), key: s.key}
		m.value.start = s.i
		s.Value()
		m.value.end = s.i
		if len(x.members) == MaxMembers || caseVariant(m.name, names) != "" {
			return x, false
		}
		x.members = append(x.members, m)
		x.end = m.value.end
	}
	return x, !s.failed && s.next() == 0 && s.i == len(s.b)
}

// decode builds the index with the JSON library. It handles the objects that
// scanIndex gives up on, and explains what is wrong with an invalid one.
func (x *Index) decode(at span, names []string) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(x.text[at.start:at.end:at.end]), jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		return errNotObject()
	}
	if _, err := dec.ReadToken(); err != nil {
		return indexError(err, at.start, names)
	}
	x.end = at.start + int(dec.InputOffset())
	for dec.PeekKind() != '}' {
		if err := x.decodeMember(dec, at.start, names); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return indexError(err, at.start, names)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return &Error{Message: "data after the JSON object"}
	}
	return nil
}

// decodeMember adds the next member to the index. The decoder's offsets count from
// base.
func (x *Index) decodeMember(dec *jsontext.Decoder, base int, names []string) error {
	if len(x.members) == MaxMembers {
		return &Error{Message: "the JSON object has more than " + strconv.Itoa(MaxMembers) + " members"}
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return indexError(err, base, names)
	}
	m := location{name: tok.String()}
	m.key.start = x.end + bytes.IndexByte(x.text[x.end:], '"')
	m.key.end = base + int(dec.InputOffset())
	m.value.start = m.key.end + len(x.text[m.key.end:]) - len(bytes.TrimLeft(x.text[m.key.end:], ": \t\r\n"))
	if err := skipValue(dec, base, names); err != nil {
		return err
	}
	m.value.end = base + int(dec.InputOffset())
	x.end = m.value.end
	x.members = append(x.members, m)
	if v := caseVariant(m.name, names); v != "" {
		return &Error{Pointer: "/" + v, Message: "a name differs from \"" + v + "\" only in case; write \"" + v + "\""}
	}
	return nil
}

// skipValue reads one value token by token, because the decoder shows its depth
// only between tokens.
func skipValue(dec *jsontext.Decoder, base int, names []string) error {
	top := dec.StackDepth()
	for {
		if _, err := dec.ReadToken(); err != nil {
			return indexError(err, base, names)
		}
		switch depth := dec.StackDepth(); {
		case depth > MaxDepth:
			return &Error{Message: "the JSON is nested more than " + strconv.Itoa(MaxDepth) + " levels deep"}
		case depth == top:
			return nil
		}
	}
}

// caseVariant returns the one of names that name equals except for case, or "".
func caseVariant(name string, names []string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r < 'a' && r != '_' || r > 'z' }) < 0 {
		return "" // a name in lower case can only be equal
	}
	for _, n := range names {
		if name != n && strings.EqualFold(name, n) {
			return n
		}
	}
	return ""
}

func errNotObject() error { return &Error{Message: "not a JSON object"} }

// indexError describes a decoder's error by its offset, because the library's own
// message quotes the text. The decoder's offsets count from base.
func indexError(err error, base int, names []string) error {
	se, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return &Error{Message: "the JSON is incomplete", Cause: err}
	}
	at := " at byte " + strconv.FormatInt(int64(base)+se.ByteOffset, 10)
	if !errors.Is(err, jsontext.ErrDuplicateName) {
		return &Error{Message: "not valid JSON" + at}
	}
	if name := se.JSONPointer.LastToken(); slices.Contains(names, name) {
		return &Error{Pointer: "/" + name, Message: "duplicate name \"" + name + "\"" + at}
	}
	return &Error{Message: "duplicate name in a JSON object" + at}
}
