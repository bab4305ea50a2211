package signin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
)

const (
	endpointsAge    = time.Hour       // age at which the addresses of a provider are fetched again
	discoverTimeout = 5 * time.Second // of a fetch
)

// provider is the identity provider, seen as one of its clients.
type provider struct {
	o      *Options
	client *http.Client
	calls  slots // renewals and revocations in progress

	flights singleflight.Group
	mu      sync.Mutex
	found   endpoints
	fetched time.Time
}

// endpoints are the addresses of a provider.
type endpoints struct {
	oauth2.Endpoint
	revoke string // empty: it has none
}

// endpoints returns the addresses by the discovery document, which is fetched once at a time. While
// the provider does not respond, those of the last document are used.
func (p *provider) endpoints(ctx context.Context) (endpoints, error) {
	if found, ok := p.known(endpointsAge); ok {
		return found, nil
	}
	fetched := p.flights.DoChan("", func() (any, error) {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), discoverTimeout)
		defer cancel()
		found, err := p.discover(short)
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.found, p.fetched = found, time.Now()
		}
		return nil, err
	})
	var err error
	select {
	case got := <-fetched:
		err = got.Err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if found, ok := p.known(math.MaxInt64); ok {
		return found, nil
	}
	return endpoints{}, fmt.Errorf("the identity provider cannot be reached: %w", err)
}

// known returns the addresses if they were fetched within a time.
func (p *provider) known(age time.Duration) (endpoints, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found, !p.fetched.IsZero() && time.Since(p.fetched) < age
}

func (p *provider) discover(ctx context.Context) (found endpoints, err error) {
	at, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.o.Issuer) // checks that the document is the issuer's
	if err != nil {
		return found, err
	}
	var document struct {
		Revoke  string   `json:"revocation_endpoint"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := at.Claims(&document); err != nil {
		return found, err
	}
	found = endpoints{at.Endpoint(), document.Revoke}
	urls := []string{found.AuthURL, found.TokenURL}
	if document.Revoke != "" {
		urls = append(urls, document.Revoke)
	}
	for _, u := range urls {
		if err := identity.CheckURL(u); err != nil {
			return found, err
		}
	}
	// The library would try both styles, and so use a code twice.
	found.AuthStyle = oauth2.AuthStyleInHeader
	basic := len(document.Methods) == 0 || slices.Contains(document.Methods, "client_secret_basic")
	if p.o.Secret == "" || !basic {
		found.AuthStyle = oauth2.AuthStyleInParams
	}
	return found, nil
}

// config returns the settings of the library for a redirect address.
func (p *provider) config(ctx context.Context, redirect string) (*oauth2.Config, endpoints, error) {
	at, err := p.endpoints(ctx)
	return &oauth2.Config{ClientID: p.o.Client, ClientSecret: p.o.Secret.Reveal(), Endpoint: at.Endpoint, RedirectURL: redirect, Scopes: p.o.Scopes}, at, err
}

// errRefused reports that the provider refuses a code or a refresh token. Trying again does not help.
var errRefused = errors.New("the identity provider refuses the sign-in")

// exchange gets the tokens for an authorization code.
func (p *provider) exchange(ctx context.Context, redirect, code, verifier string) (*oauth2.Token, error) {
	c, _, err := p.config(ctx, redirect)
	if err != nil {
		return nil, err
	}
	t, err := c.Exchange(p.context(ctx), code, oauth2.VerifierOption(verifier))
	return t, refusal(err)
}

// refresh gets new tokens for a refresh token, for a client or, without its address, a session.
func (p *provider) refresh(ctx context.Context, from netip.Addr, token string) (*oauth2.Token, error) {
	leave, ok := p.calls.enter(from)
	if !ok {
		return nil, errBusy
	}
	defer leave()
	c, _, err := p.config(ctx, "")
	if err != nil {
		return nil, err
	}
	t, err := c.TokenSource(p.context(ctx), &oauth2.Token{RefreshToken: token}).Token()
	return t, refusal(err)
}

// errBusy reports that too many calls wait for the identity provider.
var errBusy = errors.New("too many renewals wait for the identity provider")

// refusal marks the errors of a provider that has decided. Of a provider's answer it keeps the
// status and the code: the rest may quote a token or the gateway's secret, and errors are logged.
func refusal(err error) error {
	var answer *oauth2.RetrieveError
	switch {
	case !errors.As(err, &answer):
		return err
	case answer.Response.StatusCode/100 == 4 && answer.Response.StatusCode != http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s", errRefused, plain.Word(answer.ErrorCode))
	}
	return fmt.Errorf("the identity provider responded with status %d", answer.Response.StatusCode)
}

// revoke ends a token at the provider, for a client or, without its address, a session.
func (p *provider) revoke(ctx context.Context, from netip.Addr, token string) error {
	leave, ok := p.calls.enter(from)
	if !ok {
		return errBusy
	}
	defer leave()
	c, at, err := p.config(ctx, "")
	if err != nil || at.revoke == "" {
		return err
	}
	form := url.Values{"token": {token}}
	if at.AuthStyle == oauth2.AuthStyleInParams {
		form.Set("client_id", c.ClientID)
		if c.ClientSecret != "" {
			form.Set("client_secret", c.ClientSecret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.revoke, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if at.AuthStyle == oauth2.AuthStyleInHeader {
		req.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret))
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode/100 == 5 {
		return fmt.Errorf("the identity provider answers %d", resp.StatusCode)
	}
	return nil
}

func (p *provider) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, p.client)
}

// tokens returns what clients get of the provider's tokens.
func (p *provider) tokens(t *oauth2.Token) (tokens, error) {
	out := tokens{Bearer: t.AccessToken, Refresh: t.RefreshToken, Expires: t.Expiry}
	if p.o.IDToken {
		out.Bearer, _ = t.Extra("id_token").(string)
	}
	if out.Bearer == "" {
		return out, errors.New("the identity provider sent no token; request the scope openid")
	}
	return out, nil
}
