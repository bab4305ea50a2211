package config

import (
	"crypto/tls"
	"net/netip"
	"net/url"
	"strings"
)

// checkPublic checks the settings of the client port that depend on each other.
func (f *file) checkPublic(ps *Problems) {
	if f.TLS.Cert != "" && f.has("acme") {
		ps.addKey(&f.at, "acme", "and tls both set the certificate; remove one of them")
	}
	if p := f.BasePath; p != "" && (p[0] != '/' || strings.HasSuffix(p, "/") || strings.ContainsAny(p, "?#%{} ")) {
		ps.addKey(&f.at, "base_path", "%q is not a path prefix; write one such as \"/llm\", without a slash at its end", f.node.writtenAt("base_path", p))
	}
}

func (t *tlsFile) resolve(dir string, ps *Problems) TLS {
	if (t.Cert == "") != (t.Key == "") {
		ps.addKey(&t.at, "cert", "and key belong together; write both files or neither")
	}
	if t.Cert == "" {
		if t.ClientCA != "" || t.MinVersion != "" {
			ps.addKey(&t.at, "cert", "is required; write the files of a certificate and its key")
		}
		return TLS{}
	}
	version := uint16(tls.VersionTLS12)
	if t.MinVersion == "1.3" {
		version = tls.VersionTLS13
	}
	return TLS{Cert: relativeTo(dir, t.Cert), Key: relativeTo(dir, t.Key), ClientCA: relativeTo(dir, t.ClientCA), MinVersion: version}
}

func (a *acmeFile) resolve(dir string, ps *Problems) ACME {
	if a.node == nil || a.node.kind == null {
		return ACME{}
	}
	if len(a.Domains) == 0 {
		ps.addKey(&a.at, "domains", "is required; write a list such as [llm.example.com]")
	}
	for _, d := range a.Domains {
		if strings.ContainsAny(d, "/:* ") || !strings.Contains(d, ".") {
			ps.addKey(&a.at, "domains", "has %q, which is no domain; write one such as llm.example.com", d)
		}
	}
	if u, err := url.Parse(a.Directory); a.Directory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		ps.addKey(&a.at, "directory", "is not an https URL; write the directory of the authority, or remove it for Let's Encrypt")
	}
	return ACME{Domains: a.Domains, Email: a.Email, Directory: a.Directory, CA: relativeTo(dir, a.CA), Storage: relativeTo(dir, a.Storage)}
}

func (c *corsFile) resolve(ps *Problems) []string {
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != o) {
			ps.addKey(&c.at, "origins", "has %q, which is no origin; write one such as \"https://app.example.com\", without a path", o)
		}
	}
	return c.Origins
}

// networks parses a list of networks.
func (a *at) networks(key string, texts []string, ps *Problems) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			ps.addKey(a, key, "has %q, which is no network; write one such as 10.0.0.0/8", text)
			continue
		}
		out = append(out, prefix.Masked())
	}
	return out
}
