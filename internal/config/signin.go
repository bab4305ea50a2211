package config

import (
	"slices"
	"strings"
	"unicode/utf8"

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

const maxNotice = 500

// resolve returns nil if no sign-in is configured.
func (f *signInFile) resolve(issuers []Issuer, store bool, ps *Problems) *SignIn {
	if f.node == nil {
		return nil
	}
	f.check(store, ps)
	out := &SignIn{URL: strings.TrimSuffix(f.URL, "/"), Admin: strings.TrimSuffix(f.Admin, "/"), Issuer: f.Issuer, Client: f.Client, Secret: f.Secret,
		IDToken: f.Token == "id_token", Notice: f.Notice}
	if len(f.Scopes) == 0 {
		f.Scopes = []string{"openid", "email"}
	}
	out.Scopes = f.Scopes
	at := slices.IndexFunc(issuers, func(i Issuer) bool { return f.Issuer == "" || i.URL == f.Issuer })
	if at < 0 {
		ps.addKey(&f.at, "issuer", "is not one of identity.issuers; write that issuer there, with its rules")
		return nil
	}
	out.Issuer, out.CA = issuers[at].URL, issuers[at].CA
	if out.IDToken && !slices.Contains(issuers[at].Audiences, f.Client) {
		ps.addKey(&f.at, "token", "is id_token, whose audience is the client, and audiences of the issuer does not have %q; add it there", f.Client)
	}
	return out
}

func (f *signInFile) check(store bool, ps *Problems) {
	if !store {
		ps.addKey(&f.at, "url", "requires a store, which keeps sign-ins for all nodes; write store, or remove sign_in")
	}
	f.checkIdentityURL("url", f.URL, ps)
	if f.Admin != "" {
		f.checkIdentityURL("admin", f.Admin, ps)
	}
	if f.Client == "" {
		ps.addKey(&f.at, "client", "is empty; write the id under which the identity provider knows the gateway")
	}
	if len(f.Scopes) > 0 && !slices.Contains(f.Scopes, "openid") {
		ps.addKey(&f.at, "scopes", "has no openid, without which the identity provider does not say who has signed in; add it")
	}
	if utf8.RuneCountInString(f.Notice) > maxNotice {
		ps.addKey(&f.at, "notice", "has more than %d characters; shorten it", maxNotice)
	}
}
