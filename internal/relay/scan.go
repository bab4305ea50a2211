package relay

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// maxQuickNames is how many members an object may have for the scanner to look for
// duplicates among them by comparing all with all.
const maxQuickNames = 128

var nameSeed = maphash.MakeSeed()

// scanner passes over JSON at about the speed of memory. It takes only what the
// JSON library takes too, with every name once, and gives up on the rest: what is
// rare, such as a name with an escape in it, and what is wrong. The library then
// says which of the two it is.
type scanner struct {
	b     []byte
	i     int
	names []uint64 // hashes of the names in all open objects
	depth int
	opens [maxDepth]int // where the names of each begin; -1 for a list
}

// quickIndex is index for the plain case.
func quickIndex(body []byte, at span, acted []string) (object, bool) {
	o := object{body: body, members: make([]member, 0, 8)}
	s := scanner{b: body[:at.end], i: at.start, names: make([]uint64, 0, 32)}
	if s.next() != '{' || !s.open(0) {
		return o, false
	}
	o.end = s.i
	for s.next() != '}' {
		m, ok := s.member()
		if !ok || len(o.members) == maxMembers || variant(m.name, acted) != "" {
			return o, false
		}
		o.members = append(o.members, m)
		o.end = m.at.end
		if s.next() == ',' {
			s.i++
			if s.next() == '}' {
				return o, false
			}
		} else if s.next() != '}' {
			return o, false
		}
	}
	s.i++
	return o, s.next() == 0 && s.i == len(s.b)
}

// member reads a name and passes over its value.
func (s *scanner) member() (m member, ok bool) {
	m.nameAt.start = s.i
	if m.nameAt.end, ok = s.name(); !ok {
		return m, false
	}
	m.name = string(s.b[m.nameAt.start+1 : m.nameAt.end-1])
	s.next()
	m.at.start = s.i
	ok = s.value()
	m.at.end = s.i
	return m, ok
}

// value passes over one value with all that is in it.
func (s *scanner) value() bool {
	for top := s.depth; ; {
		begun, ok := s.begin()
		if !ok {
			return false
		}
		if begun {
			continue
		}
		for more := false; !more; {
			if s.depth == top {
				return true
			}
			if more, ok = s.follow(); !ok {
				return false
			}
		}
	}
}

// begin passes over a scalar, an empty object or list, or the beginning of one
// that is not empty, up to its first value.
func (s *scanner) begin() (begun, ok bool) {
	switch s.next() {
	case '"':
		_, ok = s.text()
		return false, ok
	case '{':
		if !s.open(len(s.names)) {
			return false, false
		}
		if s.next() == '}' {
			s.close()
			return false, true
		}
		_, ok = s.name()
		return true, ok
	case '[':
		if !s.open(-1) {
			return false, false
		}
		if s.next() == ']' {
			s.close()
			return false, true
		}
		return true, true
	case 't':
		return false, s.literal("true")
	case 'f':
		return false, s.literal("false")
	case 'n':
		return false, s.literal("null")
	}
	return false, s.number()
}

// follow passes over what stands after a value: the end of what it is in, or a
// comma and what leads to the next value.
func (s *scanner) follow() (more, ok bool) {
	object := s.opens[s.depth-1] >= 0
	switch s.next() {
	case ',':
		s.i++
		if object {
			_, ok = s.name()
			return true, ok
		}
		return true, true
	case '}':
		s.close()
		return false, object
	case ']':
		s.close()
		return false, !object
	}
	return false, false
}

func (s *scanner) open(names int) bool {
	if s.depth == maxDepth {
		return false
	}
	s.opens[s.depth] = names
	s.depth++
	s.i++
	return true
}

func (s *scanner) close() {
	s.depth--
	s.i++
	if from := s.opens[s.depth]; from >= 0 {
		s.names = s.names[:from]
	}
}

// next passes over white space. It returns 0 at the end.
func (s *scanner) next() byte {
	for ; s.i < len(s.b); s.i++ {
		if c := s.b[s.i]; c > ' ' || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

// name passes over a member's name and the colon after it. It returns where the
// name ends.
func (s *scanner) name() (end int, ok bool) {
	if s.next() != '"' {
		return 0, false
	}
	from := s.i + 1
	if plain, ok := s.text(); !plain || !ok {
		return 0, false
	}
	end = s.i
	if name := s.b[from : end-1]; !utf8.Valid(name) || !s.fresh(maphash.Bytes(nameSeed, name)) || s.next() != ':' {
		return 0, false
	}
	s.i++
	return end, true
}

// fresh notes the hash of a name and reports whether it is the first of its kind in
// the innermost object.
func (s *scanner) fresh(hash uint64) bool {
	others := s.names[s.opens[s.depth-1]:]
	if len(others) == maxQuickNames || slices.Contains(others, hash) {
		return false
	}
	s.names = append(s.names, hash)
	return true
}

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// text passes over a string, eight bytes at a time. It reports whether it has no
// escapes.
func (s *scanner) text() (plain, ok bool) {
	plain = true
	i, b := s.i+1, s.b
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^('"'*ones), w^('\\'*ones)
			found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w) & tops
			if found != 0 {
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

// escape is the length of the escape that b begins with, 0 where it is none.
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

func (s *scanner) literal(word string) bool {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

// number passes over -1.2e+3 and the like.
func (s *scanner) number() bool {
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

func (s *scanner) accept(one, other byte) bool {
	if s.i < len(s.b) && (s.b[s.i] == one || s.b[s.i] == other) {
		s.i++
		return true
	}
	return false
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && digit(s.b[s.i]) {
		s.i++
	}
	return s.i > from
}
