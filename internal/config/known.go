package config

import (
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// knownParts are parts of secrets that stand in examples, of this project and of others, which everybody knows.
var knownParts = []string{"change-this", "change_this", "changethis", "change-me", "change_me", "changeme", "replace-this", "replace_this", "replace-me", "replace_me", "replaceme",
	"your-pepper", "your_pepper", "your-key", "your_key", "your-secret", "your_secret", "your-password", "your_password"}

// isKnown reports whether a secret is one of an example.
func isKnown(s secret.String) bool {
	text := strings.ToLower(s.Reveal())
	for _, part := range knownParts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// hasKnownPassword reports whether the password of a database on another machine is one of an example: the name
// of the user is one too.
func hasKnownPassword(u *url.URL) bool {
	password, ok := u.User.Password()
	if !ok || isLoopback(u.Hostname()) {
		return false
	}
	return isKnown(secret.String(password)) || password == u.User.Username()
}
