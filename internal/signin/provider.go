package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/isogloss-gateway/isogloss/internal/identity"
)

// endpointsAge is the age at which the addresses of a provider are fetched again.
const endpointsAge = time.Hour

// provider is the identity provider, seen as one of its clients.
type provider struct {
	o      *Options
	client *http.Client

	mu      sync.Mutex
	found   endpoints
	fetched time.Time
}

// endpoints are the addresses of a provider.
type endpoints struct {
	oauth2.Endpoint
	revoke string // empty: it has none
}

// endpoints returns the addresses by the discovery document. While the provider does not respond,
// those of the last document are used.
func (p *provider) endpoints(ctx context.Context) (endpoints, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.fetched) < endpointsAge {
		return p.found, nil
	}
	found, err := p.discover(ctx)
	if err != nil && p.fetched.IsZero() {
		return found, fmt.Errorf("the identity provider cannot be reached: %w", err)
	}
	if err == nil {
		p.found = found
	}
	p.fetched = time.Now()
	return p.found, nil
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
	for _, u := range []string{found.AuthURL, found.TokenURL, document.Revoke} {
		if u == "" && u == document.Revoke {
			continue
		}
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

// refresh gets new tokens for a refresh token.
func (p *provider) refresh(ctx context.Context, token string) (*oauth2.Token, error) {
	c, _, err := p.config(ctx, "")
	if err != nil {
		return nil, err
	}
	t, err := c.TokenSource(p.context(ctx), &oauth2.Token{RefreshToken: token}).Token()
	return t, refusal(err)
}

// refusal marks the errors of a provider that has decided.
func refusal(err error) error {
	var answer *oauth2.RetrieveError
	if errors.As(err, &answer) && answer.Response.StatusCode/100 == 4 && answer.Response.StatusCode != http.StatusTooManyRequests {
		return fmt.Errorf("%w: %s", errRefused, answer.ErrorCode) // the rest of the answer may hold private data
	}
	return err
}

// revoke ends a token at the provider.
func (p *provider) revoke(ctx context.Context, token string) error {
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
