package wire

import (
	"bytes"
	"hash/maphash"
	"iter"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Scanner reads JSON text from front to back. It validates the syntax, decodes
// nothing and allocates nothing: names and values are slices of the text. It does
// not check UTF-8, and looks for duplicate names only inside this package.
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

	maxDepth int
	unique   bool     // reject duplicate names
	names    []uint64 // hashes of the names in all open objects, if unique
	key      span     // the last member's quoted name
}

const (
	// maxScanDepth limits the nesting of a response and of any other text that is not a
	// request. It is the limit of the JSON library.
	maxScanDepth = 10_000

	// maxCompared is the number of names of an object that are compared one by one. Those
	// of a larger object are sorted.
	maxCompared = 64
)

var nameSeed = maphash.MakeSeed()

// NewScanner returns a Scanner that reads text.
func NewScanner(text []byte) Scanner { return Scanner{b: text, maxDepth: maxScanDepth} }

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
	s.forget(names)
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
		return s.text()
	case '{':
		names := len(s.names)
		for more := s.open('}'); more; more = s.more('}') {
			if _, ok := s.name(names); !ok || !s.value() {
				return false
			}
		}
		s.forget(names)
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
	if s.depth > s.maxDepth {
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

// name scans a member's name and the colon after it. The names of the object are those
// from first on.
func (s *Scanner) name(first int) (name []byte, ok bool) {
	if s.next() != '"' {
		return nil, false
	}
	start := s.i
	if !s.text() {
		return nil, false
	}
	name = s.b[start+1 : s.i-1]
	s.key = span{start, s.i}
	if s.unique && !s.remember(maphash.Bytes(nameSeed, Name(name)), first) {
		return nil, false
	}
	if s.next() != ':' {
		return nil, false
	}
	s.i++
	return name, true
}

// remember adds the hash of a name. It reports whether the hash differs from those from
// first on, unless they are too many to compare.
func (s *Scanner) remember(hash uint64, first int) bool {
	if others := s.names[first:]; len(others) < maxCompared && slices.Contains(others, hash) {
		return false
	}
	s.names = append(s.names, hash)
	return true
}

// forget removes the names from first on, those of the object that ends. It looks for
// duplicates if there were too many for remember.
func (s *Scanner) forget(first int) {
	names := s.names[first:]
	if len(names) > maxCompared {
		slices.Sort(names)
		for i := range names[1:] {
			s.failed = s.failed || names[i] == names[i+1]
		}
	}
	s.names = s.names[:first]
}

// text scans a string.
func (s *Scanner) text() bool {
	for i, b := s.i+1, s.b; ; {
		i += plainPrefix(b[i:])
		if i == len(b) {
			return false
		}
		switch b[i] {
		case '"':
			s.i = i + 1
			return true
		case '\\':
			n := escape(b[i:])
			if n == 0 {
				return false
			}
			i += n
		default:
			return false
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
