package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Proof says that somebody has once sent the secret of a key. It holds as long as the key is valid and has
// this secret: a rotation ends it as it ends the secret. It does not reveal the secret.
type Proof struct {
	Key string            `json:"key"`
	Sum [sha256.Size]byte `json:"sum"` // of the digest that matched
}

// Prove authenticates a client or an operator by a key of the store.
func (c *Clients) Prove(r *http.Request) (Record, Proof, *llm.Error) {
	text := agents.Key(r)
	id, sec, minted := Parse(text)
	if c.directory == nil || !minted {
		return Record{}, Proof{}, &llm.Error{Kind: llm.Authentication, Code: "not_a_key", Message: "a session of this kind begins with a key of the gateway's store"}
	}
	e, err := c.directory.authenticate(r, id, sec)
	if err != nil {
		return Record{}, Proof{}, err
	}
	return e.record, Proof{e.record.ID, c.directory.o.Peppers.matching(e.record.ID, sec, e.record.Digests)}, nil
}

// matching returns the sum of the digest that matches a secret, zero without one.
func (p Peppers) matching(id string, sec secret.String, digests []Digest) (sum [sha256.Size]byte) {
	for _, d := range digests {
		if p.check(id, sec, []Digest{d}, time.Time{}) == matchValid {
			return d.Sum
		}
	}
	return sum
}

// ProvenOperator authenticates an operator by a proof.
func (c *Clients) ProvenOperator(r *http.Request, p Proof) (Record, *llm.Error) {
	e, err := c.directory.proven(r, p)
	switch {
	case err != nil:
		return Record{}, err
	case !e.record.Role.valid():
		return Record{}, errClientKey()
	}
	return e.record, nil
}

// proven returns the key of a proof.
func (d *Directory) proven(r *http.Request, p Proof) (*entry, *llm.Error) {
	now := time.Now()
	if d == nil || p.Key == "" {
		return nil, errWrongKey()
	}
	if d.age(now) > d.o.Stale {
		return nil, errUnavailable("the gateway cannot reach its store of keys, and the keys it knows are too old; try again later", nil)
	}
	e, err := d.lookup(r, p.Key, now)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return nil, errWrongKey()
	}
	for _, digest := range e.record.Digests {
		if subtle.ConstantTimeCompare(digest.Sum[:], p.Sum[:]) == 1 && !isPast(digest.Until, now) {
			return e, e.check(r, now)
		}
	}
	return nil, errRotated()
}
