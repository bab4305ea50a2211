package certs

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"slices"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// NewACME returns the TLS configuration of a port whose certificate comes from an ACME
// authority. The authority checks the domain with a TLS handshake on port 443.
func NewACME(a ACME, seen *Leaves) (*tls.Config, error) {
	m := &autocert.Manager{Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(a.Storage), HostPolicy: autocert.HostWhitelist(a.Domains...), Email: a.Email}
	client := &acme.Client{DirectoryURL: a.Directory}
	if a.Directory == "" {
		client.DirectoryURL = autocert.DefaultACMEDirectory
	}
	if a.CA != "" {
		data, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, fmt.Errorf("acme.ca: %w; write a PEM file of certificates", err)
		}
		pool, err := newPool("acme.ca", a.CA, data)
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
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		got, err := m.GetCertificate(hello)
		if err == nil && !slices.Contains(hello.SupportedProtos, acme.ALPNProto) { // not the authority's check
			seen.note(hello.ServerName, got)
		}
		return got, err
	}
	return c, nil
}
