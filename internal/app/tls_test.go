package app

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// minimal is a configuration that serves one model.
const minimal = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nproviders: {p: {protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\"}}\nmodels: {m: {targets: [p/m]}}\n"

// authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string // its own certificate
	dir  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool()}
	a.key = newKey(t)
	a.cert = a.sign(t, "test authority", &a.key.PublicKey, true)
	a.pool.AddCert(a.cert)
	a.file = filepath.Join(a.dir, "ca.pem")
	writePEM(t, a.file, "CERTIFICATE", a.cert.Raw)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign issues a certificate for a name, signed by the authority or, for its own, by
// itself.
func (a *authority) sign(t *testing.T, name string, key *ecdsa.PublicKey, isCA bool) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name}, IsCA: isCA, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue writes the files NAME.pem and NAME.key.
func (a *authority) issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private := newKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	writePEM(t, key, "PRIVATE KEY", der)
	writePEM(t, cert, "CERTIFICATE", a.sign(t, name, &private.PublicKey, false).Raw)
	return cert, key
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// httpsClient returns a client that trusts a pool.
func httpsClient(t *testing.T, pool *x509.CertPool, certs ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// served returns the protocol and the certificate's name of a response.
func served(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	c.CloseIdleConnections() // so that there is a handshake
	resp, err := c.Get(url)
	if err != nil {
		return err.Error()
	}
	_ = resp.Body.Close()
	return resp.Proto + " " + resp.TLS.PeerCertificates[0].Subject.CommonName
}

// TestTLS checks that the client port serves HTTP/2 over TLS, takes a changed certificate
// without a restart, and keeps the old one if the changed files cannot be used.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "first")
	g := start(t, minimal+fmt.Sprintf("tls: {cert: %s, key: %s}\n", cert, key), quick())
	c := httpsClient(t, a.pool)
	if got := served(t, c, g.url+"/live"); got != "HTTP/2.0 first" || !strings.HasPrefix(g.url, "https://") {
		t.Fatalf("%s: %s", g.url, got)
	}
	second, secondKey := a.issue(t, "second")
	for _, f := range [][2]string{{secondKey, key}, {second, cert}} {
		if err := os.Rename(f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	await(t, func() bool { return served(t, c, g.url+"/live") == "HTTP/2.0 second" })
	g.log.waitFor(t, "certificate loaded", 2)
	if err := os.WriteFile(cert, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool {
		served(t, c, g.url+"/live")
		return strings.Contains(g.log.String(), "a changed certificate cannot be used")
	})
	if got := served(t, c, g.url+"/live"); got != "HTTP/2.0 second" {
		t.Fatal(got)
	}
}

// TestLeafChanges checks that a new leaf certificate is a warning with both fingerprints if people sign
// in, because their agents pin the leaf.
func TestLeafChanges(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "first")
	g := start(t, minimal+fmt.Sprintf("tls: {cert: %s, key: %s}\n", cert, key)+fmt.Sprintf("store: sqlite\ndata: %q\n", t.TempDir())+
		strings.Replace(newSigner(t).configuration("{}"), "identity: {", "identity: { sign_in: { url: \"https://gateway.example.com\", client: gateway },", 1), quick())
	c := httpsClient(t, a.pool)
	served(t, c, g.url+"/live")
	second, secondKey := a.issue(t, "second")
	for _, f := range [][2]string{{secondKey, key}, {second, cert}} {
		if err := os.Rename(f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	await(t, func() bool { return served(t, c, g.url+"/live") == "HTTP/2.0 second" })
	var line struct{ Level, SHA256, Before, Hint string }
	if err := json.Unmarshal([]byte(g.log.waitFor(t, "the certificate has changed", 1)), &line); err != nil {
		t.Fatal(err)
	}
	if line.Level != "WARN" || len(line.SHA256) != 32 || len(line.Before) != 32 || line.SHA256 == line.Before || !strings.Contains(line.Hint, "must sign in again") {
		t.Errorf("%+v", line)
	}
}

// TestClientCertificates checks that client_ca rejects clients without a certificate of
// that authority.
func TestClientCertificates(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "server")
	g := start(t, minimal+fmt.Sprintf("tls: {cert: %s, key: %s, client_ca: %s, min_version: 1.3}\n", cert, key, a.file), quick())
	// With TLS 1.3 the client finishes its handshake first and reads the alert afterwards. A
	// client that writes before that may read a reset instead.
	conn, err := tls.Dial("tcp", strings.TrimPrefix(g.url, "https://"), &tls.Config{RootCAs: a.pool})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Error(err)
	}
	pair, err := tls.LoadX509KeyPair(a.issue(t, "client"))
	if err != nil {
		t.Fatal(err)
	}
	if got := served(t, httpsClient(t, a.pool, pair), g.url+"/live"); got != "HTTP/2.0 server" {
		t.Error(got)
	}
}

// freeDatagramAddress returns an address for a DNS server, which uses UDP and TCP. Those of testrig are held by a socket of UDP.
func freeDatagramAddress(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

// TestACME checks that the gateway gets its certificate from a real ACME authority, and that another
// one with the same storage serves the same certificate.
func TestACME(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "pebble")
	ports := addresses(t, 4)
	_, listen, _ := net.SplitHostPort(ports[0])
	settings, err := json.Marshal(map[string]any{"pebble": map[string]any{"listenAddress": ports[1], "managementListenAddress": ports[2],
		"certificate": cert, "privateKey": key, "httpPort": 1, "tlsPort": json.Number(listen)}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(a.dir, "pebble.json")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		t.Fatal(err)
	}
	// The authority resolves every name to loopback, and waits for nothing.
	dns := freeDatagramAddress(t)
	run(t, "pebble-challtestsrv", "-defaultIPv6", "", "-defaultIPv4", "127.0.0.1", "-dns01", dns, "-management", ports[3], "-http01", "", "-https01", "", "-tlsalpn01", "")
	run(t, "pebble", "-config", file, "-dnsserver", dns)

	authority := httpsClient(t, a.pool)
	await(t, func() bool {
		resp, err := authority.Get("https://" + ports[1] + "/dir")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	})
	storage := t.TempDir()
	node := func() string {
		return minimal + fmt.Sprintf("data: %s\nacme: {domains: [llm.example.com], directory: \"https://%s/dir\", ca: %s, storage: %s}\n", t.TempDir(), ports[1], a.file, storage)
	}
	g := start(t, strings.Replace(node(), "127.0.0.1:0", ports[0], 1), quick())

	roots := x509.NewCertPool()
	resp, err := authority.Get("https://" + ports[2] + "/roots/0")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	root := make([]byte, 1<<16)
	n, _ := resp.Body.Read(root)
	if !roots.AppendCertsFromPEM(root[:n]) {
		t.Fatal("the authority has no root")
	}
	c := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "llm.example.com"}}}
	defer c.CloseIdleConnections()
	var last error
	var leaf []byte
	await(t, func() bool {
		resp, err := c.Get(g.url + "/live")
		if last = err; err != nil {
			return false
		}
		_ = resp.Body.Close()
		leaf = resp.TLS.PeerCertificates[0].Raw
		return resp.StatusCode == http.StatusOK && strings.Contains(resp.TLS.PeerCertificates[0].Issuer.CommonName, "Pebble")
	})
	if last != nil {
		t.Error(last)
	}
	// The authority cannot reach the other node, which has to find the certificate.
	resp, err = c.Get(start(t, node(), quick()).url + "/live")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if !bytes.Equal(resp.TLS.PeerCertificates[0].Raw, leaf) {
		t.Error("the other node serves another certificate")
	}
	g.log.waitFor(t, "certificate loaded", 1)
}

// addresses returns free loopback addresses.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	found, err := testrig.Addresses(n)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// await waits until a condition holds.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	testrig.Eventually(t, "the condition holds", ok)
}

// run starts a program until the test ends.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; run make stores, which installs it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}
