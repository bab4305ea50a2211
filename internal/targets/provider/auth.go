package provider

import (
	"context"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Auths lists the credential schemes that a configuration may name.
func Auths() []Auth {
	return []Auth{Bearer, APIKey, XAPIKey, XGoogKey, AWSAuth, GoogleAuth, AzureAuth, NoneAuth}
}

// Header returns the canonical name of the credential header, or "" for NoneAuth.
func (a Auth) Header() string {
	switch a {
	case Bearer, AWSAuth, GoogleAuth, AzureAuth:
		return "Authorization"
	case APIKey:
		return "Api-Key"
	case XAPIKey:
		return "X-Api-Key"
	case XGoogKey:
		return "X-Goog-Api-Key"
	default:
		return ""
	}
}

// Cloud reports whether the credential is one of a cloud, which has no fixed text.
func (a Auth) Cloud() bool { return a == AWSAuth || a == GoogleAuth || a == AzureAuth }

// set sets a key as the credential of a request.
func (a Auth) set(h http.Header, key secret.String) {
	value := key.Reveal()
	if a == Bearer {
		value = "Bearer " + value
	}
	h[a.Header()] = []string{value}
}

// Authorize sets the provider's key on a request. It sets nothing without a key, and nothing
// if the provider has a Credential, which signs the request when it is complete.
func (p *Provider) Authorize(h http.Header) {
	if p.Auth.Header() == "" || p.Key == "" || p.Credential != nil {
		return
	}
	p.Auth.set(h, p.Key)
}

// Sign sets the credential on a complete request without a body, whatever kind it has.
func (p *Provider) Sign(ctx context.Context, req *http.Request) error {
	p.Authorize(req.Header)
	if p.Credential == nil {
		return nil
	}
	return p.Credential.Sign(ctx, req, nil)
}
