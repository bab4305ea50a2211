package identity

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

const (
	refreshEvery = time.Hour        // age at which keys are fetched again
	refreshPause = 10 * time.Second // minimum time between two fetches
	maxKeyAge    = 24 * time.Hour   // age up to which keys are used while the issuer does not respond
	fetchTimeout = 10 * time.Second // of one fetch
	fetchWait    = 2 * time.Second  // how long a token waits for a fetch
	maxDocument  = 1 << 20          // bytes of a discovery document or a key set
	maxKeys      = 100              // keys of one issuer
	minRSABits   = 2048
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
	failure error     // of the last fetch
}

// VerifySignature returns the payload of a token that one of the keys has signed.
func (s *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
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

// find returns the keys with an id, or all keys if the token names none. It fetches the keys if they
// are old or the id is unknown.
func (s *keySet) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	keys, age, wait := s.state(id)
	switch {
	case len(keys) > 0 && age < refreshEvery:
		return keys, nil
	case wait > 0 && len(keys) > 0 && age < maxKeyAge:
		return keys, nil
	case wait > 0 && age < maxKeyAge:
		return nil, errors.New("the issuer has no such key")
	case wait > 0:
		return nil, s.unavailable()
	}
	done := s.flights.DoChan("", func() (any, error) { s.fetch(); return nil, nil })
	if len(keys) > 0 && age < maxKeyAge { // old keys do for this token
		return keys, nil
	}
	timer := time.NewTimer(fetchWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if keys, age, _ = s.state(id); len(keys) == 0 && age < maxKeyAge {
		return nil, errors.New("the issuer has no such key")
	}
	if age >= maxKeyAge {
		return nil, s.unavailable()
	}
	return keys, nil
}

// state returns the keys with an id, their age, and how long the next fetch has to wait.
func (s *keySet) state(id string) (found []jose.JSONWebKey, age, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	age = maxKeyAge
	if !s.fetched.IsZero() {
		age = now.Sub(s.fetched)
	}
	if !s.tried.IsZero() {
		wait = s.tried.Add(refreshPause).Sub(now)
	}
	for _, k := range s.keys {
		if id == "" || k.KeyID == id {
			found = append(found, k)
		}
	}
	return found, age, wait
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
	if s.failure = err; err == nil {
		s.keys, s.fetched = keys, s.now()
	}
}

// read reads the keys from their source.
func (s *keySet) read(ctx context.Context) ([]jose.JSONWebKey, error) {
	source := s.source
	if source == "" {
		provider, err := oidc.NewProvider(oidc.ClientContext(ctx, s.client), s.issuer) // checks that the document is the issuer's
		if err != nil {
			return nil, err
		}
		var document struct {
			JWKS string `json:"jwks_uri"`
		}
		if err := provider.Claims(&document); err != nil {
			return nil, err
		}
		if err := CheckURL(document.JWKS); err != nil {
			return nil, fmt.Errorf("jwks_uri of the discovery document: %w", err)
		}
		source = document.JWKS
	}
	text, err := s.load(ctx, source)
	if err != nil {
		return nil, err
	}
	return parseKeys(text)
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
	return !isRSA || pub.N.BitLen() >= minRSABits
}

// CheckURL reports why an address of an identity provider is not accepted. Plain HTTP is for loopback.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("%q is not a URL", text)
	case u.User != nil:
		return errors.New("the URL has a user name or password")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()):
		return nil
	}
	return fmt.Errorf("%q is not https", text)
}

// newClient returns the client for an issuer's documents. It follows no redirects, which could lead
// to another server.
func newClient(ca string) (*http.Client, error) {
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
