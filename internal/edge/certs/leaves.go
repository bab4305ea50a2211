package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
)

// Leaves logs the leaf certificates of a port. Agents of people who sign in pin the leaf.
type Leaves struct {
	logger  *slog.Logger
	signIn  func() bool
	mu      sync.Mutex
	current map[string]*tls.Certificate
}

// NewLeaves returns the Leaves of a port. signIn reports whether people can sign in; nil: they cannot.
func NewLeaves(logger *slog.Logger, signIn func() bool) *Leaves {
	return &Leaves{logger: logger, signIn: signIn, current: map[string]*tls.Certificate{}}
}

// note logs a certificate that differs from the one before it. Certificates with keys of another kind
// are for clients without support for this one.
func (l *Leaves) note(name string, c *tls.Certificate) {
	if c.Leaf != nil {
		name += " " + c.Leaf.PublicKeyAlgorithm.String()
	}
	l.mu.Lock()
	before := l.current[name]
	l.current[name] = c
	l.mu.Unlock()
	switch {
	case before == c || before != nil && fingerprint(before) == fingerprint(c):
	case before != nil && l.signIn != nil && l.signIn():
		l.logger.Warn("the certificate has changed", "certificate", name, "sha256", fingerprint(c), "before", fingerprint(before), "hint", agents.PinnedLeaf)
	default:
		l.logger.Info("certificate loaded", "certificate", name, "sha256", fingerprint(c))
	}
}

// fingerprint returns the first half of a certificate's SHA-256.
func fingerprint(c *tls.Certificate) string {
	sum := sha256.Sum256(c.Certificate[0])
	return hex.EncodeToString(sum[:16])
}
