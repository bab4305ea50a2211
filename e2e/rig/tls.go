package rig

import (
	"crypto/tls"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TLS is in front of servers for clients that send their keys over HTTPS only.
type TLS struct {
	CA string // the file of the certificate

	certificate tls.Certificate
	fronts      map[string]string // addresses by the server's
}

// NewTLS makes a certificate for loopback.
func NewTLS(t *testing.T) *TLS {
	t.Helper()
	certificate, pem, err := testrig.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	s := &TLS{CA: filepath.Join(t.TempDir(), "ca.pem"), certificate: certificate, fronts: map[string]string{}}
	if err := os.WriteFile(s.CA, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// URL returns the URL of a server over TLS, until t ends. The client's bytes reach the server
// as they are.
func (s *TLS) URL(t *testing.T, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	if s.fronts[u.Host] == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{s.certificate}, MinVersion: tls.VersionTLS12})
		t.Cleanup(testrig.ServeProxy(l, u.Host, nil).Close)
		s.fronts[u.Host] = l.Addr().String()
	}
	u.Scheme, u.Host = "https", s.fronts[u.Host]
	return u.String()
}
