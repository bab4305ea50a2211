package admin

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
)

const peopleIssuer = "https://idp.example.com"

// signer makes tokens.
type signer struct {
	t   *testing.T
	key ed25519.PrivateKey
}

// token returns a token of a subject with a group. change may change its claims.
func (s signer) token(subject, group string, change map[string]any) string {
	s.t.Helper()
	js, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: s.key, KeyID: "k"}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	claims := map[string]any{"iss": peopleIssuer, "aud": "isogloss", "sub": subject, "groups": []string{group}, "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range change {
		claims[name] = value
	}
	text, err := json.Marshal(claims)
	if err != nil {
		s.t.Fatal(err)
	}
	jws, err := js.Sign(text)
	if err != nil {
		s.t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

func newTestKey(t *testing.T) (ed25519.PublicKey, signer) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, signer{t, private}
}

// tokenStates are the states of a person, with the status that every route returns.
var tokenStates = map[string]int{"valid": 0, "expired": 401, "forged": 401, "of another audience": 401, "revoked": 403, "removed": 403, "without role": 403, "not admitted": 403}

// people lets operators sign in with tokens of an issuer whose rules give each role in organisation
// a, and returns one person for each role, with tokens in each state.
func (w *world) people() []who {
	w.t.Helper()
	directory, _ := w.options.Operators.(*access.Directory)
	public, good := newTestKey(w.t)
	_, forger := newTestKey(w.t)
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k", Use: "sig", Algorithm: "EdDSA"}}})
	w.must(err)
	file := filepath.Join(w.t.TempDir(), "jwks.json")
	w.must(os.WriteFile(file, text, 0o600))
	rule := func(group string, role access.Role) identity.Rule {
		return identity.Rule{When: []identity.Condition{{Claim: "groups", Values: []string{group}}}, Grant: identity.Grant{Org: "a", Models: []string{"*"}, Role: role}}
	}
	rules := []identity.Rule{rule("clients", "")}
	for _, role := range allRoles {
		rules = append(rules, rule(string(role), role))
	}
	verifier, err := identity.New([]identity.Issuer{{URL: peopleIssuer, Audiences: []string{"isogloss"}, JWKS: file, Rules: rules, SCIM: identity.SCIM{Claim: "sub", Attribute: access.ExternalID}}})
	w.must(err)
	clients := access.NewClients(access.NewKeys(nil), directory, verifier)
	w.options.Operators = clients

	var list []who
	for _, role := range allRoles {
		group := string(role)
		list = append(list, who{role: role, org: "a", person: true, states: tokenStates, keys: map[string]string{
			"valid":               good.token("valid "+group, group, nil),
			"expired":             good.token("valid "+group, group, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
			"forged":              forger.token("valid "+group, group, nil),
			"of another audience": good.token("valid "+group, group, map[string]any{"aud": "other"}),
			"revoked":             good.token("revoked "+group, group, nil),
			"removed":             good.token("removed "+group, group, nil),
			"without role":        good.token("client "+group, "clients", nil),
			"not admitted":        good.token("nobody "+group, "nobody", nil),
		}})
		w.lockOut(group)
	}
	w.must(directory.Refresh(w.t.Context()))
	return list
}

// lockOut revokes one person of a group as an operator does, and removes another one as an identity
// provider does.
func (w *world) lockOut(group string) {
	w.t.Helper()
	ctx := w.t.Context()
	revoked := access.Record{ID: access.PersonID("a", peopleIssuer, "revoked "+group), Org: "a", Models: []string{"*"}, SCIMName: access.SCIMName(peopleIssuer, access.ExternalID, "revoked "+group)}
	_, err := w.store.SavePerson(ctx, revoked)
	w.must(err)
	_, err = w.store.RevokeKey(ctx, revoked.ID, time.Now())
	w.must(err)
	_, err = w.store.Provision(ctx, func(ctx context.Context, c db.Conn) (string, error) {
		err := c.Exec(ctx, `INSERT INTO scim_users (id, issuer, org, user_name, external_id, active, deleted, data) VALUES ($1, $2, 'a', $1, $1, FALSE, 0, '')`, group, peopleIssuer)
		if err != nil {
			return "", err
		}
		return group, c.Exec(ctx, `INSERT INTO scim_names (name, org, user_id, given) VALUES ($1, 'a', $2, 1)`, access.SCIMName(peopleIssuer, access.ExternalID, "removed "+group), group)
	})
	w.must(err)
}

// TestRemovedIsShown checks the state of an account that the identity provider has removed, and that
// an operator may revoke it as well.
func TestRemovedIsShown(t *testing.T) {
	w := newWorld(t)
	person := w.people()[0]
	w.serve()
	w.refusal(w.send(person.keys["removed"], "GET", "/api/v1/whoami", ""), 403, "removed_account") // creates the account
	w.refusal(w.send(person.keys["revoked"], "GET", "/api/v1/whoami", ""), 403, "revoked_account")
	w.refusal(w.send(person.keys["without role"], "GET", "/api/v1/whoami", ""), 403, "no_role")
	id := access.PersonID("a", peopleIssuer, "removed owner")
	if v := read[keyView](t, w.send(person.keys["valid"], "GET", "/api/v1/keys/"+id, ""), 200); v.State != "removed" || !v.Revoked.IsZero() {
		t.Errorf("%+v", v)
	}
	if v := read[keyView](t, w.send(person.keys["valid"], "POST", "/api/v1/keys/"+id+"/revoke", ""), 200); v.State != "revoked" {
		t.Errorf("%+v", v)
	}
}
