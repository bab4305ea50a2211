package signin

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	testClient = "isogloss"
	testSecret = "a secret of the gateway"
)

// idp is an identity provider. It checks what a strict one checks: the client's secret, the redirect
// address, PKCE, and that codes and refresh tokens are used once.
type idp struct {
	t         *testing.T
	server    *httptest.Server
	key       ed25519.PrivateKey
	redirects []string

	mu      sync.Mutex
	grants  map[string]grant // by code
	refresh map[string]string
	revoked []string
	life    time.Duration // of access tokens
	down    bool
	nonce   string // overrides that of the request
	groups  []string
}

type grant struct{ challenge, nonce, redirect, subject string }

func newIDP(t *testing.T, redirects ...string) *idp {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &idp{t: t, key: key, redirects: redirects, grants: map[string]grant{}, refresh: map[string]string{}, life: 5 * time.Minute, groups: []string{"llm-search"}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.document)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /revoke", p.revoke)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down := p.down
		p.mu.Unlock()
		if down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	return p
}

func (p *idp) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *idp) document(w http.ResponseWriter, _ *http.Request) {
	u := p.server.URL
	writeJSON(w, 200, map[string]any{"issuer": u, "authorization_endpoint": u + "/authorize", "token_endpoint": u + "/token", "jwks_uri": u + "/keys", "revocation_endpoint": u + "/revoke",
		"id_token_signing_alg_values_supported": []string{"EdDSA"}})
}

func (p *idp) keys(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k", Use: "sig", Algorithm: "EdDSA"}}})
}

func (p *idp) sign(claims map[string]any) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: p.key, KeyID: "k"}}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		p.t.Fatal(err)
	}
	jws, err := s.Sign(text)
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := jws.CompactSerialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// approve is a person who signs in at the authorization address. It returns the address of the answer.
func (p *idp) approve(address, subject string) string {
	p.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	q := u.Query()
	if u.Scheme+"://"+u.Host+u.Path != p.server.URL+"/authorize" || q.Get("response_type") != "code" || q.Get("client_id") != testClient ||
		q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" || !slices.Contains(p.redirects, q.Get("redirect_uri")) {
		p.t.Fatalf("the authorization request is wrong: %s", address)
	}
	code := newSecret()
	p.set(func() {
		p.grants[code] = grant{q.Get("code_challenge"), q.Get("nonce"), q.Get("redirect_uri"), subject}
	})
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.server.URL}}.Encode()
}

func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	user, password, _ := r.BasicAuth()
	if secret, _ := url.QueryUnescape(password); user != testClient || secret != testSecret {
		writeError(w, http.StatusUnauthorized, "invalid_client", "", 0)
		return
	}
	var subject, nonce string
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		code := r.PostFormValue("code")
		g, ok := p.grants[code]
		delete(p.grants, code)
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if !ok || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) || g.redirect != r.PostFormValue("redirect_uri") {
			writeError(w, http.StatusBadRequest, "invalid_grant", "", 0)
			return
		}
		subject, nonce = g.subject, g.nonce
	case "refresh_token":
		old := r.PostFormValue("refresh_token")
		if subject = p.refresh[old]; subject == "" {
			writeError(w, http.StatusBadRequest, "invalid_grant", "", 0)
			return
		}
		delete(p.refresh, old)
	}
	if p.nonce != "" {
		nonce = p.nonce
	}
	refresh := newSecret()
	p.refresh[refresh] = subject
	exp := time.Now().Add(p.life).Unix()
	writeJSON(w, 200, map[string]any{"token_type": "Bearer", "expires_in": int(p.life.Seconds()), "refresh_token": refresh,
		"access_token": p.sign(map[string]any{"iss": p.server.URL, "aud": "gateway", "sub": subject, "exp": exp, "groups": p.groups, "jti": newSecret()}),
		"id_token":     p.sign(map[string]any{"iss": p.server.URL, "aud": testClient, "sub": subject, "exp": exp, "nonce": nonce, "email": subject + "@example.com", "email_verified": true})})
}

func (p *idp) revoke(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	token := r.PostFormValue("token")
	delete(p.refresh, token)
	p.revoked = append(p.revoked, token)
	w.WriteHeader(200)
}
