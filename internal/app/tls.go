package app

import (
	"cmp"
	"crypto/tls"
	"path/filepath"
	"sync/atomic"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/edge/certs"
	"github.com/isogloss-gateway/isogloss/internal/edge/framing"
)

// publicTLS returns the TLS configuration of the client port, or nil for plain HTTP.
func publicTLS(cfg *config.Config, seen *certs.Leaves) (*tls.Config, error) {
	if a := cfg.ACME; len(a.Domains) > 0 {
		a.Storage = cmp.Or(a.Storage, filepath.Join(cfg.Data, "acme"))
		return certs.NewACME(a, seen)
	}
	return certs.New("tls", cfg.TLS, seen)
}

// serve serves the listener, over TLS if the server has a certificate.
func (s *server) serve(leaving *atomic.Bool) error {
	return framing.Serve(&s.Server, s.listener, leaving)
}

// url returns the URL of the server.
func (s *server) url() string {
	if s.TLSConfig != nil {
		return "https://" + s.addr()
	}
	return "http://" + s.addr()
}
