// Package certs has the certificates of the gateway's ports: of files, which may change while it runs,
// or of an ACME authority.
package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// alpn are the protocols that a TLS port offers.
var alpn = []string{"h2", "http/1.1"}

// contents are what the files contain.
type contents struct{ cert, key, clientCA []byte }

// read reads the files. setting names them in errors.
func (f Files) read(setting string) (c contents, err error) {
	for _, file := range []struct {
		path string
		to   *[]byte
	}{{f.Cert, &c.cert}, {f.Key, &c.key}, {f.ClientCA, &c.clientCA}} {
		if file.path == "" {
			continue
		}
		if *file.to, err = os.ReadFile(file.path); err != nil {
			return c, fmt.Errorf("%s: %w; write the files of a certificate and its key", setting, err)
		}
	}
	return c, nil
}

func (c contents) equal(o contents) bool {
	return bytes.Equal(c.cert, o.cert) && bytes.Equal(c.key, o.key) && bytes.Equal(c.clientCA, o.clientCA)
}

// config returns the TLS configuration with what the files contain.
func (f Files) config(setting string, from contents) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(from.cert, from.key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; write the files of a certificate and its key", setting, err)
	}
	c := &tls.Config{MinVersion: f.minVersion(), Certificates: []tls.Certificate{pair}, NextProtos: alpn}
	if f.ClientCA != "" {
		if c.ClientCAs, err = newPool(setting+".client_ca", f.ClientCA, from.clientCA); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// CheckFiles reports whether the files can be used.
func (f Files) CheckFiles(setting string) error {
	_, err := New(setting, f, NewLeaves(slog.New(slog.DiscardHandler), nil))
	return err
}

// newPool returns the certificates of a PEM file.
func newPool(setting, path string, data []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: %s has no certificate; write a PEM file of certificates", setting, path)
	}
	return pool, nil
}

// certificate serves the certificate of files. It reads them again at most once a second.
type certificate struct {
	setting string
	files   Files
	leaves  *Leaves

	mu      sync.Mutex
	current *tls.Config
	seen    contents
	unread  bool // the last attempt to read the files failed
	looked  time.Time
}

// New returns the TLS configuration of a port with the certificate of files, or nil where there is
// none. setting names them in errors.
func New(setting string, files Files, seen *Leaves) (*tls.Config, error) {
	if files.Cert == "" {
		return nil, nil
	}
	c := &certificate{setting: setting, files: files, leaves: seen, looked: time.Now()}
	var err error
	if c.seen, err = files.read(setting); err != nil {
		return nil, err
	}
	if c.current, err = files.config(setting, c.seen); err != nil {
		return nil, err
	}
	seen.note(setting, &c.current.Certificates[0])
	return &tls.Config{MinVersion: files.minVersion(), NextProtos: alpn, GetConfigForClient: c.configForClient}, nil
}

// configForClient returns the configuration of a handshake. Files that cannot be used leave the
// previous certificate in place.
func (c *certificate) configForClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < time.Second {
		return c.current, nil
	}
	c.looked = time.Now()
	now, err := c.files.read(c.setting)
	if err == nil && now.equal(c.seen) || err != nil && c.unread {
		return c.current, nil
	}
	c.unread = err != nil
	var loaded *tls.Config
	if err == nil {
		c.seen = now
		loaded, err = c.files.config(c.setting, now)
	}
	if err != nil {
		c.leaves.logger.Warn("a changed certificate cannot be used, and the old one is kept", "setting", c.setting, "error", err.Error())
		return c.current, nil
	}
	c.current = loaded
	c.leaves.note(c.setting, &loaded.Certificates[0])
	return c.current, nil
}
