package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The versions of HTTP on one side: HTTP/1.1 without and with TLS, and HTTP/2 over TLS.
const (
	h1  = "h1"
	h1s = "h1s"
	h2  = "h2"
)

// versions are the versions of HTTP of the client and of the upstream.
type versions struct{ client, up string }

// pairs are all pairs that are measured. In the first, nothing is encrypted.
func pairs() []versions {
	return []versions{{h1, h1}, {h1s, h1s}, {h2, h1}, {h1, h2}, {h2, h2}}
}

func (v versions) String() string { return v.client + "/" + v.up }

// parseVersions reads CLIENT/UPSTREAM.
func parseVersions(s string) (versions, error) {
	for _, v := range pairs() {
		if v.String() == s {
			return v, nil
		}
	}
	return versions{}, errors.New("--http: write one of h1/h1, h1s/h1s, h2/h1, h1/h2, h2/h2")
}

// protocols returns the only protocol of a side.
func protocols(version string) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(version != h2)
	p.SetHTTP2(version == h2)
	return p
}

// scheme returns the scheme of URLs.
func scheme(version string) string {
	if version == h1 {
		return "http"
	}
	return "https"
}

// The files of the certificate that all processes of a run share.
const certificateFile, keyFile = "cert.pem", "key.pem"

// writeCertificate writes a certificate for loopback into a folder.
func writeCertificate(dir string) error {
	c, text, err := testrig.SelfSigned()
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, certificateFile), text, 0o600),
		os.WriteFile(filepath.Join(dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
}

// trusting returns a client's TLS settings for a process of the run.
func trusting() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true} //nolint:gosec // our own processes on loopback
}
