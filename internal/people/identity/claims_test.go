package identity

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// signText returns a token whose claims are exactly a text.
func signText(t *testing.T, k jose.JSONWebKey, text string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.Algorithm), Key: k}, nil)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := signer.Sign([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestAmbiguousClaims refuses tokens of which two readers may see different claims, and tokens that are
// bound to a key.
func TestAmbiguousClaims(t *testing.T) {
	p := newProvider(t)
	issuer := p.issuer()
	issuer.Rules = append([]Rule{{When: []Condition{{Claim: "groups", Values: []string{"owners"}}}, Grant: Grant{Org: "acme", Role: access.Owner}}}, issuer.Rules...)
	v := newTestVerifier(t, time.Now, issuer)
	honest, err := json.Marshal(p.claimsOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	without := func(name string) string {
		text, _ := json.Marshal(p.claimsOf(map[string]any{name: nil}))
		return string(text)
	}
	with := func(text, member string) string { return strings.TrimSuffix(text, "}") + "," + member + "}" }
	for name, text := range map[string]string{
		"groups twice":            with(string(honest), `"groups":["owners"]`),
		"sub twice":               with(string(honest), `"sub":"bob"`),
		"twice, inside":           with(string(honest), `"realm":{"roles":["a"],"roles":["b"]}`),
		"twice, escaped":          with(string(honest), `"s\u0075b":"bob"`),
		"Sub":                     with(without("sub"), `"Sub":"bob"`),
		"Sub beside sub":          with(string(honest), `"Sub":"bob"`),
		"sub with a long s":       with(without("sub"), `"ſub":"bob"`),
		"Aud":                     with(without("aud"), `"Aud":"isogloss"`),
		"EXP":                     with(without("exp"), `"EXP":9999999999`),
		"EXP beside exp":          with(string(honest), `"EXP":9999999999`),
		"Iss":                     with(without("iss"), `"Iss":"`+p.URL+`"`),
		"NBF":                     with(string(honest), `"NBF":1`),
		"CNF":                     with(string(honest), `"CNF":{}`),
		"bound to a key":          with(string(honest), `"cnf":{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}`),
		"bound to a certificate":  with(string(honest), `"cnf":{"x5t#S256":"bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}`),
		"bound to an unknown key": with(string(honest), `"cnf":null`),
		"two values":              string(honest) + `{"sub":"bob"}`,
		"a list":                  "[" + string(honest) + "]",
		"too deep":                with(string(honest), `"a":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)),
		"not UTF-8":               with(string(honest), "\"a\":\"\xff\""),
	} {
		if got, fault := v.Person(t.Context(), signText(t, p.keys[0], text)); fault == nil {
			t.Errorf("%s: admitted with role %q as %+v", name, got.Role, got.Record)
		} else if fault.Code != "invalid_token" {
			t.Errorf("%s: %s", name, fault.Code)
		}
	}
	for name, text := range map[string]string{"honest": string(honest), "another member": with(string(honest), `"Groups":["owners"]`)} {
		if got, fault := v.Person(t.Context(), signText(t, p.keys[0], text)); fault != nil || got.Role != "" || got.Record.Team != "search" {
			t.Errorf("%s: %v", name, fault)
		}
	}
}

// TestNames shows names in one line of printable characters, and no mail address that is not verified.
func TestNames(t *testing.T) {
	p := newProvider(t)
	issuer := p.issuer()
	issuer.Rules = append([]Rule{{When: []Condition{{Claim: "email", Values: []string{"boss@example.com"}}}, Grant: Grant{Org: "acme", Role: access.Owner}}}, issuer.Rules...)
	v := newTestVerifier(t, time.Now, issuer)
	for _, c := range []struct {
		mail     string
		verified any
		want     string
	}{
		{"ann@example.com", nil, "ann@example.com"},
		{"ann@example.com", true, "ann@example.com"},
		{"ann@example.com", "true", "ann@example.com"},
		{"boss@example.com", false, ""},
		{"boss@example.com", "false", ""},
		{"boss@example.com", 0, ""},
		{"a\x1b[2Jb\nc\u202ed", true, "a\uFFFD[2Jb\uFFFDc\uFFFDd"},
		{strings.Repeat("é", 300), true, strings.Repeat("é", 256) + "…"},
	} {
		got, fault := v.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(map[string]any{"email": c.mail, "email_verified": c.verified})))
		if fault != nil || got.Record.Name != c.want || got.Role != "" {
			t.Errorf("%q, verified %v: %+v, %v; want %q", c.mail, c.verified, got, fault, c.want)
		}
	}
}

// TestPathsOfAClaim checks that every dot of a name may be one of the path.
func TestPathsOfAClaim(t *testing.T) {
	c, err := parseClaims([]byte(`{"a":{"x":"1"},"a.b":{"c":"2"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{"a.x": "1", "a.b.c": "2", "a.b.d": nil, "d": nil} {
		if got, ok := c.find(path); got != want || ok != (want != nil) {
			t.Errorf("%s: %v, %v", path, got, ok)
		}
	}
}

// TestValuesOfAClaim checks that texts and truth values are values, alone or in a list, and numbers are not.
func TestValuesOfAClaim(t *testing.T) {
	c, err := parseClaims([]byte(`{"text":"a","truth":true,"number":1,"list":["a",false,2]}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"text": "[a]", "truth": "[true]", "number": "[]", "list": "[a false]", "none": "[]"} {
		if got := fmt.Sprint(c.values(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestSCIMClaim refuses tokens that do not say by a text which SCIM user they belong to.
func TestSCIMClaim(t *testing.T) {
	p := newProvider(t)
	issuer := p.issuer()
	issuer.SCIM = SCIM{Claim: "oid", Attribute: access.ExternalID}
	v := newTestVerifier(t, time.Now, issuer)
	for _, value := range []any{nil, json.RawMessage("null"), "", 7, true, []string{"ann"}, []string{}, map[string]any{"oid": "ann"}} {
		if _, fault := v.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(map[string]any{"oid": value}))); fault == nil || fault.Code != "not_admitted" {
			t.Errorf("oid %v: %v", value, fault)
		}
	}
	got, fault := v.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(map[string]any{"oid": "ann"})))
	if fault != nil || got.Record.SCIMName != access.SCIMName(p.URL, access.ExternalID, "ann") {
		t.Errorf("%+v, %v", got, fault)
	}
}

// TestAmbiguousHeaders refuses tokens whose header has a member twice, or names critical members. The library
// accepts an empty list of them.
func TestAmbiguousHeaders(t *testing.T) {
	head := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) + ".e30.x" }
	for text, fine := range map[string]bool{
		`{"alg":"EdDSA","kid":"k"}`: true, `{"alg":"EdDSA","crit":[]}`: false, `{"alg":"EdDSA","crit":["b64"],"b64":false}`: false, `{"alg":"none","alg":"EdDSA"}`: false, `[]`: false, ``: false,
	} {
		if err := checkHeader(head(text)); (err == nil) != fine {
			t.Errorf("%s: %v", text, err)
		}
	}
	payload := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://idp"}`)) // 28 characters, without a rest
	for text, want := range map[string]string{payload: "https://idp", payload + "!": ""} {
		if got := claimedIssuer("e30." + text + ".x"); got != want {
			t.Errorf("%s: the issuer is %q, want %q", text, got, want)
		}
	}
}
