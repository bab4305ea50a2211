package balance

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// Parts are the parts of a request that engines cache, as raw JSON. Each may be
// missing.
type Parts struct {
	System []byte // system, instructions or systemInstruction; a chat has it among its turns
	Tools  []byte // tools
	Turns  []byte // messages, input or contents: a list, or a string
}

// maxRead is how much of each part is read. A long system prompt among the turns
// must fit in it, or else its conversations cannot be told apart.
const maxRead = 256 << 10

// AppendPrefixes appends the hashes for Session.Prefixes: of the tools and the
// system prompt, if there are any, and of these with all that was said before the
// model first spoke. The second stays the same from a conversation's first turn to
// its last. They are the same in every process.
//
// What is hashed are texts, not JSON: a client may write the same message once as
// a string and once as a list, and may move its marks for the cache.
func AppendPrefixes(dst []uint64, p Parts) []uint64 {
	var shared digest
	shared.hash.Reset()
	if len(p.Tools) > 0 {
		shared.add(cut(p.Tools))
	}
	shared.turn(&scanner{cut(p.System)})
	shared, whole := shared.turns(cut(p.Turns))
	if shared.texts > 0 {
		dst = append(dst, shared.hash.Sum64())
	}
	if whole.texts > shared.texts {
		dst = append(dst, whole.hash.Sum64())
	}
	return dst
}

func cut(b []byte) []byte { return b[:min(len(b), maxRead)] }

// digest is the hash of the texts so far. A copy of it is a place to go back to.
type digest struct {
	hash  xxhash.Digest
	texts int
}

func (d *digest) add(literal []byte) {
	_, _ = d.hash.Write(literal) // it never fails
	d.texts++
}

// turns reads the turns before the model's first, and returns the digest as it was
// when only the system had spoken, and in the end.
func (d digest) turns(list []byte) (shared, whole digest) {
	s := &scanner{bytes.TrimLeft(list, " \t\r\n")}
	if len(s.rest) > 0 && s.rest[0] == '[' {
		s.next()
	}
	shared, whole = d, d
	for preamble := true; ; {
		next := whole
		who := next.turn(s)
		if who == nobody || who == model {
			return shared, whole
		}
		whole = next
		preamble = preamble && who == system
		if preamble {
			shared = whole
		}
	}
}

// speaker is who says a turn.
type speaker int

const (
	nobody speaker = iota
	user           // or a tool
	system
	model
)

// turn adds the texts of the next value and says whose they are: nobody's where
// there is no further value.
func (d *digest) turn(s *scanner) speaker {
	who, typed := nobody, false
	var field []byte
	for depth := 0; ; {
		kind, literal := s.next()
		switch kind {
		case '{':
			depth++
		case '[':
			depth++
			field = nil
		case '}', ']':
			depth--
		case name:
			field = literal
		case text:
			switch string(field) {
			case `"role"`:
				if depth == 1 {
					who = speakerOf(literal)
				}
			case `"type"`:
				typed = typed || depth == 1
			case `"ttl"`: // of a mark for the cache
			default:
				d.add(literal)
			}
		}
		switch {
		case kind == nothing && depth == 0, depth < 0:
			return nobody
		case kind == nothing, depth == 0 && kind != name:
			return whose(who, typed)
		}
	}
}

func speakerOf(role []byte) speaker {
	switch string(role) {
	case `"system"`, `"developer"`:
		return system
	case `"assistant"`, `"model"`:
		return model
	}
	return user
}

// whose is who says a turn without a role: in Gemini the user, and in Responses,
// where such items have a type, the model, with a call or its reasoning.
func whose(who speaker, typed bool) speaker {
	switch {
	case who != nobody:
		return who
	case typed:
		return model
	}
	return user
}
