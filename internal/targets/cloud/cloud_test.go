package cloud

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// TestPool shares a credential between providers with the same settings, keeps it across
// reloads, and closes those that are not used any more.
func TestPool(t *testing.T) {
	newAmazon(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	p := NewPool(slog.New(slog.DiscardHandler))
	defer p.Close()
	load := func(regions ...string) []*provider.Provider {
		list := []*provider.Provider{{Name: "key", Key: "k"}}
		for _, r := range regions {
			list = append(list, &provider.Provider{Name: "in-" + r, Cloud: &provider.AWS{Region: r, Service: "bedrock"}})
		}
		p.Use(list)
		return list
	}
	first := load("a", "a", "b")
	if first[0].Credential != nil || first[1].Credential == nil || first[1].Credential != first[2].Credential || first[1].Credential == first[3].Credential {
		t.Fatal("the credentials are not those of the settings")
	}
	second := load("b", "c")
	if second[1].Credential != first[3].Credential {
		t.Error("the reload made a new credential")
	}
	if closed := first[1].Credential.(*Credential); closed.ctx.Err() == nil {
		t.Error("a credential that no provider has is not closed")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://h/v1/models", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if err := second[2].Sign(t.Context(), req); err != nil || req.Header.Get("Authorization") == "" {
		t.Error(err, req.Header)
	}
}

// TestAddresses allows the link-local addresses of metadata services and no others.
func TestAddresses(t *testing.T) {
	for address, want := range map[string]bool{
		"169.254.169.254:80": true, "169.254.170.2:80": true, "169.254.170.23:80": true, "[fd00:ec2::254]:80": true, "[fd00:ec2::23]:80": true, "127.0.0.1:80": true, "[::ffff:169.254.169.254]:80": true, "52.94.0.1:443": true,
		"169.254.1.1:80": false, "169.254.169.253:53": false, "[fe80::1%eth0]:80": false, "[::ffff:169.254.1.1]:80": false, "0.0.0.0:80": false, "224.0.0.1:80": false, "nothing": false,
	} {
		if err := checkAddress(address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	client := newClient()
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://169.254.1.1/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("another link-local address was reached")
	}
}

// TestProxy asks metadata services without a proxy.
func TestProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://proxy.example.com:3128")
	for _, address := range []string{"http://169.254.169.254/latest", "http://metadata.google.internal/x", "http://127.0.0.1:1/", "http://[fd00:ec2::254]/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := proxy(req); p != nil || err != nil {
			t.Errorf("%s: %v, %v", address, p, err)
		}
	}
}

// TestPolicies checks that the policies of the documentation are JSON.
func TestPolicies(t *testing.T) {
	files, err := filepath.Glob("../../../docs/clouds/*.json")
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		if text, err := os.ReadFile(path); err != nil || !json.Valid(text) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
