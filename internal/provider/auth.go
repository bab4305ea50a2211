package provider

import "net/http"

// Auths lists the credential schemes that a configuration may name.
func Auths() []Auth { return []Auth{Bearer, APIKey, XAPIKey, XGoogKey, NoneAuth} }

// Header returns the canonical name of the credential header, or "" for NoneAuth.
func (a Auth) Header() string {
	switch a {
	case Bearer:
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

// Authorize sets the provider's credential on a request. Without a key it sets nothing.
func (p *Provider) Authorize(h http.Header) {
	name := p.Auth.Header()
	if name == "" || p.Key == "" {
		return
	}
	value := p.Key.Reveal()
	if p.Auth == Bearer {
		value = "Bearer " + value
	}
	h[name] = []string{value}
}
