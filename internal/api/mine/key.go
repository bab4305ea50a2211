package mine

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// clientView is the client of a request.
type clientView struct {
	ID      string       `json:"id"` // of the key or the account
	Name    string       `json:"name,omitempty"`
	Person  bool         `json:"person"`
	Own     string       `json:"own_key,omitempty"` // id of the person's own key that was sent
	Org     string       `json:"org"`
	Team    string       `json:"team,omitempty"`
	Models  []string     `json:"models"`
	Limits  []limitView  `json:"limits"`
	Budgets []budgetView `json:"budgets"`
	OwnKeys *ownView     `json:"own_keys,omitempty"` // absent: the client may create none
	Keys    []keyView    `json:"keys"`               // those of the person
}

// limitView is a limit of an account of the client.
type limitView struct {
	Of          string `json:"of"` // key, person, team or organisation
	Requests    int64  `json:"requests_per_minute,omitzero"`
	Tokens      int64  `json:"tokens_per_minute,omitzero"`
	Concurrency int64  `json:"concurrency,omitzero"`
}

// budgetView is a budget of an account of the client. That of a team or an organisation has what is left of it and not what
// others have spent.
type budgetView struct {
	Of     string    `json:"of"`
	Name   string    `json:"name"`
	Budget string    `json:"budget"`
	Spent  string    `json:"spent,omitempty"`
	Left   string    `json:"left"`
	Window int64     `json:"window_seconds"`
	Reset  time.Time `json:"reset,omitzero"`
}

// ownView is what a person may create.
type ownView struct {
	Max     int      `json:"max"`
	Expires int64    `json:"expires_seconds"`
	Models  []string `json:"models"`
}

// keyView is an own key of a person.
type keyView struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	State   string    `json:"state"` // active, expired or revoked
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Models  []string  `json:"models"`
}

// keyMade is a key with its text, which only this response has.
type keyMade struct {
	Key  keyView `json:"key"`
	Text string  `json:"text"`
}

func viewKey(r access.Record, now time.Time) keyView {
	v := keyView{ID: r.ID, Name: r.Name, State: "active", Created: r.Created, Expires: r.Expires, Models: r.Models}
	switch {
	case !r.Revoked.IsZero():
		v.State = "revoked"
	case !r.Expires.IsZero() && !now.Before(r.Expires):
		v.State = "expired"
	}
	return v
}

func (s *server) showKey(ctx context.Context, v access.Visitor, _ *http.Request) (any, *llm.Error) {
	return s.client(ctx, v)
}

// client describes the client of a request.
func (s *server) client(ctx context.Context, v access.Visitor) (*clientView, *llm.Error) {
	c := &v.Caller
	out := &clientView{ID: c.Key, Name: c.Name, Person: access.IsPerson(c.Key), Own: c.Own, Org: c.Org, Team: c.Team, Models: c.Models(), Limits: []limitView{}, Budgets: []budgetView{}, Keys: []keyView{}}
	var withBudget []quota.Account
	for _, a := range c.Accounts {
		l := limitView{accountKind(a.ID), a.Limit.Requests, a.Limit.Tokens, a.Limit.Concurrency}
		if l.Requests+l.Tokens+l.Concurrency > 0 {
			out.Limits = append(out.Limits, l)
		}
		if a.Limit.Budget > 0 {
			withBudget = append(withBudget, a)
		}
	}
	if err := s.addBudgets(ctx, c, withBudget, out); err != nil {
		return nil, unavailable(err)
	}
	if v.Person == nil {
		return out, nil
	}
	if o := v.Person.OwnKeys; o != nil {
		out.OwnKeys = &ownView{o.Max, int64(o.Expires / time.Second), o.Default(&v.Person.Record)}
	}
	keys, err := s.Keys.Keys(ctx, store.KeyFilter{Org: c.Org, Owner: c.Key}, "", store.MaxPerPage)
	if err != nil {
		return nil, unavailable(err)
	}
	now := time.Now()
	for _, r := range keys {
		out.Keys = append(out.Keys, viewKey(r, now))
	}
	return out, nil
}

func (s *server) addBudgets(ctx context.Context, c *access.Caller, accounts []quota.Account, out *clientView) error {
	if len(accounts) == 0 {
		return nil
	}
	got, err := s.Budgets(ctx, "own-usage "+c.Key, c.Org, accounts)
	if err != nil {
		return err
	}
	if len(got) != len(accounts) {
		return errors.New("not all budgets are known")
	}
	for i, b := range got {
		out.Budgets = append(out.Budgets, viewBudget(accounts[i].ID, b))
	}
	return nil
}

func viewBudget(account string, b codec.Budget) budgetView {
	v := budgetView{Of: accountKind(account), Name: budget.Budget{Window: b.Window}.Name(), Budget: usage.Money(b.Limit).Decimal(),
		Left: usage.Money(max(0, b.Limit-b.Spent)).Decimal(), Window: int64(b.Window / time.Second), Reset: b.Reset}
	if strings.HasPrefix(account, "key") {
		v.Spent = usage.Money(b.Spent).Decimal()
	}
	return v
}

// accountKind returns what an account is.
func accountKind(account string) string {
	kind, id, _ := strings.Cut(budget.Owner(account), ":")
	switch {
	case kind == "key" && access.IsPerson(id):
		return "person"
	case kind == "org":
		return "organisation"
	}
	return kind
}

// keyIn describes a new key.
type keyIn struct {
	Name    string   `json:"name"`
	Models  []string `json:"models"`  // empty: those that the rule allows
	Expires string   `json:"expires"` // empty: as late as the rule allows
}

// Bounds of a new key.
const (
	maxName   = 100
	maxModels = 100
	maxModel  = 200
)

func (s *server) createKey(ctx context.Context, v access.Visitor, r *http.Request) (any, *llm.Error) {
	var in keyIn
	if fault := read(r, &in); fault != nil {
		return nil, fault
	}
	return s.create(ctx, v, r, in)
}

// create makes a key for a person.
func (s *server) create(ctx context.Context, v access.Visitor, r *http.Request, in keyIn) (*keyMade, *llm.Error) {
	rule, fault := ownKeys(v)
	if fault != nil {
		return nil, fault
	}
	now := time.Now()
	record := access.Record{Owner: v.Caller.Key, Name: strings.TrimSpace(in.Name), Org: v.Caller.Org, Team: v.Caller.Team, Created: now, Expires: now.Add(rule.Expires), Models: in.Models}
	if fault := in.check(&record, rule, &v.Person.Record, now); fault != nil {
		return nil, fault
	}
	id, sec, text := access.Mint(access.Env(s.Cell, ""))
	record.ID, record.Digests = id, []access.Digest{s.Peppers.Digest(id, sec)}
	err := s.change(ctx, v, r, "create-key", id, func() error { return s.Keys.CreateOwnKey(ctx, record, rule.Max) })
	if err != nil {
		return nil, storeFault(err)
	}
	return &keyMade{viewKey(record, now), text.Reveal()}, nil
}

// ownKeys returns what a person may create.
func ownKeys(v access.Visitor) (*access.OwnKeys, *llm.Error) {
	switch {
	case v.Person == nil:
		return nil, &llm.Error{Kind: llm.Permission, Code: "person_only", Message: "keys are created by people; sign in with the company account (isogloss login), or ask the gateway's operator"}
	case v.Person.OwnKeys == nil:
		return nil, &llm.Error{Kind: llm.Permission, Code: "own_keys_not_allowed", Message: "the gateway's rules do not let you create keys; ask its operator"}
	}
	return v.Person.OwnKeys, nil
}

// check checks a new key and completes its record.
func (in *keyIn) check(to *access.Record, rule *access.OwnKeys, person *access.Record, now time.Time) *llm.Error {
	unprintable := func(c rune) bool { return !unicode.IsPrint(c) }
	if to.Name == "" || len(to.Name) > maxName || strings.ContainsFunc(to.Name, unprintable) {
		return invalid("name", "a name has 1 to 100 bytes and no control characters")
	}
	if len(to.Models) > maxModels {
		return invalid("models", "a key has at most 100 models; use prefixes that end in *")
	}
	for _, m := range to.Models {
		if m == "" || len(m) > maxModel || strings.ContainsFunc(m, unprintable) {
			return invalid("models", "a model is empty, is longer than 200 bytes or has unprintable characters")
		}
	}
	if len(to.Models) == 0 {
		to.Models = rule.Default(person)
	} else if wrong, ok := rule.Allows(person, to.Models); !ok {
		return &llm.Error{Kind: llm.Permission, Code: llm.ModelNotAllowed, Param: "models", Message: "a key of yours may not have the model " + wrong + "; GET /v1/key shows own_keys.models, which it may have"}
	}
	if in.Expires == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, in.Expires)
	switch {
	case err != nil:
		return invalid("expires", "expected a time such as 2030-01-31T00:00:00Z")
	case !at.After(now):
		return invalid("expires", "the time is in the past")
	case at.After(to.Expires):
		return &llm.Error{Kind: llm.Permission, Code: "expires_too_late", Param: "expires", Message: "a key of yours expires after " + rule.Expires.String() + " at the latest; send an earlier time, or leave it out"}
	}
	to.Expires = at.UTC()
	return nil
}

// own returns a key of the person. One of somebody else gives the same error, after the same steps, as one that does not
// exist.
func (s *server) own(ctx context.Context, v access.Visitor, id string) (access.Record, *llm.Error) {
	if v.Person == nil {
		_, fault := ownKeys(v)
		return access.Record{}, fault
	}
	r, err := s.Keys.Key(ctx, id)
	switch {
	case errors.Is(err, access.ErrUnknown) || err == nil && (r.Owner == "" || r.Owner != v.Caller.Key):
		return access.Record{}, &llm.Error{Kind: llm.NotFound, Code: "key_not_found", Message: "you have no key with this id; GET /v1/key lists yours"}
	case err != nil:
		return r, unavailable(err)
	}
	return r, nil
}

func (s *server) revokeKey(ctx context.Context, v access.Visitor, r *http.Request) (any, *llm.Error) {
	return s.revoke(ctx, v, r, r.PathValue("id"))
}

func (s *server) revoke(ctx context.Context, v access.Visitor, r *http.Request, id string) (*keyView, *llm.Error) {
	before, fault := s.own(ctx, v, id)
	if fault != nil {
		return nil, fault
	}
	err := s.change(ctx, v, r, "revoke-key", id, func() (err error) {
		before, err = s.Keys.RevokeKey(ctx, id, time.Now())
		return err
	})
	if err != nil {
		return nil, storeFault(err)
	}
	return new(viewKey(before, time.Now())), nil
}

// rotateIn is a rotation.
type rotateIn struct {
	Overlap int64 `json:"overlap_seconds"` // how long the old secret stays valid
}

const maxOverlap = 30 * 24 * 60 * 60

func (s *server) rotateKey(ctx context.Context, v access.Visitor, r *http.Request) (any, *llm.Error) {
	var in rotateIn
	if r.ContentLength != 0 {
		if fault := read(r, &in); fault != nil {
			return nil, fault
		}
	}
	return s.rotate(ctx, v, r, r.PathValue("id"), in)
}

func (s *server) rotate(ctx context.Context, v access.Visitor, r *http.Request, id string, in rotateIn) (*keyMade, *llm.Error) {
	if in.Overlap < 0 || in.Overlap > maxOverlap {
		return nil, invalid("overlap_seconds", "expected 0 to 2592000")
	}
	record, fault := s.own(ctx, v, id)
	if fault != nil {
		return nil, fault
	}
	if _, fault := ownKeys(v); fault != nil {
		return nil, fault
	}
	now := time.Now()
	if state := viewKey(record, now).State; state != "active" {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "key_" + state, Message: "this key is " + state + "; create another one"}
	}
	sec, text := access.MintAgain(access.Env(s.Cell, ""), id)
	err := s.change(ctx, v, r, "rotate-key", id, func() (err error) {
		record, err = s.Keys.RotateKey(ctx, id, s.Peppers.Digest(id, sec), now.Add(time.Duration(in.Overlap)*time.Second))
		return err
	})
	if err != nil {
		return nil, storeFault(err)
	}
	return &keyMade{viewKey(record, now), text.Reveal()}, nil
}

// change writes an audit entry and then makes a change, so that no change is missing in the log. If it fails, a second
// entry says so.
func (s *server) change(ctx context.Context, v access.Visitor, r *http.Request, action, id string, do func() error) error {
	e := store.Entry{At: time.Now(), Actor: v.Caller.Key, Org: v.Caller.Org, Action: action, Object: "key:" + id, Address: access.Peer(r), Detail: "allowed"}
	if err := s.Audit.Audit(ctx, e); err != nil {
		return err
	}
	err := do()
	if err != nil {
		e.Detail = "failed"
		_ = s.Audit.Audit(ctx, e) // one entry too few says too much, not too little
	}
	return err
}

// storeFault returns the error of a change that the store has refused or could not make.
func storeFault(err error) *llm.Error {
	var own store.Error
	switch {
	case errors.Is(err, store.ErrTooManyKeys):
		return &llm.Error{Kind: llm.Permission, Code: "too_many_keys", Message: store.ErrTooManyKeys.Error()}
	case errors.As(err, &own):
		return &llm.Error{Kind: llm.InvalidRequest, Code: "refused", Message: own.Error()}
	}
	return unavailable(err)
}
