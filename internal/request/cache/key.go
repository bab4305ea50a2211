package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
)

// Key is the key of a value. It is a MAC: without the secret it reveals nothing about
// the request and cannot be computed for another tenant.
type Key [sha256.Size]byte

// text returns the key as it is written in Redis.
func (k Key) text() string { return base64.RawURLEncoding.EncodeToString(k[:]) }

// Request holds everything that determines a response. Two requests are equal if all
// fields are equal, byte for byte. The body is not normalized: bodies that one parser
// considers equal differ for another (duplicate names, number text, order of members),
// and upstream prompt caches depend on the bytes too. A client that repeats a request
// repeats its bytes.
type Request struct {
	Endpoint string   // the gateway's name of it, such as chat_completions
	Dialect  string   // the client's protocol
	Version  string   // of the dialect, as the client requested it
	Path     string   // with the query, which in some dialects has the model and the response format
	Betas    []string // values of the headers that change the response, in a fixed order
	Route    string   // the model's targets, so that a change of the configuration is a miss
	Body     []byte   // as the client sent it
}

// Tenant returns the name of the tenant that shares responses: an organisation, or an API
// key without one. The two kinds have different prefixes.
func Tenant(org, key string) string {
	if org != "" {
		return "org:" + org
	}
	return "key:" + key
}

// minSecret is the minimum length of a secret in bytes.
const minSecret = 32

// keyring computes keys. All nodes that share a Redis have the same secret.
type keyring struct{ secret []byte }

func newKeyring(secret []byte) (keyring, error) {
	if len(secret) < minSecret {
		return keyring{}, errors.New("cache: the secret is shorter than 32 bytes; pass one that is random and the same on all nodes")
	}
	return keyring{secret: append([]byte(nil), secret...)}, nil
}

// Uses of the secret. Keys of different uses never collide.
const (
	useResponse = "isogloss answer 1"
	useOnce     = "isogloss once 1"
	useDigest   = "isogloss digest 1"
	useSeal     = "isogloss value 1"
)

// response returns the key of the response to a tenant's request.
func (r keyring) response(tenant string, q *Request) Key {
	return r.sum(useResponse, q, tenant)
}

// digest returns a digest by which the requests of one caller are compared.
func (r keyring) digest(q *Request) Key { return r.sum(useDigest, q) }

// once returns the key of the record of a caller's Idempotency-Key.
func (r keyring) once(caller, key string) Key {
	return r.sum(useOnce, &Request{}, caller, key)
}

// sum hashes each field after its length, so that two different lists of fields never
// produce the same input.
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
	_, _ = m.Write(q.Body) // a hash never fails
	m.Sum(k[:0])
	return k
}

// seal appends the MAC of a value. The value has its key in it. An empty value, which
// removes a record, has none.
func (r keyring) seal(value []byte) []byte {
	if len(value) == 0 {
		return nil
	}
	sum := r.mac(value)
	return append(value[:len(value):len(value)], sum[:]...)
}

// errForged is returned for a value that no node has written.
var errForged = errors.New("cache: a value in redis has no valid MAC")

// open returns the value without its MAC. It returns nil for no value.
func (r keyring) open(sealed []byte) ([]byte, error) {
	at := len(sealed) - sha256.Size
	if len(sealed) == 0 {
		return nil, nil
	}
	if at < 0 {
		return nil, errForged
	}
	if sum := r.mac(sealed[:at]); !hmac.Equal(sum[:], sealed[at:]) {
		return nil, errForged
	}
	return sealed[:at:at], nil
}

func (r keyring) mac(value []byte) Key { return r.sum(useSeal, &Request{Body: value}) }

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
