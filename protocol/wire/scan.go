package wire

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Scanner reads JSON text from front to back. It validates the syntax, decodes
// nothing and allocates nothing: names and values are slices of the text. It does
// not look for duplicate names or invalid UTF-8.
//
// [Scanner.Members] and [Scanner.Items] iterate over the next value, and
// [Scanner.Value] returns it. After a syntax error all of them return nothing, so
// that it is enough to call [Scanner.End] once, at the end:
//
//	s := wire.NewScanner(text)
//	for name := range s.Members() {
//		switch string(name) {
//		case "id":
//			id = wire.Unquote(s.Value())
//		case "choices":
//			for range s.Items() {
//				choices = append(choices, s.Value())
//			}
//		}
//	}
//	if err := s.End(); err != nil {
type Scanner struct {
	b      []byte
	i      int
	depth  int
	failed bool

	strict bool     // the rules of IndexObject
	key    span     // the last member's quoted name
	names  []uint64 // hashes of the names in all open objects, if strict
}

const (
	// maxScanDepth limits the nesting of a response and of any other text that is not
	// strict. It is the limit of the JSON library.
	maxScanDepth = 10_000

	// maxScanNames limits the members of an object in strict mode, which compares
	// each name with all others of the object.
	maxScanNames = 128
)

var nameSeed = maphash.MakeSeed()

// NewScanner returns a Scanner that reads text.
func NewScanner(text []byte) Scanner { return Scanner{b: text} }

// Kind returns the kind of the next value without reading it. It returns 0 if
// there is none, and after an error.
func (s *Scanner) Kind() jsontext.Kind {
	if s.failed {
		return 0
	}
	switch c := s.next(); c {
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	case '{', '[', '"', 't', 'f', 'n':
		return jsontext.Kind(c)
	}
	return 0
}

// Value reads the next value and returns its text, or nil after an error.
func (s *Scanner) Value() Raw {
	if s.failed {
		return nil
	}
	s.next()
	start := s.i
	if !s.value() {
		s.failed = true
		return nil
	}
	return s.b[start:s.i]
}

// Members iterates over the members of the next value, which it skips if it is not
// an object. It yields each name as it is written between its quotes, escapes
// included. The body of the loop may read the member's value; otherwise Members
// skips it. A Scanner cannot be used any more after a break.
func (s *Scanner) Members() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { s.members(yield) }
}

// Items iterates over the items of the next value, which it skips if it is not an
// array. It yields each item's position. The body of the loop may read the item;
// otherwise Items skips it. A Scanner cannot be used any more after a break.
func (s *Scanner) Items() iter.Seq[int] {
	return func(yield func(int) bool) { s.items(yield) }
}

// Picks are the members that [Pick] reads, by name.
type Picks map[string]*Raw

// Pick reads members of an object as slices of its text. It validates the syntax of the whole text.
func Pick(text []byte, members Picks) error {
	s := NewScanner(text)
	if s.Kind() != '{' {
		return &Error{Message: "not an object"}
	}
	for name := range s.Members() {
		if to := members[string(Name(name))]; to != nil {
			*to = s.Value()
		}
	}
	return s.End()
}

// Rest returns the text that has not been read.
func (s *Scanner) Rest() []byte { return s.b[s.i:] }

// Name returns the name of a member that [Scanner.Members] yields, without its escapes.
func Name(name []byte) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	plain, _ := jsontext.AppendUnquote(nil, append(append([]byte{'"'}, name...), '"')) // an unpaired surrogate becomes U+FFFD
	return plain
}

// Offset returns the number of bytes read so far.
func (s *Scanner) Offset() int { return s.i }

// End returns an [*Error] if the text read so far is invalid or if anything but
// white space follows it.
func (s *Scanner) End() error {
	if s.failed || s.next() != 0 || s.i < len(s.b) {
		return &Error{Message: "not valid JSON at byte " + strconv.Itoa(s.i)}
	}
	return nil
}

func (s *Scanner) members(yield func(name []byte) bool) {
	if s.failed {
		return
	}
	if s.next() != '{' {
		s.Value()
		return
	}
	names := len(s.names)
	for more := s.open('}'); more; more = s.more('}') {
		name, ok := s.name(names)
		if !ok {
			s.failed = true
			return
		}
		s.next()
		start := s.i
		if !yield(name) {
			return
		}
		if s.i == start {
			s.Value()
		}
	}
	s.names = s.names[:names]
}

func (s *Scanner) items(yield func(i int) bool) {
	if s.failed {
		return
	}
	if s.next() != '[' {
		s.Value()
		return
	}
	n := 0
	for more := s.open(']'); more; more = s.more(']') {
		s.next()
		start := s.i
		if !yield(n) {
			return
		}
		if s.i == start {
			s.Value()
		}
		n++
	}
}

// value scans one value, including everything nested in it.
func (s *Scanner) value() bool {
	switch s.next() {
	case '"':
		_, ok := s.text()
		return ok
	case '{':
		names := len(s.names)
		for more := s.open('}'); more; more = s.more('}') {
			if _, ok := s.name(names); !ok || !s.value() {
				return false
			}
		}
		s.names = s.names[:names]
		return !s.failed
	case '[':
		for more := s.open(']'); more; more = s.more(']') {
			if !s.value() {
				return false
			}
		}
		return !s.failed
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

// open scans the opening bracket of an object or array, and the closing one if it
// is empty. It reports whether there is a first member or item.
func (s *Scanner) open(closing byte) bool {
	s.i++
	s.depth++
	if s.depth > maxScanDepth || s.strict && s.depth > MaxDepth {
		s.failed = true
		return false
	}
	if s.next() != closing {
		return true
	}
	s.i++
	s.depth--
	return false
}

// more scans what follows a member or item: a comma or the closing bracket. It
// reports whether there is another member or item.
func (s *Scanner) more(closing byte) bool {
	if s.failed {
		return false
	}
	switch s.next() {
	case ',':
		s.i++
		return true
	case closing:
		s.i++
		s.depth--
		return false
	}
	s.failed = true
	return false
}

// next skips white space and returns the byte after it, or 0 at the end.
func (s *Scanner) next() byte {
	for ; s.i < len(s.b); s.i++ {
		if c := s.b[s.i]; c > ' ' || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

// name scans a member's name and the colon after it. In strict mode it rejects
// escapes, invalid UTF-8 and a name that is among the hashes from first on.
func (s *Scanner) name(first int) (name []byte, ok bool) {
	if s.next() != '"' {
		return nil, false
	}
	start := s.i
	plain, ok := s.text()
	if !ok {
		return nil, false
	}
	name = s.b[start+1 : s.i-1]
	if s.strict {
		s.key = span{start, s.i}
		if !plain || !utf8.Valid(name) || !s.unique(maphash.Bytes(nameSeed, name), first) {
			return nil, false
		}
	}
	if s.next() != ':' {
		return nil, false
	}
	s.i++
	return name, true
}

// unique adds the hash of a name and reports whether it differs from those from
// first on.
func (s *Scanner) unique(hash uint64, first int) bool {
	others := s.names[first:]
	if len(others) == maxScanNames || slices.Contains(others, hash) {
		return false
	}
	s.names = append(s.names, hash)
	return true
}

// text scans a string, eight bytes at a time. It reports whether the string has no
// escapes.
func (s *Scanner) text() (plain, ok bool) {
	plain = true
	i, b := s.i+1, s.b
	for {
		for i+8 <= len(b) {
			if found := special(binary.LittleEndian.Uint64(b[i:])); found != 0 {
				i += bits.TrailingZeros64(found) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return plain, false
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return plain, true
		case c == '\\':
			n := escape(b[i:])
			if n == 0 {
				return plain, false
			}
			plain = false
			i += n
		case c < ' ':
			return plain, false
		default:
			i++
		}
	}
}

// escape returns the length of the escape sequence at the start of b, or 0 if it is
// invalid.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && hex(b[2]) && hex(b[3]) && hex(b[4]) && hex(b[5]) {
			return 6
		}
	}
	return 0
}

func hex(c byte) bool {
	return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func (s *Scanner) literal(word string) bool {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

// number scans a number.
func (s *Scanner) number() bool {
	s.accept('-', '-')
	if !s.accept('0', '0') && !s.digits() {
		return false
	}
	if s.accept('.', '.') && !s.digits() {
		return false
	}
	if s.accept('e', 'E') {
		s.accept('+', '-')
		return s.digits()
	}
	return true
}

func (s *Scanner) accept(one, other byte) bool {
	if s.i < len(s.b) && (s.b[s.i] == one || s.b[s.i] == other) {
		s.i++
		return true
	}
	return false
}

func (s *Scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && digit(s.b[s.i]) {
		s.i++
	}
	return s.i > from
}
