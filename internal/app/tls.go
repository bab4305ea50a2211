package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/framing"
)

// alpn are the protocols that a TLS port offers.
var alpn = []string{"h2", "http/1.1"}

// loadTLS reads the files of a certificate. It returns nil where there is none. setting
// names them in errors.
func loadTLS(setting string, t config.TLS) (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; write the files of a certificate and its key", setting, err)
	}
	c := &tls.Config{MinVersion: t.MinVersion, Certificates: []tls.Certificate{pair}, NextProtos: alpn}
	if t.ClientCA != "" {
		if c.ClientCAs, err = readAuthorities(setting+".client_ca", t.ClientCA); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// readAuthorities reads a PEM file of certificates.
func readAuthorities(setting, path string) (*x509.CertPool, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("%s: %w; write a PEM file of certificates", setting, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: %s has no certificate; write a PEM file of certificates", setting, path)
	}
	return pool, nil
}

// certificate serves the certificate of files. It reads them again when they change, at
// most once a second.
type certificate struct {
	setting string
	files   config.TLS
	logger  *slog.Logger

	mu      sync.Mutex
	current *tls.Config
	seen    []stamp
	looked  time.Time
}

// newTLS returns the TLS configuration of a port with the certificate of files, or nil
// where there is none.
func newTLS(setting string, files config.TLS, logger *slog.Logger) (*tls.Config, error) {
	c := &certificate{setting: setting, files: files, logger: logger, looked: time.Now()}
	c.seen = c.stamps() // before they are read, so that no change falls in between
	var err error
	if c.current, err = loadTLS(setting, files); c.current == nil || err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: files.MinVersion, NextProtos: alpn, GetConfigForClient: c.configForClient}, nil
}

func (c *certificate) stamps() []stamp {
	return []stamp{stampOf(c.files.Cert), stampOf(c.files.Key), stampOf(c.files.ClientCA)}
}

// configForClient returns the configuration of a handshake. Files that cannot be used
// leave the previous certificate in place.
func (c *certificate) configForClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < time.Second {
		return c.current, nil
	}
	c.looked = time.Now()
	now := c.stamps()
	if slices.EqualFunc(now, c.seen, stamp.same) {
		return c.current, nil
	}
	c.seen = now
	loaded, err := loadTLS(c.setting, c.files)
	if err != nil {
		c.logger.Warn("a changed certificate cannot be used, and the old one is kept", "setting", c.setting, "error", err.Error())
		return c.current, nil
	}
	c.current = loaded
	c.logger.Info("certificate loaded", "setting", c.setting)
	return c.current, nil
}

// newACME returns the TLS configuration of a port whose certificate comes from an ACME
// authority. The authority checks the domain with a TLS handshake on port 443.
func newACME(a config.ACME, data string) (*tls.Config, error) {
	m := &autocert.Manager{Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(filepath.Join(data, "acme")), HostPolicy: autocert.HostWhitelist(a.Domains...), Email: a.Email}
	client := &acme.Client{DirectoryURL: a.Directory}
	if a.Directory == "" {
		client.DirectoryURL = autocert.DefaultACMEDirectory
	}
	if a.CA != "" {
		pool, err := readAuthorities("acme.ca", a.CA)
		if err != nil {
			return nil, err
		}
		transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
		client.HTTPClient = &http.Client{Transport: transport}
	}
	m.Client = client
	c := m.TLSConfig()
	c.MinVersion = tls.VersionTLS12
	return c, nil
}

// publicTLS returns the TLS configuration of the client port, or nil for plain HTTP.
func publicTLS(cfg *config.Config, logger *slog.Logger) (*tls.Config, error) {
	if len(cfg.ACME.Domains) > 0 {
		return newACME(cfg.ACME, cfg.Data)
	}
	return newTLS("tls", cfg.TLS, logger)
}

// serve serves the listener, over TLS if the server has a certificate.
func (s *server) serve() error { return framing.Serve(&s.Server, s.listener) }

// url returns the URL of the server.
func (s *server) url() string {
	if s.TLSConfig != nil {
		return "https://" + s.addr()
	}
	return "http://" + s.addr()
}
