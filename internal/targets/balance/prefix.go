package balance

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Parts holds the parts of a request that engines cache, as raw JSON. Each may be nil.
type Parts struct {
	System []byte // the system prompt, where it is not one of the turns
	Tools  []byte // the tool definitions
	Turns  []byte // the messages: an array or a string
}

// maxRead bounds the bytes read of each part. A system prompt among the turns that is
// longer makes its conversations indistinguishable.
const maxRead = 256 << 10

// AppendPrefixes appends the hashes for Session.Prefixes: one of the tools and the
// system prompt, if there are any, and one of these with all turns before the model's
// first. The second stays the same over all turns of a conversation. Both are the same
// in every process.
//
// It hashes texts, not JSON: a client may write the same message as a string or as an
// array, and may move its cache markers.
func AppendPrefixes(dst []uint64, p Parts) []uint64 {
	var shared digest
	shared.hash.Reset()
	if len(p.Tools) > 0 {
		shared.add(cut(p.Tools))
	}
	system := wire.NewTokens(cut(p.System))
	shared.turn(&system)
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

// digest hashes texts. A copy preserves its state.
type digest struct {
	hash  xxhash.Digest
	texts int
}

func (d *digest) add(literal []byte) {
	_, _ = d.hash.Write(literal) // it never fails
	d.texts++
}

// turns hashes the turns before the model's first. It returns the digest after the
// system's turns, and the digest after all.
func (d digest) turns(list []byte) (shared, whole digest) {
	list = bytes.TrimLeft(list, " \t\r\n")
	tokens := wire.NewTokens(bytes.TrimPrefix(list, []byte("[")))
	shared, whole = d, d
	for preamble := true; ; {
		next := whole
		who := next.turn(&tokens)
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

// speaker is the author of a turn.
type speaker int

const (
	nobody speaker = iota
	user           // or a tool
	system
	model
)

// turn hashes the texts of the next turn and returns its author: nobody if there is no
// further turn.
func (d *digest) turn(tokens *wire.Tokens) speaker {
	who, typed := nobody, false
	var field []byte
	for depth := 0; ; {
		kind, literal := tokens.Next()
		switch kind {
		case '{':
			depth++
		case '[':
			depth++
			field = nil
		case '}', ']':
			depth--
		case wire.NameToken:
			field = literal
		case wire.StringToken:
			switch string(field) {
			case `"role"`:
				if depth == 1 {
					who = speakerOf(literal)
				}
			case `"type"`:
				typed = typed || depth == 1
			case `"ttl"`: // of a cache marker
			default:
				d.add(literal)
			}
		}
		switch {
		case kind == wire.NoToken && depth == 0, depth < 0:
			return nobody
		case kind == wire.NoToken, depth == 0 && kind != wire.NameToken:
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

// whose returns the author of a turn. A turn without a role is the user's, or the
// model's if it has a type: a tool call or a reasoning item.
func whose(who speaker, typed bool) speaker {
	switch {
	case who != nobody:
		return who
	case typed:
		return model
	}
	return user
}
