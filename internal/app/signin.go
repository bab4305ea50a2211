package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/signin"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/edge/local"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
	"github.com/isogloss-gateway/isogloss/llm"
)

// newSignIn returns the sign-in of a configuration, nil without a store. Without identity.sign_in only keys begin
// sessions.
func (c *current) newSignIn(cfg *config.Config, verifier signin.Verifier) (*signin.Server, error) {
	if c.stores.store == nil {
		return nil, nil
	}
	f := cfg.SignIn
	if f == nil {
		f = &identity.SignIn{}
	}
	key, err := c.stores.peppers.Derive("cookies of sign-ins")
	if err != nil {
		return nil, fmt.Errorf("identity.sign_in: %w", err)
	}
	s, err := signin.New(signin.Options{URL: f.URL, Admin: f.Admin, Issuer: f.Issuer, CA: f.CA, Client: f.Client, Secret: f.Secret, Scopes: f.Scopes,
		IDToken: f.IDToken, Notice: f.Notice, Key: key, People: c, Verifier: verifier, Revoked: &c.revoked, Store: c.stores.store, Logger: c.logger})
	if err != nil {
		return nil, fmt.Errorf("identity.sign_in: %w", err)
	}
	return s, nil
}

// signsIn reports whether people can sign in through the gateway.
func (c *current) signsIn() bool { return c.signIn.Load().SignsIn() }

// Admit implements signin.People with the configuration in use.
func (c *current) Admit(r *http.Request, token string) (*access.Person, *llm.Error) {
	return c.clients.Load().Admit(r, token)
}

// Prove implements signin.People with the configuration in use.
func (c *current) Prove(r *http.Request) (access.Record, access.Proof, *llm.Error) {
	return c.clients.Load().Prove(r)
}

// ProvenOperator implements signin.People with the configuration in use.
func (c *current) ProvenOperator(r *http.Request, p access.Proof) (access.Record, *llm.Error) {
	return c.clients.Load().ProvenOperator(r, p)
}

// ProvenVisitor implements signin.People with the configuration in use.
func (c *current) ProvenVisitor(r *http.Request, p access.Proof) (access.Visitor, *llm.Error) {
	return c.clients.Load().ProvenVisitor(r, p)
}

// Admitted implements signin.People with the configuration in use.
func (c *current) Admitted(r *http.Request, token string) (access.Visitor, *llm.Error) {
	return c.clients.Load().Admitted(r, token)
}

// Visitor returns the client of a request for what the client itself uses: by its key or token, or a browser by its
// session.
func (c *current) Visitor(r *http.Request) (access.Visitor, *llm.Error) {
	if s := c.signIn.Load(); agents.Key(r) == "" && s.HasVisit(r) {
		return s.Visitor(r)
	}
	return c.clients.Load().Visitor(r)
}

// BeginSession implements admin.Sessions with the configuration in use.
func (c *current) BeginSession(ctx context.Context, r *http.Request) (*http.Cookie, time.Time, error) {
	return c.signIn.Load().BeginSession(ctx, r)
}

// Operator implements admin.Operators with the configuration in use. A command on this machine is known by
// the socket that it uses, a browser has a session, other clients a key or a token.
func (c *current) Operator(r *http.Request) (access.Record, *llm.Error) {
	if uid, ok := local.UID(r.Context()); ok {
		return admin.LocalOwner(uid), nil
	}
	if s := c.signIn.Load(); r.Header.Get("Authorization") == "" && s.HasSession(r) {
		return s.Operator(r)
	}
	return c.clients.Load().Operator(r)
}

// addSignIn adds the paths of the sign-in of people. rest serves those that the configuration does not have.
func (c *current) addSignIn(to ingress.Paths, paths []string, find func(*signin.Server, string) http.Handler, rest http.Handler) ingress.Paths {
	for _, path := range paths {
		to[path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := rest
			if s := c.signIn.Load(); s != nil {
				if found := find(s, path); found != nil {
					h = found
				}
			}
			h.ServeHTTP(w, r)
		})
	}
	return to
}
