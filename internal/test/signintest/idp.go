// Package signintest is an identity provider for tests: OpenID Connect with authorization code and
// PKCE, as strict as a real one, with a person who signs in at once.
package signintest

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

// The gateway's id and secret at the provider, and the audience of access tokens.
const (
	Client   = "isogloss"
	Secret   = "a secret of the gateway"
	Audience = "gateway"
)

// Provider is an identity provider. It checks what a strict one checks: the client's secret, the redirect
// address, PKCE, and that codes and refresh tokens are used once.
type Provider struct {
	t         *testing.T
	server    *httptest.Server
	key       ed25519.PrivateKey
	redirects []string

	mu      sync.Mutex
	grants  map[string]grant // by code
	refresh map[string]string
	revoked []string
	state   State
}

// State is what a test can change.
type State struct {
	Life   time.Duration // of access tokens
	Down   bool
	Nonce  string   // of ID tokens, instead of that of the request
	Groups []string // of the people
}

type grant struct{ challenge, nonce, redirect, subject string }

// New starts a provider that redirects to some addresses.
func New(t *testing.T, redirects ...string) *Provider {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{t: t, key: key, redirects: redirects, grants: map[string]grant{}, refresh: map[string]string{}, state: State{Life: 5 * time.Minute, Groups: []string{"llm-search"}}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.document)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /revoke", p.revoke)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down := p.state.Down
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

// Set changes the state.
func (p *Provider) Set(change func(*State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.state)
}

// URL returns the issuer.
func (p *Provider) URL() string { return p.server.URL }

// Revoked returns the number of revoked tokens.
func (p *Provider) Revoked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.revoked)
}

func (p *Provider) document(w http.ResponseWriter, _ *http.Request) {
	u := p.server.URL
	writeJSON(w, 200, map[string]any{"issuer": u, "authorization_endpoint": u + "/authorize", "token_endpoint": u + "/token", "jwks_uri": u + "/keys", "revocation_endpoint": u + "/revoke",
		"id_token_signing_alg_values_supported": []string{"EdDSA"}})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k", Use: "sig", Algorithm: "EdDSA"}}})
}

func (p *Provider) sign(claims map[string]any) string {
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

// Approve is a person who signs in at the authorization address. It returns the address of the answer.
func (p *Provider) Approve(address, subject string) string {
	p.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	q := u.Query()
	if u.Scheme+"://"+u.Host+u.Path != p.server.URL+"/authorize" || q.Get("response_type") != "code" || q.Get("client_id") != Client ||
		q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" || !slices.Contains(p.redirects, q.Get("redirect_uri")) {
		p.t.Fatalf("the authorization request is wrong: %s", address)
	}
	code := newSecret()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants[code] = grant{q.Get("code_challenge"), q.Get("nonce"), q.Get("redirect_uri"), subject}
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.server.URL}}.Encode()
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	user, password, _ := r.BasicAuth()
	if secret, _ := url.QueryUnescape(password); user != Client || secret != Secret {
		writeJSON(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
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
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		subject, nonce = g.subject, g.nonce
	case "refresh_token":
		old := r.PostFormValue("refresh_token")
		if subject = p.refresh[old]; subject == "" {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		delete(p.refresh, old)
	}
	if p.state.Nonce != "" {
		nonce = p.state.Nonce
	}
	refresh := newSecret()
	p.refresh[refresh] = subject
	exp := time.Now().Add(p.state.Life).Unix()
	writeJSON(w, 200, map[string]any{"token_type": "Bearer", "expires_in": int(p.state.Life.Seconds()), "refresh_token": refresh,
		"access_token": p.sign(map[string]any{"iss": p.server.URL, "aud": Audience, "sub": subject, "exp": exp, "groups": p.state.Groups, "jti": newSecret()}),
		"id_token":     p.sign(map[string]any{"iss": p.server.URL, "aud": Client, "sub": subject, "exp": exp, "nonce": nonce, "email": subject + "@example.com", "email_verified": true})})
}

func (p *Provider) revoke(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	token := r.PostFormValue("token")
	delete(p.refresh, token)
	p.revoked = append(p.revoked, token)
	w.WriteHeader(http.StatusOK)
}

func newSecret() string { return rand.Text() }

func writeJSON(w http.ResponseWriter, status int, v map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that disconnected needs nothing
}
