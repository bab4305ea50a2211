package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/maypok86/otter/v2"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	maxToken    = 16 << 10 // bytes of a token
	maxVerified = 50_000   // verified tokens in the cache
	maxName     = 256      // characters of a name or mail address
	clockSkew   = time.Minute
)

// Issuer is an identity provider whose tokens are accepted.
type Issuer struct {
	URL       string
	Audiences []string // one of them must be in the token
	Clients   []string // accepted azp claims; empty: any
	JWKS      string   // URL or file of the keys; empty: from discovery
	CA        string   // file with the CA of the issuer's servers; empty: the system's
	Name      string   // claim that is shown as the person's name; empty: none
	SCIM      SCIM
	Rules     []Rule // the first one that matches holds
}

// SCIM says which SCIM user a token names.
type SCIM struct {
	Path      string // of the endpoints
	Claim     string // empty: the issuer does not use SCIM
	Attribute string // of the user
	Required  bool   // only people who have a user are admitted
	// Groups is the attribute of SCIM groups that conditions on the claim "groups" also read; empty: none.
	Groups string
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	issuers  map[string]*issuer
	verified *otter.Cache[[sha256.Size]byte, *admission]
	now      func() time.Time

	// Revoked has tokens that are refused. It may be nil. Set it before the first use.
	Revoked *Revoked
	// Groups has the SCIM groups for issuers that use them. It may be nil: then nobody is in one. Set it
	// before the first use.
	Groups Groups
}

// issuer is a configured issuer with its keys.
type issuer struct {
	Issuer
	keys   *keySet
	verify *oidc.IDTokenVerifier
}

// New returns a verifier. It fetches nothing.
func New(issuers []Issuer) (*Verifier, error) { return newVerifier(issuers, time.Now) }

func newVerifier(issuers []Issuer, now func() time.Time) (*Verifier, error) {
	cache, err := otter.New(&otter.Options[[sha256.Size]byte, *admission]{MaximumSize: maxVerified})
	if err != nil {
		return nil, err
	}
	v := &Verifier{issuers: map[string]*issuer{}, verified: cache, now: now}
	for _, i := range issuers {
		client, err := NewClient(i.CA)
		if err != nil {
			return nil, err
		}
		keys := &keySet{issuer: i.URL, source: i.JWKS, client: client, now: now}
		algs := make([]string, 0, len(algorithms()))
		for _, a := range algorithms() {
			algs = append(algs, string(a))
		}
		// The audience is checked below, because a token may be for one of several. The skew makes
		// a token valid for a minute longer; the library allows five minutes for nbf.
		verify := oidc.NewVerifier(i.URL, keys, &oidc.Config{SkipClientIDCheck: true, SupportedSigningAlgs: algs,
			Now: func() time.Time { return now().Add(-clockSkew) }})
		v.issuers[i.URL] = &issuer{i, keys, verify}
	}
	return v, nil
}

// Adopt keeps the keys of an earlier verifier for issuers whose source of keys has not changed. Both
// may be nil.
func (v *Verifier) Adopt(earlier *Verifier) {
	if v == nil || earlier == nil {
		return
	}
	for url, i := range v.issuers {
		if old := earlier.issuers[url]; old != nil && old.JWKS == i.JWKS && old.CA == i.CA {
			i.keys.adopt(old.keys)
		}
	}
}

func (s *keySet) adopt(old *keySet) {
	old.mu.Lock()
	keys, fetched, tried := old.keys, old.fetched, old.tried
	old.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.fetched, s.tried = keys, fetched, tried
}

// Person returns whom a token admits. The result is shared and read-only.
func (v *Verifier) Person(ctx context.Context, token string) (*access.Person, *llm.Error) {
	if len(token) > maxToken {
		return nil, errToken("invalid_token", "the token has more than 16 KiB", nil)
	}
	digest := sha256.Sum256([]byte(token))
	known, ok := v.verified.GetIfPresent(digest)
	if !ok || !v.now().Before(known.person.Expires) {
		known = nil
	}
	a, fault := v.admit(ctx, token, known)
	if fault != nil {
		return nil, fault
	}
	if a != known {
		v.verified.Set(digest, a)
	}
	if v.Revoked.has(digest, a.person.Revocation) {
		return nil, errToken("revoked_token", "the token was revoked by a sign-out; sign in again", nil)
	}
	return a.person, nil
}

// verify checks a token, but not whom it admits.
func (v *Verifier) verify(ctx context.Context, token string) (*verified, *llm.Error) {
	i := v.issuers[claimedIssuer(token)]
	if i == nil {
		return nil, errToken("invalid_token", "the token's issuer is not configured; sign in at an identity provider that the gateway knows", nil)
	}
	t, err := i.verify.Verify(ctx, token)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return nil, errToken("expired_token", "the token has expired; sign in again", err)
	case err != nil && i.keys.missing():
		return nil, &llm.Error{Kind: llm.Overloaded, Code: "identity_unavailable", RetryAfter: refreshPause, Cause: err,
			Message: "the gateway cannot reach the identity provider of this token; try again"}
	case err != nil:
		return nil, errToken("invalid_token", "the token is not valid; sign in again", err)
	}
	var text json.RawMessage
	if err := t.Claims(&text); err != nil {
		return nil, errToken("invalid_token", "the token's claims cannot be read", err)
	}
	c, err := parseClaims(text)
	if err != nil || t.Subject == "" {
		return nil, errToken("invalid_token", "the token names no subject", err)
	}
	if fault := i.checkUse(t.Audience, c); fault != nil {
		return nil, fault
	}
	return &verified{i, c, t.Subject, i.scimName(c), t.IssuedAt, t.Expiry, revocation(t.Issuer, c.text("jti"), token)}, nil
}

// SignedIn checks the ID token of a sign-in: an issuer made it for a client and for a nonce. It
// returns the mail address of its owner, empty if the issuer has not verified it.
func (v *Verifier) SignedIn(ctx context.Context, url, client, nonce, token string) (mail string, err error) {
	i := v.issuers[url]
	if i == nil {
		return "", fmt.Errorf("the issuer %s is not configured", url)
	}
	t, err := i.verify.Verify(ctx, token)
	if err != nil {
		return "", err
	}
	if !slices.Contains(t.Audience, client) || subtle.ConstantTimeCompare([]byte(t.Nonce), []byte(nonce)) != 1 {
		return "", errors.New("the ID token is for another client or another sign-in")
	}
	var text json.RawMessage
	if err := t.Claims(&text); err != nil {
		return "", err
	}
	c, err := parseClaims(text)
	if err != nil || c["email_verified"] == nil { // some providers do not say
		return "", err
	}
	return plain.Short(c.text("email"), maxName), nil
}

// checkUse checks that a token was made for the gateway.
func (i *issuer) checkUse(audience []string, c claims) *llm.Error {
	if !slices.ContainsFunc(audience, func(a string) bool { return slices.Contains(i.Audiences, a) }) {
		return errToken("invalid_token", "the token is for another audience; request one for this gateway", nil)
	}
	if len(i.Clients) > 0 && !slices.Contains(i.Clients, c.text("azp")) {
		return errToken("invalid_token", "the token was issued to an application that may not use this gateway", nil)
	}
	if _, bound := c["cnf"]; bound {
		return errToken("invalid_token", "the token is bound to a key or certificate (cnf), of which the gateway checks no proof; request a bearer token", nil)
	}
	if _, isEvent := c["events"]; isEvent {
		return errToken("invalid_token", "the token reports an event and admits nobody", nil)
	}
	return nil
}

// scimName returns the name by which SCIM knows the owner of a token. It is empty if the issuer does not
// use SCIM, or if the token does not have the claim: such a token would admit a person whom SCIM has
// removed.
func (i *issuer) scimName(c claims) string {
	if i.SCIM.Claim == "" {
		return ""
	}
	value, _ := c.find(i.SCIM.Claim)
	text, _ := value.(string)
	return access.SCIMName(i.URL, i.SCIM.Attribute, text)
}

// claimedIssuer returns the issuer that a token names, before it is verified. It only selects the
// keys to verify with.
func claimedIssuer(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return ""
	}
	c, _ := parseClaims(text) // an error leaves no claims
	issuer, _ := c["iss"].(string)
	return issuer
}

// missing reports whether there are no keys that may be used.
func (s *keySet) missing() bool {
	return s.state("").age >= maxKeyAge
}

func errToken(code, message string, cause error) *llm.Error {
	return &llm.Error{Kind: llm.Authentication, Code: code, Message: message, Cause: cause}
}

// Explain says why a token admits its owner, or why not. For operators: it reveals what errors for
// clients do not.
func (v *Verifier) Explain(ctx context.Context, token string) string {
	a, fault := v.admit(ctx, token, nil)
	switch {
	case fault == nil:
		return a.person.Reason
	case fault.Cause != nil:
		return fmt.Sprintf("refused: %s (%v)", fault.Message, fault.Cause)
	}
	return "refused: " + fault.Message
}
