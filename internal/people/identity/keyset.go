package identity

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
)

const (
	refreshEvery = time.Hour        // age at which keys are fetched again
	refreshPause = time.Second      // minimum time between two fetches
	maxKeyAge    = 24 * time.Hour   // age up to which keys are used while the issuer does not respond
	fetchTimeout = 10 * time.Second // of one fetch
	fetchWait    = 3 * time.Second  // how long a token waits for a fetch
	maxDocument  = 1 << 20          // bytes of a discovery document or a key set
	maxKeys      = 100              // keys of one issuer
	minRSABits   = 2048
	maxRSABits   = 16384 // a signature of a longer key takes too long to check
)

// algorithms are the accepted signature algorithms. HMAC and none are not among them, so that a
// public key cannot be used as a secret.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}
}

// errNoKeys reports that the keys of an issuer cannot be had.
var errNoKeys = errors.New("the keys of the identity provider cannot be fetched")

// keySet holds the public keys of an issuer. It implements oidc.KeySet.
type keySet struct {
	issuer string
	source string // URL or file of the keys; empty: from discovery
	client *http.Client
	now    func() time.Time

	flights singleflight.Group
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time // when keys were fetched
	tried   time.Time // when the last fetch began
	fetches int       // that have ended
	failure error     // of the last fetch
	address string    // of the keys, by discovery
}

// VerifySignature returns the payload of a token that one of the keys has signed.
func (s *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	if err := checkHeader(token); err != nil {
		return nil, err
	}
	jws, err := jose.ParseSignedCompact(token, algorithms())
	if err != nil {
		return nil, err
	}
	id := jws.Signatures[0].Header.KeyID
	keys, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		if payload, err := jws.Verify(&keys[i]); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer has made the signature")
}

// checkHeader rejects a header with a duplicate member, and a header with critical members (crit): the
// gateway knows no extension, and the library accepts an empty list.
func checkHeader(token string) error {
	first, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return err
	}
	header, err := parseClaims(text)
	if err != nil {
		return err
	}
	if _, ok := header["crit"]; ok {
		return errors.New("the token's header has crit, and the gateway knows no extension")
	}
	return nil
}

// find returns the keys with an id, or all keys if the token names none. An unknown id waits for the
// next fetch, because the issuer may have begun to use a new key.
func (s *keySet) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	before := s.state(id)
	if len(before.keys) > 0 && before.age < maxKeyAge {
		if before.age >= refreshEvery && before.wait <= 0 {
			s.startFetch() // the old keys do for this token
		}
		return before.keys, nil
	}
	if before.wait > 0 && sleep(ctx, before.wait) != nil {
		return nil, s.unavailable()
	}
	now := s.state(id)
	if now.fetches == before.fetches { // nobody else has fetched meanwhile
		select {
		case <-s.startFetch():
		case <-ctx.Done():
			return nil, s.unavailable()
		}
		now = s.state(id)
	}
	switch {
	case now.age >= maxKeyAge:
		return nil, s.unavailable()
	case len(now.keys) == 0:
		return nil, errors.New("the issuer has no such key")
	}
	return now.keys, nil
}

// startFetch fetches the keys in the background, once at a time.
func (s *keySet) startFetch() <-chan singleflight.Result {
	return s.flights.DoChan("", func() (any, error) { s.fetch(); return nil, nil })
}

// keyState is what a key set has for a token.
type keyState struct {
	keys    []jose.JSONWebKey
	age     time.Duration // of all keys
	wait    time.Duration // until the next fetch may begin
	fetches int           // that have ended
}

// state returns what there is for a key id.
func (s *keySet) state(id string) keyState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := keyState{age: maxKeyAge, fetches: s.fetches}
	if !s.fetched.IsZero() {
		out.age = s.now().Sub(s.fetched)
	}
	if !s.tried.IsZero() {
		out.wait = s.tried.Add(refreshPause).Sub(s.now())
	}
	for _, k := range s.keys {
		if id == "" || k.KeyID == id {
			out.keys = append(out.keys, k)
		}
	}
	return out
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *keySet) unavailable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(errNoKeys, s.failure)
}

// fetch replaces the keys. If it fails, the old ones stay.
func (s *keySet) fetch() {
	s.mu.Lock()
	s.tried = s.now()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	keys, err := s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	if s.failure = err; err == nil {
		s.keys, s.fetched = keys, s.now()
	} else {
		s.address = "" // it may have moved
	}
}

// read reads the keys from their source.
func (s *keySet) read(ctx context.Context) ([]jose.JSONWebKey, error) {
	source, err := s.locate(ctx)
	if err != nil {
		return nil, err
	}
	text, err := s.load(ctx, source)
	if err != nil {
		return nil, err
	}
	return parseKeys(text)
}

// locate returns the URL or file of the keys. Discovery happens once, and again after a failure.
func (s *keySet) locate(ctx context.Context) (string, error) {
	s.mu.Lock()
	known := s.address
	s.mu.Unlock()
	if s.source != "" {
		return s.source, nil
	}
	if known != "" {
		return known, nil
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, s.client), s.issuer) // checks that the document is the issuer's
	if err != nil {
		return "", err
	}
	var document struct {
		JWKS string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return "", err
	}
	if err := CheckURL(document.JWKS); err != nil {
		return "", fmt.Errorf("jwks_uri of the discovery document: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = document.JWKS
	return s.address, nil
}

func (s *keySet) load(ctx context.Context, source string) ([]byte, error) {
	if !strings.Contains(source, "://") {
		f, err := os.Open(source) //nolint:gosec // the operator's own path
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		return readDocument(f)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", source, resp.StatusCode)
	}
	return readDocument(resp.Body)
}

func readDocument(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("a document has more than %d bytes", maxDocument)
	}
	return text, err
}

// parseKeys returns the usable keys of a JWKS. Keys of other kinds are ignored: an issuer may have
// keys for other purposes.
func parseKeys(text []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("the key set is not JSON: %w", err)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if err := json.Unmarshal(raw, &k); err == nil && usable(k) {
			keys = append(keys, k)
		}
		if len(keys) > maxKeys {
			return nil, fmt.Errorf("the key set has more than %d keys", maxKeys)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key for RS256, ES256 or EdDSA")
	}
	return keys, nil
}

// usable reports whether a key is a public key for signatures.
func usable(k jose.JSONWebKey) bool {
	if k.Use != "" && k.Use != "sig" || !k.Valid() || !k.IsPublic() {
		return false
	}
	pub, isRSA := k.Key.(*rsa.PublicKey)
	return !isRSA || pub.N.BitLen() >= minRSABits && pub.N.BitLen() <= maxRSABits
}

// CheckURL reports why an address of an identity provider is not accepted. Plain HTTP is for loopback.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("%q is not a URL", text)
	case u.User != nil:
		return errors.New("the URL has a user name or password")
	case !safeurl.IsSafe(u):
		return fmt.Errorf("%q is not https", text)
	}
	return nil
}

// NewClient returns the HTTP client for an issuer whose servers have certificates of a CA; an empty
// one is the system's. It bounds times and sizes. It follows no redirects, which could lead to
// another server.
func NewClient(ca string) (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSHandshakeTimeout: fetchTimeout, MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if ca != "" {
		text, err := os.ReadFile(ca) //nolint:gosec // the operator's own path
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM form", ca)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &http.Client{Transport: bounded{transport}, Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the identity provider redirects; configure its final address")
	}}, nil
}

// bounded limits the size of responses.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxDocument)
	}
	return resp, err
}
