package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Maximum number of bytes that the gateway may read of an endless answer, including those in
// network buffers.
const mostRead = 32 << 20

// documents are the answers of an issuer that an attack replaces, with the members that count.
var documents = map[string]struct {
	path    string
	members []string
}{
	"discovery": {"/.well-known/openid-configuration", []string{"issuer", "jwks_uri"}},
	"keys":      {"/keys", []string{"keys"}},
	"key":       {"/keys", []string{"kty", "crv", "x", "kid"}},
}

// hostileDocuments returns the answers of an issuer, by the name of the attack.
func hostileDocuments(document, keys, key, elsewhere string) map[string]hostile.Answer {
	all := map[string]hostile.Answer{}
	for kind, d := range documents {
		honest := map[string]string{"discovery": document, "keys": keys, "key": key}[kind]
		for _, a := range hostile.Answers(honest, elsewhere) {
			member, _, changed := strings.Cut(a.Name, " is ")
			if changed && !slices.Contains(d.members, member) || kind == "key" && !changed {
				continue
			}
			if kind == "key" {
				a = hostile.Fixed(a.Name, `{"keys":[`+a.Text+`]}`)
			}
			all[kind+"/"+a.Name] = a
		}
	}
	return all
}

// documentNames returns the names of the hostile documents in a fixed order.
func documentNames() (names []string) {
	const key = `{"kty":"OKP","crv":"Ed25519","kid":"ed","x":"AA"}`
	for name := range hostileDocuments(`{"issuer":"i","jwks_uri":"u","authorization_endpoint":"a","token_endpoint":"t"}`, `{"keys":[`+key+`]}`, key, "http://elsewhere") {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// issuerAttacks send tokens of issuers whose documents are hostile. Each is an issuer of its own, so that
// the gateway has read nothing of it before.
func issuerAttacks() (all []attack) {
	for i, name := range documentNames() {
		do := func(ctx context.Context, r *rig) *evidence {
			q := generate("chat", testrig.Chat, "chat").request("")
			token := r.issuer.sign("EdDSA", r.issuer.claims(fmt.Sprint("i", i), nil))
			q.headers, q.from = append(q.headers, "Authorization", "Bearer "+token), addressed(20000+i)
			e := r.send(ctx, q)
			e.sent = "the document " + name + " for " + e.sent
			sent := r.documents[i].Sent.Load()
			e.problem(sent > mostRead, "%d bytes of an answer without an end were read", sent)
			return e
		}
		all = append(all, attack{name: "issuers/" + name, do: do, holds: []oracle{refuses(401, 403, 503), staysHome}})
	}
	return all
}

// issuersRig starts a gateway with an issuer for every hostile document, and one that is honest.
func issuersRig(ctx context.Context, o options) (*rig, error) {
	r, err := start(func(r *rig) *config {
		r.issuer = newIssuer()
		p := r.issuer
		c := tenantStore(r)
		c.top = append(c.top, "identity:", "  issuers:", fmt.Sprintf(`    - { issuer: %q, audiences: [gateway], rules: [{ org: a }] }`, p.url("main")))
		for i, name := range documentNames() {
			issuer := fmt.Sprint("i", i)
			kind, _, _ := strings.Cut(name, "/")
			s := hostile.New()
			s.Answer = hostileDocuments(p.document(issuer), p.keys(), p.keyList()[0], p.elsewhere.URL)[name]
			p.answers["/"+issuer+documents[kind].path] = s
			r.documents = append(r.documents, s)
			c.top = append(c.top, fmt.Sprintf(`    - { issuer: %q, audiences: [gateway], rules: [{ org: a }] }`, p.url(issuer)))
		}
		return c
	})(ctx, o)
	return admitsControl(ctx, r, err)
}

// admitsControl checks that a valid token is served. Otherwise the refusal of other tokens would
// prove nothing.
func admitsControl(ctx context.Context, r *rig, err error) (*rig, error) {
	if err != nil {
		return nil, err
	}
	if err := testrig.Run(func() {
		for _, alg := range []string{"EdDSA", "RS256", "ES256"} {
			if e := r.withToken(ctx, r.issuer.sign(alg, r.issuer.claims("main", nil))); e.status != 200 {
				testrig.NoError(fmt.Errorf("a valid token with %s is not served: status %d: %s", alg, e.status, testrig.Clip(e.body, 300)))
			}
		}
	}); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// The gateway's addresses as people reach it, its id at the issuer, and its secret.
const (
	peopleURL    = "http://127.0.0.1:8080"
	operatorsURL = "http://127.0.0.1:8081"
	gatewayID    = "gateway-client"
)

// peopleConfig is the configuration of a gateway that people sign in at.
func peopleConfig(r *rig) *config {
	r.issuer = newIssuer()
	c := tenantStore(r)
	c.keys = append(c.keys, operators()...)
	c.keys = append(c.keys, keySpec{name: "scim", role: "key-manager", body: `"org":"a","endpoints":["scim"]`}, keySpec{name: "scim-b", role: "key-manager", body: `"org":"b","endpoints":["scim"]`},
		keySpec{name: "no-scim", role: "key-manager", body: `"org":"a","endpoints":["admin"]`})
	issuer := func(name string, more ...string) string {
		parts := append([]string{fmt.Sprintf("issuer: %q", r.issuer.url(name)), "audiences: [gateway]"}, more...)
		return "    - { " + strings.Join(parts, ", ") + " }"
	}
	c.top = append(c.top, "identity:", fmt.Sprintf("  sign_in: { url: %q, admin: %q, client: %s, secret: %s }", peopleURL, operatorsURL, gatewayID, headerSecret), "  issuers:",
		issuer("main", "clients: [cli]", "name: name", "rules: [{ when: { groups: ops }, org: a, role: auditor }, { when: { groups: search }, org: a, team: t, own_keys: { max: 3, models: [chat, \"chat-*\"] } }]"),
		issuer("hr", "scim: { claim: oid, attribute: externalId }", "rules: [{ org: a }]"),
		issuer("strict", "scim: { path: /scim/strict, claim: upn, attribute: userName, required: true }", "rules: [{ org: a }]"),
		issuer("grouped", "scim: { path: /scim/grouped, claim: oid, groups: true }", "rules: [{ when: { groups: g-ops }, org: a, role: auditor }, { when: { groups: g-in }, org: a }]"),
		issuer("named", "scim: { path: /scim/named, claim: oid, groups: true, group_attribute: displayName }", "rules: [{ when: { groups: Insiders }, org: a }]"))
	return c
}

// peopleRig starts a gateway that people sign in at.
func peopleRig(ctx context.Context, o options) (*rig, error) {
	r, err := start(peopleConfig)(ctx, o)
	if r, err = admitsControl(ctx, r, err); err != nil {
		return nil, err
	}
	if err = testrig.Run(func() { r.revokeGone(ctx) }); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}
