package certs

import (
	"crypto/tls"
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Files is a certificate and its private key. The gateway reads the files again when
// they change.
type Files struct {
	// PEM file with the certificate and its intermediates.
	Cert string `key:"cert" is:"file" example:"/etc/isogloss/server.crt"`
	// PEM file with the private key.
	Key string `key:"key" is:"file" example:"/etc/isogloss/server.key"`
	// PEM file with the authorities of client certificates. With it every client
	// needs a certificate. None by default.
	ClientCA string `key:"client_ca" is:"file" example:"/etc/isogloss/clients.crt"`
	// Lowest TLS version. The default is 1.2.
	MinVersion string `key:"min_version" enum:"1.2,1.3" example:"1.3"`
}

// Check checks that the files belong together.
func (f *Files) Check(at *settings.At) {
	at.Together("cert", f.Cert, "key", f.Key)
	if f.Cert+f.Key == "" && (f.ClientCA != "" || f.MinVersion != "") {
		at.Wrong("cert", "is required; write the files of a certificate and its key")
	}
}

// minVersion returns the lowest version of TLS.
func (f *Files) minVersion() uint16 {
	if f.MinVersion == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// ACME is an ACME authority such as Let's Encrypt. The gateway must be reachable on
// port 443 under the domains.
type ACME struct {
	// Domains of the certificate.
	Domains []string `key:"domains" required:"yes" example:"[llm.example.com]"`
	// Contact address for the authority. None by default.
	Email string `key:"email" example:"ops@example.com"`
	// Directory URL of the authority. The default is Let's Encrypt.
	Directory string `key:"directory" example:"https://acme-staging-v02.api.letsencrypt.org/directory"`
	// PEM file with the authorities of the directory's own certificate. The default
	// is the system's.
	CA string `key:"ca" is:"file" example:"/etc/isogloss/acme-ca.crt"`
	// Folder of the certificates. Gateways that serve the same domains need a common
	// one: then all of them serve the same certificate. The default is the folder
	// `acme` in the data folder.
	Storage string `key:"storage" is:"file" example:"/mnt/isogloss-acme"`
}

// Check checks the domains and the URL of the authority.
func (a *ACME) Check(at *settings.At) {
	for _, d := range a.Domains {
		if strings.ContainsAny(d, "/:* ") || !strings.Contains(d, ".") {
			at.Wrong("domains", "has %q, which is no domain; write one such as llm.example.com", d)
		}
	}
	if u, err := url.Parse(a.Directory); a.Directory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		at.Wrong("directory", "is not an https URL; write the directory of the authority, or remove it for Let's Encrypt")
	}
}
