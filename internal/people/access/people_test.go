package access

import (
	"context"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/llm"
)

// tokenInOutage is a token whose issuer cannot be reached.
const tokenInOutage = "eyJ.out.age"

// issued is a Tokens whose tokens are in a map.
type issued map[string]*Person

func (i issued) Person(_ context.Context, token string) (*Person, *llm.Error) {
	if p := i[token]; p != nil {
		return p, nil
	}
	if token == tokenInOutage {
		return nil, &llm.Error{Kind: llm.Overloaded, Code: "identity_unavailable"}
	}
	return nil, &llm.Error{Kind: llm.Authentication, Code: "invalid_token"}
}

func somebody(team string, limit quota.Limit, role Role) *Person {
	return NewPerson(Record{ID: PersonID("acme", "https://idp", "ann"), Org: "acme", Team: team, Models: []string{"m"}, Limit: limit}, role, "because", time.Now().Add(time.Hour))
}

// TestPeopleWithoutStore checks that tokens and keys of the file are accepted, and nobody else.
func TestPeopleWithoutStore(t *testing.T) {
	tokens := issued{"eyJ.a.b": somebody("search", quota.Limit{}, "")}
	for _, static := range []*Keys{NewKeys(nil), NewKeys([]Key{{Secret: "sk-file"}})} {
		c := NewClients(static, nil, tokens)
		wants(t, c, "eyJ.a.b", "200")
		wants(t, c, "eyJ.a.c", "401 invalid_token")
		wants(t, c, tokenInOutage, "503 identity_unavailable")
		wants(t, c, "", "401 ")
		wants(t, c, "sk-wrong", "401 invalid_api_key")
	}
	caller, err := NewClients(NewKeys(nil), nil, tokens).Check(request("eyJ.a.b"))
	if err != nil || caller.Team != "search" || !IsPerson(caller.Key) || !caller.Sees("m") || caller.Sees("n") {
		t.Errorf("%+v, %v", caller, err)
	}
	wants(t, NewClients(NewKeys([]Key{{Secret: "sk-file"}}), nil, tokens), "sk-file", "200")
}

// TestPeopleInStore checks that a person gets an account at the first request, that the account
// follows the rules, and that a revoked person stays out whatever the token says.
func TestPeopleInStore(t *testing.T) {
	s := newSource()
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: peppers(t)})
	ann := somebody("search", quota.Limit{Requests: 10}, "")
	tokens := issued{"eyJ.a.b": ann}
	c := NewClients(NewKeys(nil), d, tokens)
	wants(t, c, "eyJ.a.b", "200")
	wants(t, c, "eyJ.a.b", "200")
	wants(t, c, tokenInOutage, "503 identity_unavailable")
	if r := s.records[ann.Record.ID]; r.Team != "search" || r.Revision != 1 {
		t.Fatalf("the account is %+v, want one that was saved once", r)
	}

	tokens["eyJ.a.b"] = somebody("ads", quota.Limit{Requests: 20}, "") // the rules have changed
	caller, err := c.Check(request("eyJ.a.b"))
	if err != nil || caller.Team != "ads" || caller.Accounts[0].Limit.Requests != 20 {
		t.Errorf("%+v, %v: the account does not follow the rules", caller, err)
	}

	s.err = errAway
	wants(t, c, "eyJ.a.b", "200") // known
	tokens["eyJ.a.b"] = somebody("ads", quota.Limit{Requests: 5}, "")
	if caller, err := c.Check(request("eyJ.a.b")); err != nil || caller.Accounts[0].Limit.Requests != 5 {
		t.Errorf("%+v, %v: without the store, a known team is served with the new limit", caller, err)
	}
	tokens["eyJ.a.b"] = somebody("other", quota.Limit{}, "")
	wants(t, c, "eyJ.a.b", "503 keys_unavailable") // the limits of that team are not known
	s.err = nil
	tokens["eyJ.a.b"] = somebody("ads", quota.Limit{Requests: 20}, "")

	s.change(ann.Record.ID, func(r *Record) { r.Revoked = time.Now() })
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wants(t, c, "eyJ.a.b", "403 revoked_account")
	s.change(ann.Record.ID, func(r *Record) { r.Revoked, r.Removed = time.Time{}, time.Now() })
	_ = d.Refresh(t.Context())
	wants(t, c, "eyJ.a.b", "403 removed_account")
	s.change(ann.Record.ID, func(r *Record) { r.Removed, r.TeamBlocked = time.Time{}, true })
	_ = d.Refresh(t.Context())
	wants(t, c, "eyJ.a.b", "403 blocked")
}

// TestOperatorByToken checks that the rules give roles, and the account does not.
func TestOperatorByToken(t *testing.T) {
	tokens := issued{"eyJ.a.b": somebody("search", quota.Limit{}, ""), "eyJ.a.c": somebody("search", quota.Limit{}, Auditor)}
	c := NewClients(NewKeys(nil), NewDirectory(DirectoryOptions{Source: newSource(), Peppers: peppers(t)}), tokens)
	if _, err := c.Operator(request("eyJ.a.b")); err == nil || err.Code != "no_role" {
		t.Errorf("without a role: %v", err)
	}
	if r, err := c.Operator(request("eyJ.a.c")); err != nil || r.Role != Auditor || r.Org != "acme" {
		t.Errorf("with a role: %+v, %v", r, err)
	}
	if _, err := c.Operator(request("eyJ.a.d")); err == nil || err.Code != "invalid_token" {
		t.Errorf("a wrong token: %v", err)
	}
}

// TestSCIMName checks that names differ by issuer, attribute and value, and that only userNames
// ignore the case.
func TestSCIMName(t *testing.T) {
	names := map[string]bool{}
	for _, n := range []string{SCIMName("i", ExternalID, "a"), SCIMName("i", ExternalID, "A"), SCIMName("j", ExternalID, "a"), SCIMName("i", UserName, "a"), SCIMName("i", UserName, "b")} {
		if n == "" || names[n] {
			t.Errorf("%q", n)
		}
		names[n] = true
	}
	if SCIMName("i", UserName, "Ann") != SCIMName("i", UserName, "aNN") || SCIMName("i", ExternalID, "") != "" {
		t.Error("the case of a userName counts, or an empty value has a name")
	}
	for _, alike := range [][2]string{{"kate", "\u212aate"}, {"ångström", "\u212bngström"}, {"ida", "\u0130da"}, {"ωmega", "\u2126mega"}, {"straße", "stra\u1e9ee"}} {
		if SCIMName("i", UserName, alike[0]) == SCIMName("i", UserName, alike[1]) {
			t.Errorf("%q passes for %q", alike[1], alike[0])
		}
	}
	if SCIMName("i", UserName, "ÜNÏ") != SCIMName("i", UserName, "ünï") {
		t.Error("the case of a userName with accents counts")
	}
}

// TestPersonID checks that an id is no key and differs by organisation, issuer and subject.
func TestPersonID(t *testing.T) {
	ids := map[string]bool{}
	for _, id := range []string{PersonID("a", "b", "c"), PersonID("x", "b", "c"), PersonID("a", "x", "c"), PersonID("a", "b", "x"), PersonID("ab", "", "c")} {
		if _, _, isKey := Parse("gw_live_" + id + "_" + id + id); isKey || !IsPerson(id) || ids[id] {
			t.Errorf("%q", id)
		}
		ids[id] = true
	}
}

// TestTwoTokens uses two valid tokens of one person with different claims in turn. The account follows
// the newer one, and is written once. When that expires, it follows the other.
func TestTwoTokens(t *testing.T) {
	s := newSource()
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: peppers(t)})
	older, newer := somebody("search", quota.Limit{Requests: 10}, ""), somebody("ads", quota.Limit{Requests: 20}, "")
	older.Revocation, older.Issued = "older", time.Now().Add(-time.Minute)
	newer.Revocation, newer.Issued = "newer", time.Now()
	tokens := issued{"eyJ.a.old": older, "eyJ.a.new": newer}
	c := NewClients(NewKeys(nil), d, tokens)
	wants(t, c, "eyJ.a.old", "200")
	for range 50 {
		for _, token := range []string{"eyJ.a.new", "eyJ.a.old"} {
			if caller, err := c.Check(request(token)); err != nil || caller.Team != "ads" || caller.Accounts[0].Limit.Requests != 20 {
				t.Fatalf("%s: %+v, %v", token, caller, err)
			}
		}
	}
	if r := s.records[newer.Record.ID]; r.Revision != 2 {
		t.Errorf("the account was written %d times, want 2", r.Revision)
	}
	changed := somebody("ads", quota.Limit{Requests: 5}, "") // the rules, not the token
	changed.Revocation, changed.Issued = newer.Revocation, newer.Issued
	tokens["eyJ.a.new"] = changed
	if caller, err := c.Check(request("eyJ.a.new")); err != nil || caller.Accounts[0].Limit.Requests != 5 {
		t.Errorf("%+v, %v: the account does not follow the rules", caller, err)
	}
	gone := somebody("hr", quota.Limit{}, "")
	gone.Revocation, gone.Issued, gone.Expires = "gone", time.Now().Add(time.Second), time.Now().Add(-time.Second)
	tokens["eyJ.a.gone"] = gone
	wants(t, c, "eyJ.a.gone", "200")
	if caller, err := c.Check(request("eyJ.a.old")); err != nil || caller.Team != "search" {
		t.Errorf("%+v, %v: a token that has expired still decides", caller, err)
	}
}
