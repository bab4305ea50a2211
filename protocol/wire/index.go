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
	s := NewScanner(x.text[:at.end])
	s.i = at.start
	return s
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
	return Index{}, explainIndex(text, at, names)
}

// scanIndex builds the index of the object at one place of a text. It reports false if
// the object is not valid.
func scanIndex(text []byte, at span, names []string) (Index, bool) {
	x := Index{text: text, members: make([]location, 0, 8)}
	s := Scanner{b: text[:at.end], i: at.start, maxDepth: MaxDepth, unique: true, names: make([]uint64, 0, 32)}
	if s.next() != '{' {
		return x, false
	}
	x.end = s.i + 1
	for name := range s.Members() {
		m := location{name: string(Name(name)), key: s.key}
		m.value.start = s.i
		s.Value()
		m.value.end = s.i
		if len(x.members) == MaxMembers || caseVariant(m.name, names) != "" {
			return x, false
		}
		x.members = append(x.members, m)
		x.end = m.value.end
	}
	return x, s.End() == nil
}

// explainIndex returns what is wrong with an object that scanIndex does not accept. The
// JSON library finds it.
func explainIndex(text []byte, at span, names []string) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text[at.start:at.end:at.end]), jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		return errNotObject()
	}
	if _, err := dec.ReadToken(); err != nil {
		return indexError(err, at.start, names)
	}
	for n := 0; dec.PeekKind() != '}'; n++ {
		if n == MaxMembers {
			return &Error{Message: "the JSON object has more than " + strconv.Itoa(MaxMembers) + " members"}
		}
		name, err := dec.ReadToken()
		if err != nil {
			return indexError(err, at.start, names)
		}
		variant := caseVariant(name.String(), names)
		if err := skipValue(dec, at.start, names); err != nil {
			return err
		}
		if variant != "" {
			return &Error{Pointer: "/" + variant, Message: "a name differs from \"" + variant + "\" only in case; write \"" + variant + "\""}
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return indexError(err, at.start, names)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return &Error{Message: "data after the JSON object"}
	}
	return &Error{Message: "not valid JSON", Cause: errNoReason}
}

// errNoReason is the cause if the JSON library accepts a text that the Scanner rejects. That would be a
// defect of the Scanner.
var errNoReason = errors.New("the JSON library accepts it")

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
