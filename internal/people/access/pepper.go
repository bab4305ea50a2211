package access

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/people/pepperfile"
)

// Peppers turn secrets into digests. They are not in the store, so that nobody can test secrets
// with read access to it, or create keys with write access. The first has version 1; new digests
// use the last.
type Peppers struct {
	list []*pepper
}

// pepper creates digests of one version. Hashers are pooled, because keying one costs more than
// using it.
type pepper struct {
	version     int
	hashers     sync.Pool // *hasher
	snapshotKey []byte    // MAC key of the snapshot
}

type hasher struct {
	mac hash.Hash
	in  []byte
	out [sha256.Size]byte
}

// NewPeppers returns the peppers in the order of their versions. A pepper stays in the list as long
// as keys use it.
func NewPeppers(list []secret.String) (Peppers, error) {
	if len(list) == 0 {
		return Peppers{}, fmt.Errorf("there is no pepper; give one of at least %d random bytes", pepperfile.Min)
	}
	var p Peppers
	for i, s := range list {
		if len(s) < pepperfile.Min {
			return Peppers{}, fmt.Errorf("pepper %d has %d bytes; give at least %d random ones, such as 'openssl rand -hex 32' makes", i+1, len(s), pepperfile.Min)
		}
		one, err := newPepper(i+1, []byte(s.Reveal()))
		if err != nil {
			return Peppers{}, fmt.Errorf("pepper %d: %w", i+1, err)
		}
		p.list = append(p.list, one)
	}
	return p, nil
}

func newPepper(version int, key []byte) (*pepper, error) {
	sealing, err := hkdf.Key(sha256.New, key, nil, "isogloss keys snapshot", sha256.Size)
	if err != nil {
		return nil, err
	}
	p := &pepper{version: version, snapshotKey: sealing}
	p.hashers.New = func() any {
		return &hasher{mac: hmac.New(sha256.New, key), in: make([]byte, 0, idLen+secretLen)}
	}
	return p, nil
}

// Newest returns the version of new digests.
func (p Peppers) Newest() int { return len(p.list) }

// Digest returns the digest of a new key's secret. It includes the id, so that it is useless in
// another record.
func (p Peppers) Digest(id string, sec secret.String) Digest {
	newest := p.list[len(p.list)-1]
	h, _ := newest.hashers.Get().(*hasher)
	defer newest.hashers.Put(h)
	h.sum(id, sec)
	return Digest{Pepper: newest.version, Sum: h.out}
}

// match is the result of comparing a secret.
type match int

const (
	noMatch      match = iota
	matchValid         // a valid digest
	matchExpired       // a digest that was valid before the key was rotated
)

// check compares a secret with digests. It always computes a digest with every pepper and compares
// it with every digest.
func (p Peppers) check(id string, sec secret.String, digests []Digest, now time.Time) match {
	valid, ended := 0, 0
	for _, one := range p.list {
		h, _ := one.hashers.Get().(*hasher)
		h.sum(id, sec)
		for i := range digests {
			same := subtle.ConstantTimeCompare(h.out[:], digests[i].Sum[:]) & subtle.ConstantTimeEq(int32(digests[i].Pepper), int32(one.version))
			if isPast(digests[i].Until, now) {
				ended |= same
			} else {
				valid |= same
			}
		}
		one.hashers.Put(h)
	}
	switch {
	case valid == 1:
		return matchValid
	case ended == 1:
		return matchExpired
	}
	return noMatch
}

// sum computes the HMAC of id and secret. They need no separator, because ids have a fixed length.
func (h *hasher) sum(id string, sec secret.String) {
	h.mac.Reset()
	h.in = append(append(h.in[:0], id...), sec.Reveal()...)
	h.mac.Write(h.in)
	h.mac.Sum(h.out[:0])
	clear(h.in)
}

// isPast reports whether a time has passed; the zero time never does.
func isPast(end, now time.Time) bool { return !end.IsZero() && !now.Before(end) }

// Derive derives a key for another purpose, the same on all nodes. It uses the first pepper, so
// that adding peppers does not change it.
func (p Peppers) Derive(use string) ([]byte, error) {
	if len(p.list) == 0 {
		return nil, errors.New("there is no pepper to make a key from")
	}
	return hkdf.Expand(sha256.New, p.list[0].snapshotKey, "isogloss "+use, sha256.Size)
}
