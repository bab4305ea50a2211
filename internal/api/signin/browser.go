package signin

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// signInTime is how long a person may take for a sign-in.
const signInTime = 10 * time.Minute

// attempt is a sign-in in one browser. It is kept in a cookie of that browser, so that the answer of
// the provider is accepted only there: nobody can make a browser finish a sign-in of somebody else.
type attempt struct {
	state, nonce, verifier string
	code                   string // digest of the user code; empty for an operator
}

const attemptCookie = "isogloss-attempt"

// cookie returns a cookie for the origin of a URL. An https cookie is bound to the host.
func cookie(origin, name, value string, age time.Duration, mode http.SameSite) *http.Cookie {
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, SameSite: mode, MaxAge: int(age.Seconds())} //nolint:gosec // Secure is set below, except on loopback
	if strings.HasPrefix(origin, "https:") {
		c.Name, c.Secure = "__Host-"+name, true
	}
	if age <= 0 {
		c.MaxAge = -1
	}
	return c
}

// readCookie returns the value of a cookie, empty without one.
func readCookie(r *http.Request, origin, name string) string {
	c, err := r.Cookie(cookie(origin, name, "", 0, 0).Name)
	if err != nil {
		return ""
	}
	return c.Value
}

// begin sends the browser to the identity provider. code is the digest of the user code.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, origin, callback, code string) {
	a := attempt{newSecret(), newSecret(), oauth2.GenerateVerifier(), code}
	c, _, err := s.provider.config(r.Context(), origin+callback)
	if err != nil {
		s.o.Logger.Warn("a sign-in cannot begin", "error", err)
		writePage(w, http.StatusServiceUnavailable, "Sign-in is not available", "The identity provider cannot be reached. Try again in a minute.", "")
		return
	}
	// Lax, because the provider's answer comes from another site.
	value := s.sealAttempt(origin, a, time.Now().Add(signInTime))
	http.SetCookie(w, cookie(origin, attemptCookie, value, signInTime, http.SameSiteLaxMode))
	writeOnward(w, c.AuthCodeURL(a.state, oidc.Nonce(a.nonce), oauth2.S256ChallengeOption(a.verifier)))
}

// sealAttempt returns the value of the cookie of an attempt. Its MAC shows that the gateway has begun the
// attempt. So the user code was entered at the gateway, and not guessed.
func (s *Server) sealAttempt(origin string, a attempt, ends time.Time) string {
	text := strings.Join([]string{a.state, a.nonce, a.verifier, a.code, strconv.FormatInt(ends.Unix(), 10)}, ".")
	return text + "." + s.attemptMAC(origin, text)
}

// openAttempt returns the attempt of a cookie if the gateway has begun it at this origin and it has not
// ended.
func (s *Server) openAttempt(origin, value string, now time.Time) (a attempt, ok bool) {
	at := strings.LastIndexByte(value, '.')
	if at < 0 || subtle.ConstantTimeCompare([]byte(value[at+1:]), []byte(s.attemptMAC(origin, value[:at]))) != 1 {
		return a, false
	}
	parts := strings.Split(value[:at], ".")
	if len(parts) != 5 {
		return a, false
	}
	ends, err := strconv.ParseInt(parts[4], 10, 64)
	return attempt{parts[0], parts[1], parts[2], parts[3]}, err == nil && now.Unix() < ends
}

func (s *Server) attemptMAC(origin, text string) string {
	mac := hmac.New(sha256.New, s.o.Key)
	_, _ = mac.Write([]byte(origin + "\x00" + text)) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// readAttempt returns the attempt of the browser if the provider's answer belongs to it.
func (s *Server) readAttempt(w http.ResponseWriter, r *http.Request, origin string) (a attempt, ok bool) {
	a, ok = s.openAttempt(origin, readCookie(r, origin, attemptCookie), time.Now())
	http.SetCookie(w, cookie(origin, attemptCookie, "", 0, http.SameSiteLaxMode))
	if !ok {
		return a, false
	}
	q := r.URL.Query()
	if issuer := q.Get("iss"); issuer != "" && issuer != s.o.Issuer { // the answer of another provider
		return a, false
	}
	return a, a.state != "" && subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.state)) == 1
}

// errNotFinished reports that the person or the provider has ended the sign-in.
var errNotFinished = errors.New("the sign-in was not finished")

// finish gets the tokens of a sign-in from the provider's answer, and whom they admit.
func (s *Server) finish(r *http.Request, a attempt, redirect string) (tokens, *access.Person, error) {
	q := r.URL.Query()
	if q.Get("error") != "" || q.Get("code") == "" {
		return tokens{}, nil, errNotFinished
	}
	got, err := s.provider.exchange(r.Context(), redirect, q.Get("code"), a.verifier)
	if err != nil {
		return tokens{}, nil, err
	}
	id, _ := got.Extra("id_token").(string)
	mail, err := s.o.Verifier.SignedIn(r.Context(), s.o.Issuer, s.o.Client, a.nonce, id)
	if err != nil {
		return tokens{}, nil, errors.Join(errRefused, err)
	}
	t, err := s.provider.tokens(got)
	if err != nil {
		return t, nil, err
	}
	t.Mail = mail
	p, err := s.admit(r, &t)
	return t, p, err
}

// admit returns whom tokens admit. They expire when the gateway ceases to accept them.
func (s *Server) admit(r *http.Request, t *tokens) (*access.Person, error) {
	p, fault := s.o.People.Admit(r, t.Bearer)
	if fault != nil {
		return nil, fault
	}
	t.Expires = p.Expires
	return p, nil
}

// explain returns the status and the message for a person whose sign-in failed.
func explain(err error) (int, string) {
	var fault *llm.Error
	switch {
	case errors.Is(err, errNotFinished):
		return http.StatusForbidden, "The sign-in was cancelled, or the identity provider refused it."
	case errors.As(err, &fault):
		return fault.HTTPStatus(), "You are signed in at the identity provider, but the gateway does not admit you: " + fault.Message + "."
	case errors.Is(err, errRefused):
		return http.StatusForbidden, "The identity provider refused the sign-in. Start again; if that does not help, ask the gateway's operator."
	}
	return http.StatusServiceUnavailable, "The identity provider or the gateway's store cannot be reached. Start again in a minute."
}
