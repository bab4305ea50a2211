package signin

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/llm"
)

// browsers are the sessions of the browsers of a port. Those of another port have another cookie and another purpose,
// so that no session can be used at both.
type browsers struct {
	s       *Server
	cookie  string // its name
	purpose string // of the digests of secrets
	origin  string // of the port, as people reach it; empty: not known
}

// secure reports whether a browser reaches the port by https, as far as the request shows: a proxy may end TLS.
func (b *browsers) secure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(b.origin, "https:") || strings.HasPrefix(r.Header.Get("Origin"), "https:")
}

// newCookie returns a cookie for the browser of a request. Without a value it removes the session's.
func (b *browsers) newCookie(r *http.Request, value string, age time.Duration) *http.Cookie {
	origin := "http:"
	if b.secure(r) {
		origin = "https:"
	}
	return cookie(origin, b.cookie, value, age, http.SameSiteStrictMode)
}

// secret returns the secret of a browser's session, empty without one. Where the gateway ends TLS, only a cookie that is
// bound to its host is read: another host of the domain can set others.
func (b *browsers) secret(r *http.Request) string {
	if secret := readCookie(r, "https:", b.cookie); secret != "" || r.TLS != nil || strings.HasPrefix(b.origin, "https:") {
		return secret
	}
	return readCookie(r, "http:", b.cookie)
}

// begin adds a session and returns its cookie. Its secret is always new, so that nobody knows it before.
func (b *browsers) begin(ctx context.Context, r *http.Request, owner string, t tokens, age time.Duration) (*http.Cookie, error) {
	secret, now := newSecret(), time.Now()
	key, err := sealKey(secret)
	if err != nil {
		return nil, err
	}
	sealed, err := seal(key, t)
	if err != nil {
		return nil, err
	}
	err = b.s.o.Store.AddSignIn(ctx, store.SignIn{ID: digest(b.purpose, secret), Owner: owner, Status: store.SignInSession, Seal: key, Tokens: sealed, Expires: now.Add(age)}, now)
	return b.newCookie(r, secret, age), err
}

// fromOwnPage returns why a request must not use a session: only pages of the same origin may.
func fromOwnPage(r *http.Request) *llm.Error {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "same-origin" && (site != "none" || r.Method != http.MethodGet) {
		return &llm.Error{Kind: llm.Permission, Code: "origin_not_allowed", Message: "a session can be used by pages of this address only; programs send a key or a token"}
	}
	return nil
}

// keySessionTime is how long a session lasts that began with a key. It ends earlier with the key or its secret.
const keySessionTime = 12 * time.Hour

// BeginSession begins a session of the browser of an operator whose key the request has. The session does not
// have the key.
func (s *Server) BeginSession(ctx context.Context, r *http.Request) (*http.Cookie, time.Time, error) {
	if fault := fromOwnPage(r); fault != nil {
		return nil, time.Time{}, fault
	}
	who, proof, fault := s.o.People.Prove(r)
	if fault != nil {
		return nil, time.Time{}, fault
	}
	ends := time.Now().Add(keySessionTime)
	c, err := s.operators.begin(ctx, r, who.ID, tokens{Proof: proof}, keySessionTime)
	return c, ends, err
}
