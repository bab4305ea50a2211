// Package login signs a person in at a gateway from the command line, and keeps the tokens in a file
// of that person. Programs get a valid token from it, which is renewed when it is about to expire.
package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
)

const (
	timeout     = 30 * time.Second // of a request to the gateway
	maxDocument = 1 << 20
	maxCode     = 40  // characters of a user code that are shown
	maxShown    = 300 // characters of another text of a gateway that are shown
	clientID    = "isogloss"
	maxLife     = 24 * 3600   // seconds of a code; a longer one does not end by itself
	maxInterval = 60          // seconds between two polls
	renewBefore = time.Minute // how long a token that is handed out is valid at least
)

// ErrEnded reports that a gateway does not renew the sign-in.
var ErrEnded = errors.New("the sign-in has ended")

// errBadToken reports a token that cannot be printed or sent.
var errBadToken = errors.New("the gateway sent a token with unprintable characters; ask its operator")

// Logins are the sign-ins of a person on this machine.
type Logins struct {
	File   string       // in which they are kept
	Client *http.Client // nil: the default one
}

// login is a sign-in at one gateway.
type login struct {
	Mail   string       `json:"mail,omitempty"`
	Token  oauth2.Token `json:"token"`
	Server server       `json:"server"`
}

// server holds the addresses of a gateway (RFC 8414).
type server struct {
	Device string `json:"device_authorization_endpoint"`
	Token  string `json:"token_endpoint"`
	Revoke string `json:"revocation_endpoint"`
}

func (s server) config() *oauth2.Config {
	return &oauth2.Config{ClientID: clientID, Endpoint: oauth2.Endpoint{DeviceAuthURL: s.Device, TokenURL: s.Token, AuthStyle: oauth2.AuthStyleInParams}}
}

// Flow is a sign-in that waits for the person.
type Flow struct {
	URL    string // of the page on which the person signs in
	Code   string // which the page shows
	logins *Logins
	at     string
	server server
	device *oauth2.DeviceAuthResponse
}

// Start begins a sign-in at the gateway with a URL.
func (l *Logins) Start(ctx context.Context, gateway string) (*Flow, error) {
	gateway, err := clean(gateway)
	if err != nil {
		return nil, err
	}
	s, err := l.discover(ctx, gateway)
	if err != nil {
		return nil, err
	}
	d, err := l.begin(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("the gateway does not start a sign-in: %w", short(err))
	}
	f := &Flow{URL: d.VerificationURIComplete, Code: plain.Short(d.UserCode, maxCode), logins: l, at: gateway, server: s, device: d}
	if f.URL == "" {
		f.URL = d.VerificationURI
	}
	if origin(f.URL) != origin(gateway) || !plain.IsLine(f.URL) {
		return nil, fmt.Errorf("%s leads to a page at another address (%q); do not open it, and ask the gateway's operator", gateway, plain.Short(f.URL, maxShown))
	}
	return f, nil
}

// begin asks a gateway for a code. The library's own request ignores the context, and panics on the answer
// "null". Later the library panics on an interval that is negative as a duration.
func (l *Logins) begin(ctx context.Context, s server) (*oauth2.DeviceAuthResponse, error) {
	resp, err := l.post(ctx, s.Device, url.Values{"client_id": {clientID}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		refusal := oauth2.RetrieveError{Response: resp}
		var fault struct {
			Code string `json:"error"`
			Text string `json:"error_description"`
		}
		if json.Unmarshal(text, &fault) == nil { // a proxy sends a page
			refusal.ErrorCode, refusal.ErrorDescription = fault.Code, fault.Text
		}
		return nil, &refusal
	}
	return readBeginning(text)
}

// readBeginning reads the answer that begins a sign-in (RFC 8628).
func readBeginning(text []byte) (*oauth2.DeviceAuthResponse, error) {
	var d struct {
		Device   string `json:"device_code"`
		User     string `json:"user_code"`
		Page     string `json:"verification_uri"`
		WithCode string `json:"verification_uri_complete"`
		Life     int64  `json:"expires_in"`
		Interval int64  `json:"interval"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("its answer cannot be read: %w", err)
	}
	if d.Device == "" || d.Interval < 0 || d.Interval > maxInterval {
		return nil, fmt.Errorf("its answer has no code, or an interval of %d s", d.Interval)
	}
	r := &oauth2.DeviceAuthResponse{DeviceCode: d.Device, UserCode: d.User, VerificationURI: d.Page, VerificationURIComplete: d.WithCode, Interval: d.Interval}
	if d.Life > 0 && d.Life < maxLife {
		r.Expiry = time.Now().Add(time.Duration(d.Life) * time.Second)
	}
	return r, nil
}

// Wait waits until the person has signed in, and keeps the tokens. It returns the mail address of the
// person, if the gateway knows it.
func (f *Flow) Wait(ctx context.Context) (mail string, err error) {
	t, err := f.server.config().DeviceAccessToken(f.logins.context(ctx), f.device)
	if err != nil {
		return "", fmt.Errorf("the sign-in has failed: %w", short(err))
	}
	if !plain.IsLine(t.AccessToken) { // it is printed and sent in headers
		return "", errBadToken
	}
	mail, _ = t.Extra("email").(string)
	mail = plain.Short(mail, maxShown)
	return mail, f.logins.change(ctx, func(all map[string]login) error {
		all[f.at] = login{mail, *t, f.server}
		return nil
	})
}

// Token returns a valid token for a gateway, renewed if necessary. An empty gateway is the only one.
func (l *Logins) Token(ctx context.Context, gateway string) (token string, err error) {
	all, err := l.read()
	if err != nil {
		return "", err
	}
	at, err := pick(all, gateway)
	if err != nil {
		return "", err
	}
	if mine := all[at]; time.Until(mine.Token.Expiry) > renewBefore {
		return mine.Token.AccessToken, nil
	}
	err = l.change(ctx, func(all map[string]login) error {
		mine, ok := all[at]
		if !ok {
			return ErrEnded
		}
		if time.Until(mine.Token.Expiry) <= renewBefore { // another process may have renewed it
			if err := l.renew(ctx, &mine); err != nil {
				return err
			}
			all[at] = mine
		}
		token = mine.Token.AccessToken
		return nil
	})
	if errors.Is(err, ErrEnded) {
		err = fmt.Errorf("%w; run 'isogloss login %s'", ErrEnded, at)
	}
	return token, err
}

// renew gets a new token.
func (l *Logins) renew(ctx context.Context, mine *login) error {
	if mine.Token.RefreshToken == "" {
		return ErrEnded
	}
	t, err := mine.Server.config().TokenSource(l.context(ctx), &oauth2.Token{RefreshToken: mine.Token.RefreshToken}).Token()
	var answer *oauth2.RetrieveError
	switch {
	case errors.As(err, &answer) && answer.ErrorCode == "invalid_grant":
		return ErrEnded
	case err != nil:
		return fmt.Errorf("the gateway does not renew the token: %w", short(err))
	}
	if !plain.IsLine(t.AccessToken) {
		return errBadToken
	}
	mine.Token = *t
	return nil
}

// Out ends a sign-in at the gateway and forgets it. An empty gateway is the only one.
func (l *Logins) Out(ctx context.Context, gateway string) (at string, err error) {
	err = l.change(ctx, func(all map[string]login) error {
		if at, err = pick(all, gateway); err != nil {
			return err
		}
		mine := all[at]
		delete(all, at)
		for _, token := range []string{mine.Token.AccessToken, mine.Token.RefreshToken} {
			if token != "" && mine.Server.Revoke != "" {
				err = errors.Join(err, l.revoke(ctx, mine.Server.Revoke, token))
			}
		}
		return nil
	})
	return at, err
}

func (l *Logins) revoke(ctx context.Context, address, token string) error {
	resp, err := l.post(ctx, address, url.Values{"token": {token}})
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway answers %d to the sign-out; the tokens are valid until they expire", resp.StatusCode)
	}
	return nil
}

// post sends a form to a gateway.
func (l *Logins) post(ctx context.Context, address string, form url.Values) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return l.client().Do(req)
}

// discover returns the addresses of a gateway. All addresses must have the origin of the
// gateway, so that tokens reach no other server.
func (l *Logins) discover(ctx context.Context, gateway string) (s server, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, gateway+"/.well-known/oauth-authorization-server", http.NoBody)
	if err != nil {
		return s, err
	}
	resp, err := l.client().Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s answers %d: it is no gateway, or has no sign-in; its operator can configure identity.sign_in", gateway, resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("%s does not describe a sign-in: %w", gateway, err)
	}
	for _, address := range []string{s.Device, s.Token, s.Revoke} {
		if address != "" && origin(address) != origin(gateway) || s.Device == "" || s.Token == "" {
			return s, fmt.Errorf("%s describes a sign-in at another address (%q); use the URL that its operator has configured", gateway, address)
		}
	}
	return s, nil
}

// clean returns the URL of a gateway without a slash at its end.
func clean(gateway string) (string, error) {
	u, err := url.Parse(gateway)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "":
		return "", fmt.Errorf("%q is not the URL of a gateway; write one such as https://gateway.example.com", gateway)
	case !safeurl.IsSafe(u):
		return "", fmt.Errorf("%q is not https; tokens are sent over plain HTTP only to this machine", gateway)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (l *Logins) client() *http.Client {
	c := http.Client{Timeout: timeout}
	if l.Client != nil {
		c = *l.Client
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // tokens reach no other server
	return &c
}

func (l *Logins) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, l.client())
}

// short returns an error of the library without the body of the answer.
func short(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		if plain.IsLine(err.Error()) {
			return err
		}
		return errors.New(plain.Short(err.Error(), maxShown))
	}
	switch answer.ErrorCode {
	case "access_denied":
		return errors.New("it was refused or cancelled")
	case "expired_token":
		return errors.New("it took too long; start again")
	case "":
		return fmt.Errorf("the gateway answers %d", answer.Response.StatusCode)
	}
	return errors.New(plain.Short(answer.ErrorCode+": "+answer.ErrorDescription, maxShown))
}
