package access

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// OwnKeys says which keys people may create for themselves.
type OwnKeys struct {
	Max     int           // valid keys of a person
	Expires time.Duration // after which a key expires at the latest
	Models  []string      // names or prefixes that a key may have; empty: those of the person
}

// Allows returns the first of some models that a key of a person may not have, and whether all may be.
func (o *OwnKeys) Allows(person *Record, models []string) (wrong string, ok bool) {
	for _, m := range models {
		if !covers(person.Models, m) || len(o.Models) > 0 && !covers(o.Models, m) {
			return m, false
		}
	}
	return "", true
}

// Default returns the models of a key whose owner names none.
func (o *OwnKeys) Default(person *Record) []string {
	if len(o.Models) == 0 {
		return slices.Clone(person.Models)
	}
	return slices.Clone(o.Models)
}

// covers reports whether a list has a model, or all models of a prefix.
func covers(list []string, model string) bool {
	for _, m := range list {
		if begin, open := strings.CutSuffix(m, "*"); model == m || open && strings.HasPrefix(model, begin) {
			return true
		}
	}
	return false
}

// owned returns the caller of a key that belongs to a person: the person, with the models of the key only. So the key
// ends with the account, and both share limits and budgets.
func (d *Directory) owned(r *http.Request, e *entry, now time.Time) (Caller, *llm.Error) {
	owner, err := d.lookup(r, e.record.Owner, now)
	switch {
	case err != nil:
		return Caller{}, err
	case owner == nil || owner.record.Org != e.record.Org:
		return Caller{}, errPersonRemoved()
	}
	if err := owner.checkPerson(r, now); err != nil {
		return Caller{}, err
	}
	c := owner.caller
	c.Own, c.narrow = e.record.ID, &e.record
	return c, nil
}

// checkPerson returns why an account is rejected, nil if it is not.
func (e *entry) checkPerson(r *http.Request, now time.Time) *llm.Error {
	switch {
	case !e.record.Revoked.IsZero():
		return errPersonRevoked()
	case !e.record.Removed.IsZero():
		return errPersonRemoved()
	}
	return e.check(r, now)
}

// callerOf returns the caller of a key whose secret was checked.
func (d *Directory) callerOf(r *http.Request, e *entry, now time.Time) (Caller, *llm.Error) {
	switch {
	case e.record.Role != "":
		return Caller{}, errOperatorKey()
	case e.record.Owner != "":
		return d.owned(r, e, now)
	}
	return e.caller, nil
}

// Visitor is a client of the endpoints about itself.
type Visitor struct {
	Caller Caller
	Person *Person // nil for a key
}

// Visitor authenticates a client by its key or token.
func (c *Clients) Visitor(r *http.Request) (Visitor, *llm.Error) {
	caller, person, fault := c.Person(r)
	return Visitor{caller, person}, fault
}

// Admitted authenticates a client by a token.
func (c *Clients) Admitted(r *http.Request, token string) (Visitor, *llm.Error) {
	if c.tokens == nil || !isToken(token) {
		return Visitor{}, errNoToken()
	}
	caller, person, fault := c.admit(r, token)
	return Visitor{caller, person}, fault
}

// ProvenVisitor authenticates a client by a proof.
func (c *Clients) ProvenVisitor(r *http.Request, p Proof) (Visitor, *llm.Error) {
	e, err := c.directory.proven(r, p)
	if err != nil {
		return Visitor{}, err
	}
	caller, err := c.directory.callerOf(r, e, time.Now())
	return Visitor{Caller: caller}, err
}
