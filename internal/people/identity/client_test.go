package identity

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// TestCertificateAuthority checks that an issuer with a certificate of its own CA is reached with that CA only.
func TestCertificateAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := file("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for path, want := range map[string]bool{ca: true, "": false} {
		client, err := NewClient(path)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get(server.URL)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("with the CA %q: %v", path, err)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none"), file("empty.pem", []byte("no certificate"))} {
		if _, err := NewClient(path); err == nil {
			t.Errorf("%s is accepted", path)
		}
	}
}
