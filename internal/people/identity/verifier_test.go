package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is an identity provider with a discovery document and keys.
type provider struct {
	*httptest.Server
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	down    bool
	moved   bool // the keys have another address, which down does not concern
	fetches atomic.Int64
}

func newProvider(t testing.TB) *provider {
	p := &provider{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		path := map[bool]string{false: "/keys", true: "/moved"}[p.moved]
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + path, "id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"}})
	})
	keys := func(w http.ResponseWriter, r *http.Request) {
		p.fetches.Add(1)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.down && r.URL.Path == "/keys" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		set := jose.JSONWebKeySet{}
		for _, k := range p.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	}
	mux.HandleFunc("GET /keys", keys)
	mux.HandleFunc("GET /moved", keys)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	p.addKey(t, "k1", jose.RS256)
	return p
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *provider) addKey(t testing.TB, id string, alg jose.SignatureAlgorithm) jose.JSONWebKey {
	t.Helper()
	var key crypto.Signer
	var err error
	switch alg {
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	k := jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(alg), Use: "sig"}
	p.set(func() { p.keys = append(p.keys, k) })
	return k
}

// sign returns a token with the given key and claims.
func sign(t testing.TB, k jose.JSONWebKey, header map[jose.HeaderKey]any, c map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.Algorithm), Key: k}, &jose.SignerOptions{ExtraHeaders: header})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(c)
	jws, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// claimsOf returns valid claims with changes; nil removes one.
func (p *provider) claimsOf(change map[string]any) map[string]any {
	c := map[string]any{"iss": p.URL, "sub": "ann", "aud": "isogloss", "exp": time.Now().Add(time.Hour).Unix(), "groups": []string{"staff", "llm-search"}, "email": "ann@example.com"}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func (p *provider) issuer() Issuer {
	return Issuer{URL: p.URL, Audiences: []string{"isogloss"}, Name: "email", Rules: []Rule{
		{When: []Condition{{Claim: "groups", Values: []string{"llm-search"}}}, Grant: Grant{Org: "acme", Team: "search", Models: []string{"*"}, Limit: quota.Limit{Requests: 60}}},
	}}
}

func newTestVerifier(t testing.TB, now func() time.Time, issuers ...Issuer) *Verifier {
	t.Helper()
	v, err := newVerifier(issuers, now)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAdmitted checks that a valid token of each algorithm gives what the rule says.
func TestAdmitted(t *testing.T) {
	p := newProvider(t)
	v := newTestVerifier(t, time.Now, p.issuer())
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA} {
		k := p.addKey(t, string(alg), alg)
		v.issuers[p.URL].keys.tried = time.Time{} // the pause is tested below
		got, fault := v.Person(t.Context(), sign(t, k, nil, p.claimsOf(nil)))
		if fault != nil {
			t.Fatalf("%s: %v (%v)", alg, fault, fault.Cause)
		}
		r := got.Record
		if r.Org != "acme" || r.Team != "search" || r.Name != "ann@example.com" || r.Limit.Requests != 60 ||
			got.Reason != "team search, because groups contains llm-search" {
			t.Errorf("%s: %+v, %q", alg, r, got.Reason)
		}
	}
}

// TestReasonNamesTheRole checks that the reason says what else than a team a rule gives.
func TestReasonNamesTheRole(t *testing.T) {
	g := Grant{Org: "acme", Role: access.Auditor}
	if got := g.describe("the token is valid"); got != "organisation acme, role "+string(access.Auditor)+", because the token is valid" {
		t.Error(got)
	}
}

// TestAttacks checks that forged, foreign and misused tokens are refused.
func TestAttacks(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	good := p.keys[0]
	v := newTestVerifier(t, time.Now, p.issuer())
	public, _ := json.Marshal(good.Public())
	der := good.Key.(*rsa.PrivateKey).N.Bytes()
	hmacKey := func(secret []byte) jose.JSONWebKey {
		return jose.JSONWebKey{Key: secret, KeyID: "k1", Algorithm: string(jose.HS256)}
	}
	none := func(c map[string]any) string {
		text, _ := json.Marshal(c)
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`)) + "." + base64.RawURLEncoding.EncodeToString(text) + "."
	}
	valid := sign(t, good, nil, p.claimsOf(nil))
	if _, fault := v.Person(t.Context(), valid); fault != nil {
		t.Fatalf("the valid token: %v", fault)
	}
	parts := strings.Split(valid, ".")
	hour := func(n int) int64 { return time.Now().Add(time.Duration(n) * time.Hour).Unix() }
	for name, c := range map[string]struct{ token, want string }{
		"alg none":              {none(p.claimsOf(nil)), "invalid_token"},
		"alg none, signed":      {none(p.claimsOf(nil)) + parts[2], "invalid_token"},
		"HMAC with JWK":         {sign(t, hmacKey(public), nil, p.claimsOf(nil)), "invalid_token"},
		"HMAC with modulus":     {sign(t, hmacKey(der), nil, p.claimsOf(nil)), "invalid_token"},
		"wrong key, same id":    {sign(t, other.keys[0], nil, p.claimsOf(nil)), "invalid_token"},
		"changed claims":        {parts[0] + "." + strings.Split(sign(t, other.keys[0], nil, p.claimsOf(map[string]any{"sub": "bob"})), ".")[1] + "." + parts[2], "invalid_token"},
		"unknown issuer":        {sign(t, other.keys[0], nil, other.claimsOf(nil)), "invalid_token"},
		"trailing slash":        {sign(t, good, nil, p.claimsOf(map[string]any{"iss": p.URL + "/"})), "invalid_token"},
		"another tenant":        {sign(t, good, nil, p.claimsOf(map[string]any{"iss": p.URL + "/realms/other"})), "invalid_token"},
		"no issuer":             {sign(t, good, nil, p.claimsOf(map[string]any{"iss": nil})), "invalid_token"},
		"wrong audience":        {sign(t, good, nil, p.claimsOf(map[string]any{"aud": "billing"})), "invalid_token"},
		"audiences of others":   {sign(t, good, nil, p.claimsOf(map[string]any{"aud": []string{"billing", "ISOGLOSS"}})), "invalid_token"},
		"no audience":           {sign(t, good, nil, p.claimsOf(map[string]any{"aud": nil})), "invalid_token"},
		"no subject":            {sign(t, good, nil, p.claimsOf(map[string]any{"sub": nil})), "invalid_token"},
		"expired":               {sign(t, good, nil, p.claimsOf(map[string]any{"exp": hour(-1)})), "expired_token"},
		"no expiry":             {sign(t, good, nil, p.claimsOf(map[string]any{"exp": nil})), "expired_token"},
		"not yet valid":         {sign(t, good, nil, p.claimsOf(map[string]any{"nbf": hour(1)})), "invalid_token"},
		"logout token":          {sign(t, good, nil, p.claimsOf(map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}})), "invalid_token"},
		"not in a group":        {sign(t, good, nil, p.claimsOf(map[string]any{"groups": []string{"staff"}})), "not_admitted"},
		"group inside a text":   {sign(t, good, nil, p.claimsOf(map[string]any{"groups": "x llm-search"})), "not_admitted"},
		"group as an object":    {sign(t, good, nil, p.claimsOf(map[string]any{"groups": map[string]any{"llm-search": true}})), "not_admitted"},
		"jku":                   {sign(t, other.keys[0], map[jose.HeaderKey]any{"jku": other.URL + "/keys"}, p.claimsOf(nil)), "invalid_token"},
		"x5u":                   {sign(t, other.keys[0], map[jose.HeaderKey]any{"x5u": other.URL + "/keys"}, p.claimsOf(nil)), "invalid_token"},
		"JWS in JSON":           {`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, "invalid_token"},
		"too long":              {valid + strings.Repeat("A", maxToken), "invalid_token"},
		"unknown crit header":   {sign(t, good, map[jose.HeaderKey]any{"crit": []string{"x"}, "x": 1}, p.claimsOf(nil)), "invalid_token"},
		"key id with an escape": {sign(t, jose.JSONWebKey{Key: other.keys[0].Key, KeyID: "../../etc/passwd\x00", Algorithm: "RS256"}, nil, p.claimsOf(nil)), "invalid_token"},
	} {
		got, fault := v.Person(t.Context(), c.token)
		if fault == nil {
			t.Errorf("%s: admitted as %+v", name, got.Record)
		} else if fault.Code != c.want {
			t.Errorf("%s: %s (%v), want %s", name, fault.Code, fault.Cause, c.want)
		}
	}
	if n := other.fetches.Load(); n != 0 {
		t.Errorf("the keys of a server that a token names were fetched %d times", n)
	}
}

// TestClientsOfAnIssuer checks that only tokens of the configured applications are admitted.
func TestClientsOfAnIssuer(t *testing.T) {
	p := newProvider(t)
	i := p.issuer()
	i.Clients = []string{"codex", "claude-code"}
	v := newTestVerifier(t, time.Now, i)
	for name, c := range map[string]struct {
		azp  any
		want string
	}{
		"one of them": {"claude-code", ""}, "another": {"crm", "invalid_token"}, "none": {nil, "invalid_token"}, "in another case": {"Codex", "invalid_token"},
		"a list": {[]string{"crm", "codex"}, "invalid_token"},
	} {
		_, fault := v.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(map[string]any{"azp": c.azp})))
		if got := fault; c.want == "" && got != nil || c.want != "" && (got == nil || got.Code != c.want) {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

// TestCachedTokenEnds checks that a token that was admitted before is refused after its end.
func TestCachedTokenEnds(t *testing.T) {
	p := newProvider(t)
	var passed atomic.Int64
	v := newTestVerifier(t, func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }, p.issuer())
	token := sign(t, p.keys[0], nil, p.claimsOf(map[string]any{"exp": time.Now().Add(5 * time.Minute).Unix()}))
	for _, after := range []time.Duration{0, 4 * time.Minute} {
		passed.Store(int64(after))
		if _, fault := v.Person(t.Context(), token); fault != nil {
			t.Errorf("after %v: %v", after, fault)
		}
	}
	passed.Store(int64(7 * time.Minute)) // the clocks may differ by one
	if _, fault := v.Person(t.Context(), token); fault == nil || fault.Code != "expired_token" {
		t.Errorf("after its end: %v", fault)
	}
}

// TestEmbeddedKey checks that a key inside the token is not used.
func TestEmbeddedKey(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: other.keys[0]}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(p.claimsOf(nil))
	jws, _ := signer.Sign(text)
	token, _ := jws.CompactSerialize()
	if _, fault := newTestVerifier(t, time.Now, p.issuer()).Person(t.Context(), token); fault == nil || fault.Code != "invalid_token" {
		t.Errorf("%v", fault)
	}
}

// TestUnknownKeyIDs checks that invented key ids cause one fetch per second at most, and that a token
// with a new key is accepted meanwhile.
func TestUnknownKeyIDs(t *testing.T) {
	p := newProvider(t)
	v := newTestVerifier(t, time.Now, p.issuer())
	if _, fault := v.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(nil))); fault != nil {
		t.Fatal(fault)
	}
	next := p.addKey(t, "k2", jose.ES256)
	// Tokens wait for a fetch for three seconds only, in which a loaded machine must not be busy with signatures.
	valid, tokens := sign(t, next, nil, p.claimsOf(nil)), make([]string, 200)
	for i := range tokens {
		forged := p.keys[0]
		forged.KeyID = fmt.Sprintf("made-up-%d", i)
		tokens[i] = sign(t, forged, nil, p.claimsOf(map[string]any{"jti": i}))
	}
	began := time.Now()
	var all sync.WaitGroup
	for _, token := range tokens {
		all.Go(func() {
			if _, fault := v.Person(context.Background(), token); fault == nil || fault.Code != "invalid_token" {
				t.Errorf("%v", fault)
			}
		})
	}
	if _, fault := v.Person(t.Context(), valid); fault != nil {
		t.Errorf("a token with a new key: %v (%v)", fault, fault.Cause)
	}
	all.Wait()
	if n, most := p.fetches.Load(), 2+int64(time.Since(began)/refreshPause); n > most {
		t.Errorf("%d fetches in %s, want %d at most", n, time.Since(began), most)
	}
}

// TestFetchesOfUnknownKeys checks that a token with an unknown key waits until the next fetch may begin, and
// that one whose client leaves meanwhile starts none.
func TestFetchesOfUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"k"}]}`
		s := &keySet{source: "https://idp.example.com/keys", client: &http.Client{Transport: served(keys)}, now: time.Now}
		find := func(ctx context.Context, want string, fetches int, took time.Duration) {
			t.Helper()
			began := time.Now()
			_, err := s.find(ctx, "unknown")
			synctest.Wait()
			if n, d := s.state("").fetches, time.Since(began); err == nil || !strings.Contains(err.Error(), want) || n != fetches || d != took {
				t.Errorf("%v after %d fetches and %v, want %s, %d and %v", err, n, d, want, fetches, took)
			}
		}
		find(t.Context(), "no such key", 1, 0)
		short, cancel := context.WithTimeout(t.Context(), refreshPause/4)
		defer cancel()
		find(short, errNoKeys.Error(), 1, refreshPause/4)
		find(t.Context(), "no such key", 2, refreshPause-refreshPause/4)
	})
}

// TestMovedKeys checks that keys which have moved are found by the discovery document, after their old address has failed.
func TestMovedKeys(t *testing.T) {
	p := newProvider(t)
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	now := func() time.Time { return time.Unix(0, clock.Load()) }
	v := newTestVerifier(t, now, p.issuer())
	if _, fault := v.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(nil))); fault != nil {
		t.Fatal(fault)
	}
	p.set(func() { p.down, p.moved = true, true })
	token := sign(t, p.addKey(t, "k2", jose.RS256), nil, p.claimsOf(nil))
	clock.Add(int64(refreshPause))
	if _, fault := v.Person(t.Context(), token); fault == nil {
		t.Fatal("the old address still has the keys")
	}
	clock.Add(int64(refreshPause))
	if _, fault := v.Person(t.Context(), token); fault != nil {
		t.Error(fault)
	}
}

// TestOutage checks that tokens are verified with the known keys while the issuer is down, and that
// without keys the response is 503.
func TestOutage(t *testing.T) {
	p := newProvider(t)
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	now := func() time.Time { return time.Unix(0, clock.Load()) }
	at := func(sub string) string {
		return sign(t, p.keys[0], nil, p.claimsOf(map[string]any{"sub": sub, "exp": now().Add(time.Hour).Unix()}))
	}
	v := newTestVerifier(t, now, p.issuer())
	p.set(func() { p.down = true })
	if _, fault := v.Person(t.Context(), at("first")); fault == nil || fault.HTTPStatus() != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(fault.Cause), errNoKeys.Error()) {
		t.Errorf("no keys yet: %v", fault)
	}
	p.set(func() { p.down = false })
	clock.Add(int64(refreshPause))
	if _, fault := v.Person(t.Context(), at("second")); fault != nil {
		t.Fatal(fault)
	}
	p.set(func() { p.down = true })
	keys := v.issuers[p.URL].keys
	for i := range 23 {
		clock.Add(int64(time.Hour))
		before := keys.state("").fetches
		if _, fault := v.Person(t.Context(), at(fmt.Sprint("later", i))); fault != nil {
			t.Fatalf("%d hours later: %v", i+1, fault)
		}
		testrig.Eventually(t, "a fetch in the background ends", func() bool { return keys.state("").fetches > before })
	}
	clock.Add(int64(2 * time.Hour))
	if _, fault := v.Person(t.Context(), at("last")); fault == nil || fault.HTTPStatus() != http.StatusServiceUnavailable {
		t.Errorf("keys of yesterday: %v", fault)
	}
}

// TestKeysFromFile checks keys that are configured, as for a cluster without discovery.
func TestKeysFromFile(t *testing.T) {
	p := newProvider(t)
	text, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.keys[0].Public()}})
	file := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	i := p.issuer()
	i.JWKS = file
	i.Rules[0].When = []Condition{{Claim: "kubernetes.io.namespace", Values: []string{"jobs"}}}
	v := newTestVerifier(t, time.Now, i)
	token := sign(t, p.keys[0], nil, p.claimsOf(map[string]any{"kubernetes.io": map[string]any{"namespace": "jobs"}}))
	if _, fault := v.Person(t.Context(), token); fault != nil {
		t.Errorf("%v (%v)", fault, fault.Cause)
	}
	if p.fetches.Load() != 0 {
		t.Error("the issuer was asked for keys")
	}
}

// TestReloadKeepsKeys checks that a new configuration does not need the issuer.
func TestReloadKeepsKeys(t *testing.T) {
	p := newProvider(t)
	v := newTestVerifier(t, time.Now, p.issuer())
	if _, fault := v.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(nil))); fault != nil {
		t.Fatal(fault)
	}
	p.set(func() { p.down = true })
	next := newTestVerifier(t, time.Now, p.issuer())
	next.Adopt(v)
	if _, fault := next.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(nil))); fault != nil {
		t.Error(fault)
	}
}

// TestReloadWithOtherKeys checks that an issuer whose source of keys has changed is asked again.
func TestReloadWithOtherKeys(t *testing.T) {
	p := newProvider(t)
	v := newTestVerifier(t, time.Now, p.issuer())
	if _, fault := v.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(nil))); fault != nil {
		t.Fatal(fault)
	}
	other := p.issuer()
	other.JWKS = p.URL + "/nothing-here"
	next := newTestVerifier(t, time.Now, other)
	next.Adopt(v)
	if _, fault := next.Person(t.Context(), sign(t, p.keys[0], nil, p.claimsOf(nil))); fault == nil {
		t.Error("the keys of the earlier source are used")
	}
}

// TestVerifierNeedsTheCertificateAuthority checks that a verifier is not made with a certificate that cannot be read.
func TestVerifierNeedsTheCertificateAuthority(t *testing.T) {
	if _, err := newVerifier([]Issuer{{URL: "https://idp.example", CA: filepath.Join(t.TempDir(), "none")}}, time.Now); err == nil {
		t.Error("it is made")
	}
}

// BenchmarkKnownToken measures the check of a token that was seen before.
func BenchmarkKnownToken(b *testing.B) {
	p := newProvider(b)
	v := newTestVerifier(b, time.Now, p.issuer())
	token := sign(b, p.keys[0], nil, p.claimsOf(nil))
	if _, fault := v.Person(context.Background(), token); fault != nil {
		b.Fatal(fault)
	}
	for b.Loop() {
		if _, fault := v.Person(context.Background(), token); fault != nil {
			b.Fatal(fault)
		}
	}
}
