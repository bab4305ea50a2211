package deploytest

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
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	vendorKey = "sk-of-the-vendor-0123456789"
	clientKey = "key-of-a-client-0123456789"
	vendor    = "api.openai.com"
	greeting  = "Hello from the vendor."

	patience = 2 * time.Minute // for any condition; only a failing test waits so long
)

// startVendor serves OpenAI's API under its own name and returns the environment that
// leads a gateway there: a proxy for HTTPS, and the authority that signed the
// certificate. A gateway needs no other setting, so that a test runs the commands that
// users run. A stream waits for release after its first event.
func startVendor(t *testing.T, release <-chan struct{}) (env []string, authority string) {
	t.Helper()
	certificate, pemFile := newCertificate(t)
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveVendor(w, r, release) }))
	api.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	api.StartTLS()
	t.Cleanup(api.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != vendor+":443" {
			http.Error(w, "this proxy leads to "+vendor, http.StatusForbidden)
			return
		}
		tunnel(t, w, api.Listener.Addr().String())
	}))
	t.Cleanup(proxy.Close)
	return []string{"OPENAI_API_KEY=" + vendorKey, "HTTPS_PROXY=" + proxy.URL, "SSL_CERT_FILE=" + pemFile}, pemFile
}

func serveVendor(w http.ResponseWriter, r *http.Request, release <-chan struct{}) {
	var ask struct {
		Model  string
		Stream bool
	}
	if r.Header.Get("Authorization") != "Bearer "+vendorKey || json.NewDecoder(r.Body).Decode(&ask) != nil {
		http.Error(w, `{"error":{"message":"wrong key or body"}}`, http.StatusUnauthorized)
		return
	}
	reply := testrig.Reply{Dialect: testrig.Chat, Model: ask.Model, Words: []string{greeting}}
	if !ask.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, reply.Body()) // the client may have gone
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i, event := range reply.Stream().All() {
		if i == 1 && release != nil {
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, event) // the client may have gone
		_ = http.NewResponseController(w).Flush()
	}
}

// tunnel connects the client of a CONNECT request with an address.
func tunnel(t *testing.T, w http.ResponseWriter, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	client, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n") // a broken pipe ends the copies
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// newCertificate returns a certificate for the vendor's name, which is its own authority,
// and a file with it.
func newCertificate(t *testing.T) (certificate tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: vendor}, DNSNames: []string{vendor},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // other users read the file
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file = filepath.Join(dir, "authority.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// ask sends the request of the documentation to a gateway until it serves, and checks the
// response. ended reports why the gateway will never serve.
func ask(t *testing.T, url, key string, ended func() error) {
	t.Helper()
	var status int
	var body []byte
	var failure error
	err := testrig.Until(t.Context(), patience, "the gateway does not serve", func() bool {
		if failure = ended(); failure != nil {
			return true
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions",
			strings.NewReader(`{"model":"openai/gpt-x","messages":[{"role":"user","content":"Hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		status = resp.StatusCode
		body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return err == nil
	})
	if err != nil || failure != nil {
		t.Fatal(err, failure)
	}
	if status != http.StatusOK || !bytes.Contains(body, []byte(greeting)) {
		t.Fatalf("the response is %d %s", status, body)
	}
}
