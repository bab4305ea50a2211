package secret

import (
	"net/url"
	"strings"
)

// knownParts are parts of secrets that stand in examples, of this project and of others, which everybody knows.
var knownParts = []string{"change-this", "change_this", "changethis", "change-me", "change_me", "changeme", "replace-this", "replace_this", "replace-me", "replace_me", "replaceme",
	"your-pepper", "your_pepper", "your-key", "your_key", "your-secret", "your_secret", "your-password", "your_password"}

// IsKnown reports whether a secret is one of an example.
func (s String) IsKnown() bool {
	text := strings.ToLower(s.Reveal())
	for _, part := range knownParts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// HasKnownPassword reports whether the password of a URL is one of an example: the name of the user is one too.
func HasKnownPassword(u *url.URL) bool {
	password, ok := u.User.Password()
	return ok && (String(password).IsKnown() || password == u.User.Username())
}
