package access

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/isogloss-gateway/isogloss/internal/base/recent"
	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Person is somebody, or a workload, whom a token of an identity provider admits.
type Person struct {
	// Record is the account: id, name, organisation, team, scopes and limits. It has no secret.
	Record  Record
	Role    Role      // in the admin API; empty: none
	Reason  string    // which rule admitted the person
	Expires time.Time // when the token expires
	Issued  time.Time // when the token was issued; zero: it does not say
	// Revocation is the digest by which the token is revoked, however its text is spelled.
	Revocation string
	// Settings are for the coding agent of the person; nil: none. Like the role they come from the
	// token and are not stored.
	Settings *Settings
	OwnKeys  *OwnKeys // that the person may create; nil: none. It is not stored either
	// Groups are the SCIM groups with which the rules were compared; nil: none. ByGroups says that the rule
	// holds because of them.
	Groups   *SCIMGroups
	ByGroups bool

	caller Caller
}

// Settings is a document for coding agents.
type Settings struct {
	ID       string
	Checksum string // of JSON
	JSON     []byte
}

// NewPerson returns a person. Its caller is built once per token, not per request.
func NewPerson(r Record, role Role, reason string, expires time.Time) *Person {
	p := &Person{Record: r, Role: role, Reason: reason, Expires: expires}
	p.caller = newCaller(&p.Record)
	return p
}

// personPrefix begins the ids of people. The underscore tells them from ids of keys.
const personPrefix = "person_"

// PersonID returns the id of the account of a person in an organisation. It does not reveal the
// subject, and nobody can use it as a key.
func PersonID(org, issuer, subject string) string {
	sum := sha256.Sum256([]byte(org + "\x00" + issuer + "\x00" + subject))
	return personPrefix + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Attributes of a SCIM user that a claim can name.
const (
	ExternalID = "externalId"
	UserName   = "userName"
)

// SCIMName returns the name by which the account of a person finds a SCIM user: a digest of an
// attribute of the user. Letters of a userName may be of either case. An empty value has no name.
func SCIMName(issuer, attribute, value string) string {
	if value == "" {
		return ""
	}
	if attribute == UserName {
		value = strings.Map(lower, value)
	}
	sum := sha256.Sum256([]byte(issuer + "\x00" + attribute + "\x00" + value))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// lower returns the small letter of a capital one. It does not change characters that only look
// like a capital letter, such as the sign of the kelvin. So no other name equals a person's.
func lower(c rune) rune {
	if small := unicode.ToLower(c); unicode.ToUpper(small) == c {
		return small
	}
	return c
}

// IsPerson reports whether an id is that of a person.
func IsPerson(id string) bool { return strings.HasPrefix(id, personPrefix) }

// Tokens verifies tokens of identity providers.
type Tokens interface {
	Person(ctx context.Context, token string) (*Person, *llm.Error)
}

// isToken reports whether a credential has the form of a signed JWT. Other credentials are keys.
func isToken(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// checkToken authenticates a client with a token.
func (c *Clients) checkToken(r *http.Request, token string) (Caller, *llm.Error) {
	caller, _, fault := c.admit(r, token)
	return caller, fault
}

// admit returns the owner of a token and its caller. With a store the person has an account in it. Wrong
// tokens are counted.
func (c *Clients) admit(r *http.Request, token string) (Caller, *Person, *llm.Error) {
	p, fault := c.tokens.Person(r.Context(), token)
	switch {
	case fault != nil && fault.Kind == llm.Authentication:
		if wait := c.wrongKeys().Add(r, time.Now()); wait > 0 {
			fault = errTooManyWrong(wait)
		}
		return Caller{}, nil, fault
	case fault != nil:
		return Caller{}, nil, fault
	case c.directory == nil:
		return p.caller, p, nil
	}
	caller, fault := c.directory.person(r, p)
	if fault != nil {
		caller.Claimed = p.Record.ID
	}
	return caller, p, fault
}

// Admit returns the owner of a token if the gateway admits it. A person whose account is revoked, or
// whose team or organisation is blocked, is not admitted.
func (c *Clients) Admit(r *http.Request, token string) (*Person, *llm.Error) {
	if c.tokens == nil || !isToken(token) {
		return nil, errNoToken()
	}
	_, p, fault := c.admit(r, token)
	return p, fault
}

// Person authenticates a client like Check. It also returns who it is, nil for a key.
func (c *Clients) Person(r *http.Request) (Caller, *Person, *llm.Error) {
	token := agents.Key(r)
	if c.tokens == nil || !isToken(token) {
		caller, fault := c.Check(r)
		return caller, nil, fault
	}
	return c.admit(r, token)
}

// Operator authenticates an operator of the admin API, by a key of the store or by a token whose
// owner has a role.
func (c *Clients) Operator(r *http.Request) (Record, *llm.Error) {
	token := agents.Key(r)
	if c.tokens == nil || !isToken(token) {
		return c.directory.Operator(r)
	}
	p, fault := c.Admit(r, token)
	if fault != nil {
		return Record{}, fault
	}
	return p.Operator()
}

// Operator returns the person as an operator of the admin API.
func (p *Person) Operator() (Record, *llm.Error) {
	if !p.Role.valid() {
		return Record{}, errNoRole()
	}
	operator := p.Record
	operator.Role = p.Role
	return operator, nil
}

// newestTokens remembers the newest token of each person. Older tokens that are still valid may have
// other claims. They do not change the account, which would be written with every request otherwise.
type newestTokens struct {
	mu   sync.Mutex
	seen recent.Map[string, seenToken] // by person
}

type seenToken struct {
	revocation      string
	issued, expires time.Time
	groups          *SCIMGroups
	byGroups        bool
}

// newestPeople is the number of people of whom the newest token is remembered, in each generation.
const newestPeople = 8192

// note reports whether a person's account follows this token. It does if the token is the newest valid one
// seen here, or if it shows a later state of the SCIM groups by which a rule holds or held.
func (n *newestTokens) note(p *Person, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen.IsZero() {
		n.seen = recent.New[string, seenToken](newestPeople)
	}
	last, known := n.seen.Get(p.Record.ID)
	later := (p.ByGroups || last.byGroups) && p.Groups.isLater(last.groups)
	if known && !later && last.revocation != p.Revocation && now.Before(last.expires) && !p.Issued.After(last.issued) {
		return false
	}
	if !known || last.revocation != p.Revocation || last.groups != p.Groups {
		n.seen.Put(p.Record.ID, seenToken{p.Revocation, p.Issued, p.Expires, p.Groups, p.ByGroups})
	}
	return true
}

// person returns the caller of a person whose account the store has. It saves the account if it is
// new, or if the rules give the owner of the newest token something else than before.
func (d *Directory) person(r *http.Request, p *Person) (Caller, *llm.Error) {
	now := time.Now()
	if d.age(now) > d.o.Stale {
		return Caller{}, errUnavailable("the gateway cannot reach its store of keys, and the accounts it knows are too old; try again later", nil)
	}
	e := d.table.Load().find(p.Record.ID)
	newest := d.newest.note(p, now)
	if e == nil || newest && !p.Record.grantsLike(&e.record) {
		var fault *llm.Error
		if e, fault = d.savePerson(r.Context(), p, e); fault != nil {
			return Caller{}, fault
		}
	}
	if !e.recentlyUsed.Load() {
		e.recentlyUsed.Store(true)
	}
	if fault := e.checkPerson(r, now); fault != nil {
		return e.caller, fault
	}
	return e.caller, nil
}

// savePerson saves an account. While the store is down, a person with a known team gets what the
// rules give at present.
func (d *Directory) savePerson(ctx context.Context, p *Person, known *entry) (*entry, *llm.Error) {
	saved := d.flights.DoChan(p.Record.ID, func() (any, error) { return d.savePersonNow(p.Record) })
	timer := time.NewTimer(lookupWait)
	defer timer.Stop()
	err := errBusy
	select {
	case got := <-saved:
		if e, ok := got.Val.(*entry); ok && got.Err == nil {
			return e, nil
		}
		err = got.Err
	case <-timer.C:
	case <-ctx.Done():
		return nil, &llm.Error{Kind: llm.Cancelled, Message: "the client disconnected", Cause: ctx.Err()}
	}
	if known == nil || known.record.Team != p.Record.Team {
		return nil, errUnavailable("the gateway's store, in which your account would be created, is not available; try again", err)
	}
	r := known.record
	r.TakeGrants(&p.Record)
	return newEntry(r), nil
}

func (d *Directory) savePersonNow(r Record) (*entry, error) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-time.After(lookupWait):
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	t := d.table.Load()
	began := t.mark()
	saved, err := d.o.Source.SavePerson(ctx, r)
	if err != nil {
		return nil, err
	}
	return t.addLookup(saved, began), nil
}

// grantsLike reports whether a record gives what another one gives.
func (r *Record) grantsLike(o *Record) bool {
	return r.Name == o.Name && r.Team == o.Team && r.Limit == o.Limit && slices.Equal(r.Models, o.Models) &&
		slices.Equal(r.Endpoints, o.Endpoints) && r.Criticality == o.Criticality && r.SCIMName == o.SCIMName && r.SCIMRequired == o.SCIMRequired
}

// TakeGrants copies what the rules give to a person.
func (r *Record) TakeGrants(o *Record) {
	r.Name, r.Team, r.Limit, r.Models, r.Endpoints, r.Criticality = o.Name, o.Team, o.Limit, o.Models, o.Endpoints, o.Criticality
	r.SCIMName, r.SCIMRequired = o.SCIMName, o.SCIMRequired
}
