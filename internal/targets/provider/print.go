package provider

import (
	"fmt"
	"log/slog"
)

// The printing methods below have value receivers, so that they apply to a Provider and
// to a pointer to one: Headers and the query of BaseURL may contain credentials.

// String names the provider, its protocol and its address.
func (p Provider) String() string {
	if p.BaseURL == nil {
		return fmt.Sprintf("%s (%s)", p.Name, p.Protocol)
	}
	return fmt.Sprintf("%s (%s at %s://%s%s)", p.Name, p.Protocol, p.BaseURL.Scheme, p.BaseURL.Host, p.BaseURL.EscapedPath())
}

// Format prints String for every verb.
func (p Provider) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(p.String())) }

// MarshalText gives String to JSON and YAML.
func (p Provider) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// LogValue gives String to slog.
func (p Provider) LogValue() slog.Value { return slog.StringValue(p.String()) }
