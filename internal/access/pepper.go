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

	"github.com/isogloss-gateway/isogloss/internal/secret"
)

// pepperMin is how many bytes a pepper has at least.
const pepperMin = 32

// Peppers turn secrets into digests. They are kept away from the store, so that
// who reads the store cannot try secrets, and who writes to it cannot make keys.
// The first is version 1; new digests are made with the last.
type Peppers struct {
	list []*pepper
}

// pepper makes digests of one version. Its hashers are kept, because keying one
// costs more than using it.
type pepper struct {
	version int
	hashers sync.Pool // *hasher
	sealing []byte    // key for what this node writes to its own disk
}

type hasher struct {
	mac hash.Hash
	in  []byte
	out [sha256.Size]byte
}

// NewPeppers takes the peppers in the order of their versions. One that was used
// stays in the list as long as there are keys from its time.
func NewPeppers(list []secret.String) (Peppers, error) {
	if len(list) == 0 {
		return Peppers{}, fmt.Errorf("there is no pepper; give one of at least %d random bytes", pepperMin)
	}
	var p Peppers
	for i, s := range list {
		if len(s) < pepperMin {
			return Peppers{}, fmt.Errorf("pepper %d has %d bytes; give at least %d random ones, such as 'openssl rand -hex 32' makes", i+1, len(s), pepperMin)
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
	p := &pepper{version: version, sealing: sealing}
	p.hashers.New = func() any {
		return &hasher{mac: hmac.New(sha256.New, key), in: make([]byte, 0, idLen+secretLen)}
	}
	return p, nil
}

// Newest is the version that new digests are made with.
func (p Peppers) Newest() int { return len(p.list) }

// Digest is what is kept of a new key's secret. The id is part of it, so that a
// digest copied to another record opens nothing.
func (p Peppers) Digest(id string, sec secret.String) Digest {
	newest := p.list[len(p.list)-1]
	h, _ := newest.hashers.Get().(*hasher)
	defer newest.hashers.Put(h)
	h.sum(id, sec)
	return Digest{Pepper: newest.version, Sum: h.out}
}

// verdict is what became of a comparison.
type verdict int

const (
	wrong   verdict = iota
	right           // a digest that is valid
	outworn         // a digest that was valid until the key was rotated
)

// check compares a secret with digests. It makes a sum with every pepper and
// compares with every digest, whatever was found before.
func (p Peppers) check(id string, sec secret.String, digests []Digest, now time.Time) verdict {
	valid, ended := 0, 0
	for _, one := range p.list {
		h, _ := one.hashers.Get().(*hasher)
		h.sum(id, sec)
		for i := range digests {
			same := subtle.ConstantTimeCompare(h.out[:], digests[i].Sum[:]) & subtle.ConstantTimeEq(int32(digests[i].Pepper), int32(one.version))
			if past(digests[i].Until, now) {
				ended |= same
			} else {
				valid |= same
			}
		}
		one.hashers.Put(h)
	}
	switch {
	case valid == 1:
		return right
	case ended == 1:
		return outworn
	}
	return wrong
}

// sum is the HMAC of id and secret. Where one ends needs no mark: ids of keys that
// were parsed have one length.
func (h *hasher) sum(id string, sec secret.String) {
	h.mac.Reset()
	h.in = append(append(h.in[:0], id...), sec.Reveal()...)
	h.mac.Write(h.in)
	h.mac.Sum(h.out[:0])
	clear(h.in)
}

// past reports whether an end has come; a zero one never does.
func past(end, now time.Time) bool { return !end.IsZero() && !now.Before(end) }

// Derive makes a key for another use of what all nodes share. It is made from the
// first pepper, so that it stays when peppers are added.
func (p Peppers) Derive(use string) ([]byte, error) {
	if len(p.list) == 0 {
		return nil, errors.New("there is no pepper to make a key from")
	}
	return hkdf.Expand(sha256.New, p.list[0].sealing, "isogloss "+use, sha256.Size)
}
