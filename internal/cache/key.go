package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
)

// Key is the place of a value. It tells nothing about the request to whoever does
// not hold the secret, and it cannot be made for another tenant.
type Key [sha256.Size]byte

// text is the key as Redis has it.
func (k Key) text() string { return base64.RawURLEncoding.EncodeToString(k[:]) }

// Request is everything that decides what an answer is. Two requests are the same
// where all of it is the same, byte for byte. The body is not normalised: two texts
// that mean the same to one parser mean different things to another (duplicate names,
// number text, order of keys), and upstream prompt caches see the bytes too. A client
// that repeats a request repeats its bytes.
type Request struct {
	Endpoint string   // the gateway's own name for it, such as chat_completions
	Dialect  string   // the client's protocol
	Version  string   // of the dialect, as the client asked for it
	Path     string   // with the query, for dialects that have the model and the form of the answer there
	Betas    []string // values of headers that change what is answered: Anthropic-Beta, Openai-Beta, in this order
	Route    string   // what the model's name leads to: an answer is not kept across a change of the configuration
	Body     []byte   // as the client sent it
}

// Tenant is who shares answers: an organisation, or a single key that belongs to
// none. The two cannot be mistaken for each other.
func Tenant(org, key string) string {
	if org != "" {
		return "org:" + org
	}
	return "key:" + key
}

// minSecret is what a secret has at least, in bytes.
const minSecret = 32

// keyring makes keys. The secret is shared by all nodes that share a Redis.
type keyring struct{ secret []byte }

func newKeyring(secret []byte) (keyring, error) {
	if len(secret) < minSecret {
		return keyring{}, errors.New("cache: the secret is shorter than 32 bytes; pass one that is random and the same on all nodes")
	}
	return keyring{secret: append([]byte(nil), secret...)}, nil
}

// The uses of a secret. What is made for one use is of none for another.
const (
	useAnswer = "isogloss answer 1"
	useOnce   = "isogloss once 1"
	useDigest = "isogloss digest 1"
)

// answer is where the answer to a tenant's request is.
func (r keyring) answer(tenant string, q *Request) Key {
	return r.sum(useAnswer, q, tenant)
}

// digest tells requests of one caller apart.
func (r keyring) digest(q *Request) Key { return r.sum(useDigest, q) }

// once is where the record of a caller's Idempotency-Key is.
func (r keyring) once(caller, key string) Key {
	return r.sum(useOnce, &Request{}, caller, key)
}

// sum writes each field after its length, so that no two lists of fields are the
// same bytes.
func (r keyring) sum(use string, q *Request, who ...string) (k Key) {
	m := mac{Hash: hmac.New(sha256.New, r.secret)}
	m.field(use)
	m.list(who)
	m.field(q.Endpoint)
	m.field(q.Dialect)
	m.field(q.Version)
	m.field(q.Path)
	m.field(q.Route)
	m.list(q.Betas)
	m.size(len(q.Body))
	_, _ = m.Write(q.Body) // a hash takes everything
	m.Sum(k[:0])
	return k
}

type mac struct {
	hash.Hash
	buf [128]byte
}

func (m *mac) size(n int) {
	binary.BigEndian.PutUint64(m.buf[:], uint64(n))
	_, _ = m.Write(m.buf[:8])
}

func (m *mac) field(s string) {
	m.size(len(s))
	for len(s) > 0 {
		n := copy(m.buf[:], s)
		_, _ = m.Write(m.buf[:n])
		s = s[n:]
	}
}

func (m *mac) list(all []string) {
	m.size(len(all))
	for _, s := range all {
		m.field(s)
	}
}
