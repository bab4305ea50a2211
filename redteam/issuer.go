package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// issuer is an identity provider of which the attacker has the keys. Below /NAME it is the issuer NAME,
// and those of answers send what an attack wants.
type issuer struct {
	server    *httptest.Server
	elsewhere *httptest.Server // to which some answers redirect
	astray    atomic.Int64     // requests that went there

	ed  ed25519.PrivateKey
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	own ed25519.PrivateKey // that the issuer does not publish

	mu      sync.Mutex
	answers map[string]*hostile.Server // by the path of a document
	asked   map[string]int             // requests by path
	hold    chan struct{}              // while not nil, the token endpoint does not answer
	nonces  map[string]string          // of sign-ins, by code
	idToken string                     // that the token endpoint sends; empty: a valid one
}

func newIssuer() *issuer {
	p := &issuer{answers: map[string]*hostile.Server{}, asked: map[string]int{}, nonces: map[string]string{}}
	_, p.ed, _ = ed25519.GenerateKey(rand.Reader) // never fails, like the others
	_, p.own, _ = ed25519.GenerateKey(rand.Reader)
	p.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	p.ec, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.server = httptest.NewServer(p)
	p.elsewhere = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { p.astray.Add(1) }))
	return p
}

func (p *issuer) close() {
	p.server.CloseClientConnections()
	p.server.Close()
	p.elsewhere.Close()
}

// url returns the URL of an issuer.
func (p *issuer) url(name string) string { return p.server.URL + "/" + name }

func (p *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	answer, hold := p.answers[r.URL.Path], p.hold
	p.mu.Unlock()
	w.Header().Set("Content-Type", testrig.JSONMedia)
	if answer != nil {
		answer.ServeHTTP(w, r)
		return
	}
	name := strings.Split(r.URL.Path, "/")[1]
	switch rest := strings.TrimPrefix(r.URL.Path, "/"+name); rest {
	case "/.well-known/openid-configuration":
		_, _ = io.WriteString(w, p.document(name)) // a gateway that has gone
	case "/keys":
		_, _ = io.WriteString(w, p.keys())
	case "/token":
		if hold != nil {
			<-hold
		}
		p.serveTokens(w, r)
	case "/revoke":
	default:
		http.NotFound(w, r)
	}
}

// document returns the honest discovery document of an issuer.
func (p *issuer) document(name string) string {
	u := p.url(name)
	return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q,"token_endpoint":%q,"revocation_endpoint":%q}`, u, u+"/keys", u+"/authorize", u+"/token", u+"/revoke")
}

// keys returns the honest key set.
func (p *issuer) keys() string { return `{"keys":[` + strings.Join(p.keyList(), ",") + `]}` }

func (p *issuer) keyList() []string {
	text := base64.RawURLEncoding.EncodeToString
	point, _ := p.ec.PublicKey.Bytes() // of a valid key
	return []string{
		fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":"ed","x":%q}`, text(p.ed.Public().(ed25519.PublicKey))), //nolint:forcetypeassert // of its type
		fmt.Sprintf(`{"kty":"RSA","kid":"rsa","e":"AQAB","n":%q}`, text(p.rsa.N.Bytes())),
		fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"ec","x":%q,"y":%q}`, text(point[1:33]), text(point[33:])),
	}
}

// serveTokens answers a code or a refresh token. Only those that approve has made are known.
func (p *issuer) serveTokens(w http.ResponseWriter, r *http.Request) {
	code := r.PostFormValue("code")
	p.mu.Lock()
	nonce, known := p.nonces[code]
	delete(p.nonces, code)
	id := p.idToken
	p.mu.Unlock()
	if !known {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	if id == "" {
		id = p.sign("EdDSA", p.claims("main", map[string]any{"aud": "gateway-client", "nonce": nonce}))
	}
	access := p.sign("EdDSA", p.claims("main", map[string]any{"groups": []string{"search", "ops"}}))
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"id_token":%q,"refresh_token":"refresh-of-test","token_type":"Bearer","expires_in":3600}`, access, id)
}

// approve returns the code of a sign-in with a nonce.
func (p *issuer) approve(nonce string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	code := fmt.Sprintf("code-%d", len(p.asked)+len(p.nonces)+int(time.Now().UnixNano()))
	p.nonces[code] = nonce
	return code
}

// count returns the requests to a path of the issuer main.
func (p *issuer) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked["/main"+path]
}

// claims returns valid claims of a person, with changes. A value of nil removes a claim.
func (p *issuer) claims(name string, changes map[string]any) map[string]any {
	now := time.Now().Unix()
	c := map[string]any{"iss": p.url(name), "sub": "ann", "aud": "gateway", "azp": "cli", "iat": now - 10, "exp": now + 3600, "jti": fmt.Sprint("id-", time.Now().UnixNano()), "groups": []string{"search"}}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// sign returns a token with claims, signed by the published key of an algorithm.
func (p *issuer) sign(alg string, claims map[string]any) string {
	return p.signText(header(alg), testrig.Compact(claims))
}

// header returns the header of a token that the published key of an algorithm has signed.
func header(alg string) string {
	return fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"JWT"}`, alg, map[string]string{"EdDSA": "ed", "RS256": "rsa", "ES256": "ec"}[alg])
}

// signText signs any header and any payload with the key of the header's algorithm.
func (p *issuer) signText(head, payload string) string {
	var h struct{ Alg string }
	_ = json.Unmarshal([]byte(head), &h) // an unknown algorithm is signed with EdDSA
	text := encode(head) + "." + encode(payload)
	return text + "." + base64.RawURLEncoding.EncodeToString(p.signature(h.Alg, text))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// signature signs a text.
func (p *issuer) signature(alg, text string) []byte {
	sum := sha256.Sum256([]byte(text))
	switch alg {
	case "RS256":
		return testrig.Must(rsa.SignPKCS1v15(nil, p.rsa, crypto.SHA256, sum[:]))
	case "PS256":
		return testrig.Must(rsa.SignPSS(rand.Reader, p.rsa, crypto.SHA256, sum[:], nil))
	case "ES256":
		r, s, err := ecdsa.Sign(rand.Reader, p.ec, sum[:])
		testrig.NoError(err)
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	return ed25519.Sign(p.ed, []byte(text))
}

// otherSignature returns a token with the second valid ECDSA signature of the same text.
func otherSignature(token string) string {
	text, sig := token[:strings.LastIndexByte(token, '.')], token[strings.LastIndexByte(token, '.')+1:]
	raw := testrig.Must(base64.RawURLEncoding.DecodeString(sig))
	s := new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(raw[32:]))
	return text + "." + base64.RawURLEncoding.EncodeToString(append(raw[:32:32], s.FillBytes(make([]byte, 32))...))
}

// otherSpelling returns a token whose last character differs in bits that count for nothing.
func otherSpelling(token string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := strings.IndexByte(letters, token[len(token)-1])
	return token[:len(token)-1] + string(letters[i^1])
}
