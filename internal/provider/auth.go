package provider

import "net/http"

// Auths lists the credential schemes that a configuration may name.
func Auths() []Auth { return []Auth{Bearer, APIKey, XAPIKey, XGoogKey, NoneAuth} }

// Header is the canonical name of the header that carries the credential; it is
// empty for NoneAuth.
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

// Authorize puts the provider's credential on a request. Without a key, as for
// an engine on the operator's own machine, it sets nothing.
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
