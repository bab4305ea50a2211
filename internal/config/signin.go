package config

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// SignIn makes the gateway a client of an identity provider.
type SignIn struct {
	URL     string // of the client port, without a slash at its end
	Admin   string // of the admin port; may be empty
	Issuer  string
	CA      string // file
	Client  string
	Secret  secret.String
	Scopes  []string
	IDToken bool
	Notice  string
}

// resolve returns nil if no sign-in is configured.
func (f *signInFile) resolve(issuers []Issuer, store bool) *SignIn {
	if !f.On() {
		return nil
	}
	f.check(store)
	out := &SignIn{URL: strings.TrimSuffix(f.URL, "/"), Admin: strings.TrimSuffix(f.Admin, "/"), Issuer: f.Issuer, Client: f.Client, Secret: f.Secret,
		IDToken: f.Token == "id_token", Notice: f.Notice}
	if len(f.Scopes) == 0 {
		f.Scopes = []string{"openid", "email"}
	}
	out.Scopes = f.Scopes
	at := slices.IndexFunc(issuers, func(i Issuer) bool { return f.Issuer == "" || i.URL == f.Issuer })
	if at < 0 {
		f.Wrong("issuer", "is not one of identity.issuers; write that issuer there, with its rules")
		return nil
	}
	out.Issuer, out.CA = issuers[at].URL, issuers[at].CA
	if out.IDToken && !slices.Contains(issuers[at].Audiences, f.Client) {
		f.Wrong("token", "is id_token, whose audience is the client, and audiences of the issuer does not have %q; add it there", f.Client)
	}
	return out
}

func (f *signInFile) check(store bool) {
	if !store {
		f.Wrong("url", "requires a store, which keeps sign-ins for all nodes; write store, or remove sign_in")
	}
	checkIdentityURL(&f.At, "url", f.URL)
	if f.Admin != "" {
		checkIdentityURL(&f.At, "admin", f.Admin)
	}
	if f.Client == "" {
		f.Wrong("client", "is empty; write the id under which the identity provider knows the gateway")
	}
	if len(f.Scopes) > 0 && !slices.Contains(f.Scopes, "openid") {
		f.Wrong("scopes", "has no openid, without which the identity provider does not say who has signed in; add it")
	}
}
