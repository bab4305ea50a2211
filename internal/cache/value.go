package cache

import (
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"time"
)

// A value is, in this order:
//
//	version  1   format
//	kind     1
//	key     32   where it belongs
//	token   16   whose it is; zero for cached answers
//	digest  32   of the request; zero for cached answers
//	at       8   nanoseconds since 1970
//
// and for an answer also
//
//	status   2
//	flags    1   1: a stream
//	headers  1   how many, each as: index in kept (1), length (2), text
//	body     4   its length, and then the body to the end of the value
//
// Version, kind, key and token come first, because they are what says that a record
// is still ours. The key stands in the value and is compared when it is read: replies
// have crossed connections before, and another tenant's answer is the worst that a
// cache can give.
const (
	format    = 1
	mineLen   = 2 + 32 + 16
	headLen   = mineLen + 32 + 8
	answerLen = headLen + 2 + 1 + 1 + 4
)

type kind byte

const (
	running kind = 1 // a request with an Idempotency-Key is under way
	spent   kind = 2 // it is over, and its answer is not kept
	full    kind = 3 // an answer
)

type token [16]byte

// record is a value, decoded.
type record struct {
	kind   kind
	key    Key
	token  token
	digest Key
	at     time.Time
	answer *Answer // only with full
}

// mine is how the values of a run begin while it is under way.
func (r *record) mine() []byte {
	return r.head(make([]byte, 0, mineLen), running)
}

func (r *record) head(b []byte, k kind) []byte {
	b = append(b, format, byte(k))
	b = append(b, r.key[:]...)
	return append(b, r.token[:]...)
}

func (r *record) encode() []byte {
	size := headLen
	if r.kind == full {
		size = answerLen + len(r.answer.Body) + 64*len(kept)
	}
	b := r.head(make([]byte, 0, size), r.kind)
	b = append(b, r.digest[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.at.UnixNano()))
	if r.kind != full {
		return b
	}
	b = binary.BigEndian.AppendUint16(b, uint16(r.answer.Status))
	b = append(b, flags(r.answer))
	b = appendHeaders(b, r.answer.Header)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.answer.Body)))
	return append(b, r.answer.Body...)
}

func flags(a *Answer) byte {
	if a.Stream {
		return 1
	}
	return 0
}

// maxHeader bounds one header's text.
const maxHeader = 4 << 10

func appendHeaders(b []byte, h http.Header) []byte {
	at := len(b)
	b = append(b, 0)
	for i, name := range kept {
		v := h.Get(name)
		if v == "" || !printable(v) {
			continue
		}
		b[at]++
		b = append(b, byte(i))
		b = binary.BigEndian.AppendUint16(b, uint16(len(v)))
		b = append(b, v...)
	}
	return b
}

func printable(v string) bool {
	for i := range len(v) {
		if v[i] < ' ' || v[i] == 0x7f {
			return false
		}
	}
	return len(v) <= maxHeader
}

var errValue = errors.New("cache: not a value of this version, or not the one that was asked for")

// decode reads what is at a key. The answer's body is a part of b and not a copy.
func decode(b []byte, at Key) (*record, error) {
	if len(b) < headLen || b[0] != format {
		return nil, errValue
	}
	r := &record{kind: kind(b[1])}
	copy(r.key[:], b[2:])
	copy(r.token[:], b[2+len(r.key):])
	copy(r.digest[:], b[mineLen:])
	r.at = time.Unix(0, int64(binary.BigEndian.Uint64(b[headLen-8:])))
	if r.key != at {
		return nil, errValue
	}
	switch {
	case r.kind == full:
		return r, r.decodeAnswer(b[headLen:])
	case (r.kind == running || r.kind == spent) && len(b) == headLen:
		return r, nil
	}
	return nil, errValue
}

func (r *record) decodeAnswer(b []byte) error {
	if len(b) < answerLen-headLen {
		return errValue
	}
	a := &Answer{Status: int(binary.BigEndian.Uint16(b)), Stream: b[2] == 1, At: r.at, Header: make(http.Header, len(kept))}
	if a.Status < 200 || a.Status > 599 || b[2] > 1 {
		return errValue
	}
	rest, ok := readHeaders(b[4:], int(b[3]), a.Header)
	if !ok || len(rest) < 4 || uint64(binary.BigEndian.Uint32(rest)) != uint64(len(rest)-4) {
		return errValue
	}
	a.Body = slices.Clip(rest[4:])
	r.answer = a
	return nil
}

// readHeaders reads n headers; each is there once, in the order of the list.
func readHeaders(b []byte, n int, into http.Header) (rest []byte, ok bool) {
	last := -1
	for range n {
		if len(b) < 3 {
			return nil, false
		}
		i, size := int(b[0]), int(binary.BigEndian.Uint16(b[1:]))
		if i <= last || i >= len(kept) || size == 0 || len(b) < 3+size {
			return nil, false
		}
		v := string(b[3 : 3+size])
		if !printable(v) {
			return nil, false
		}
		into[kept[i]] = []string{v}
		b, last = b[3+size:], i
	}
	return b, true
}

// spend makes a value that has an answer into one that says only that it was given.
func spend(value []byte) []byte {
	b := slices.Clone(value[:headLen])
	b[1] = byte(spent)
	return b
}
