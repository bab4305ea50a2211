package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

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

// Expiry is when a certificate of a port expires.
type Expiry struct {
	Name, Fingerprint string
	NotAfter          time.Time
}

// Expiring returns the certificates in use that expire before a time.
func (l *Leaves) Expiring(before time.Time) (list []Expiry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, c := range l.current {
		if c.Leaf != nil && c.Leaf.NotAfter.Before(before) {
			list = append(list, Expiry{name, fingerprint(c), c.Leaf.NotAfter})
		}
	}
	return list
}

// Ports are the certificates of all ports.
type Ports []*Leaves

// New returns the Leaves of one more port. signIn is as for NewLeaves.
func (p *Ports) New(logger *slog.Logger, signIn func() bool) *Leaves {
	l := NewLeaves(logger, signIn)
	*p = append(*p, l)
	return l
}

// Expiring returns the certificates in use that expire before a time.
func (p Ports) Expiring(before time.Time) (list []Expiry) {
	for _, l := range p {
		list = append(list, l.Expiring(before)...)
	}
	return list
}

// fingerprint returns the first half of a certificate's SHA-256.
func fingerprint(c *tls.Certificate) string {
	sum := sha256.Sum256(c.Certificate[0])
	return hex.EncodeToString(sum[:16])
}
