package cache

import (
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"time"
)

// A value is encoded as:
//
//	version  1   format
//	kind     1
//	key     32   of the value
//	token   16   of the run; zero for cached responses
//	digest  32   of the request; zero for cached responses
//	at       8   nanoseconds since 1970
//
// and for a response also
//
//	status   2
//	flags    1   1: a stream
//	headers  1   number, then each as: index in storedHeaders (1), length (2), text
//	body     4   length, then the body up to the end of the value
//
// Version, kind, key and token come first, because they identify the run that owns a
// record. The key is part of the value and compared when it is read: Redis clients have
// mixed up replies before, and a cache must never return another tenant's response.
const (
	format      = 1
	mineLen     = 2 + 32 + 16
	headLen     = mineLen + 32 + 8
	responseLen = headLen + 2 + 1 + 1 + 4
)

type kind byte

const (
	running kind = 1 // a request with an Idempotency-Key is running
	lost    kind = 2 // it has ended without a stored response
	full    kind = 3 // it has ended with a stored response
)

type token [16]byte

// record is a decoded value.
type record struct {
	kind     kind
	key      Key
	token    token
	digest   Key
	at       time.Time
	response *Response // only with full
}

// mine returns the prefix of an open run's record.
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
		size = responseLen + len(r.response.Body) + 64*len(storedHeaders)
	}
	b := r.head(make([]byte, 0, size), r.kind)
	b = append(b, r.digest[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.at.UnixNano()))
	if r.kind != full {
		return b
	}
	b = binary.BigEndian.AppendUint16(b, uint16(r.response.Status))
	b = append(b, flags(r.response))
	b = appendHeaders(b, r.response.Header)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.response.Body)))
	return append(b, r.response.Body...)
}

func flags(a *Response) byte {
	if a.Stream {
		return 1
	}
	return 0
}

// maxHeader is the maximum length of a header's value.
const maxHeader = 4 << 10

func appendHeaders(b []byte, h http.Header) []byte {
	at := len(b)
	b = append(b, 0)
	for i, name := range storedHeaders {
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

var errValue = errors.New("cache: not a value of this version, or of another key")

// decode decodes the value of a key. The body of a response shares memory with b.
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
	case (r.kind == running || r.kind == lost) && len(b) == headLen:
		return r, nil
	}
	return nil, errValue
}

func (r *record) decodeAnswer(b []byte) error {
	if len(b) < responseLen-headLen {
		return errValue
	}
	a := &Response{Status: int(binary.BigEndian.Uint16(b)), Stream: b[2] == 1, At: r.at, Header: make(http.Header, len(storedHeaders))}
	if a.Status < 200 || a.Status > 599 || b[2] > 1 {
		return errValue
	}
	rest, ok := readHeaders(b[4:], int(b[3]), a.Header)
	if !ok || len(rest) < 4 || uint64(binary.BigEndian.Uint32(rest)) != uint64(len(rest)-4) {
		return errValue
	}
	a.Body = slices.Clip(rest[4:])
	r.response = a
	return nil
}

// readHeaders reads n headers, which are in the order of storedHeaders.
func readHeaders(b []byte, n int, into http.Header) (rest []byte, ok bool) {
	last := -1
	for range n {
		if len(b) < 3 {
			return nil, false
		}
		i, size := int(b[0]), int(binary.BigEndian.Uint16(b[1:]))
		if i <= last || i >= len(storedHeaders) || size == 0 || len(b) < 3+size {
			return nil, false
		}
		v := string(b[3 : 3+size])
		if !printable(v) {
			return nil, false
		}
		into[storedHeaders[i]] = []string{v}
		b, last = b[3+size:], i
	}
	return b, true
}

// dropResponse returns a record without its response.
func dropResponse(value []byte) []byte {
	b := slices.Clone(value[:headLen])
	b[1] = byte(lost)
	return b
}
