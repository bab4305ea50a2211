package cloud

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

const (
	tenant = "72f988bf-86f1-41af-91ab-2d7cd011db47"
	app    = "11111111-2222-3333-4444-555555555555"
)

func azureAnswer(r issued) any {
	switch {
	case strings.Contains(r.path, "discovery/instance"):
		return map[string]any{"tenant_discovery_endpoint": "https://login.microsoftonline.com/" + tenant + "/v2.0/.well-known/openid-configuration",
			"metadata": []any{map[string]any{"preferred_network": "login.microsoftonline.com", "preferred_cache": "login.windows.net", "aliases": []string{"login.microsoftonline.com"}}}}
	case strings.HasSuffix(r.path, "openid-configuration"):
		return map[string]any{"token_endpoint": "https://" + r.host + "/" + tenant + "/oauth2/v2.0/token", "authorization_endpoint": "https://" + r.host + "/" + tenant + "/oauth2/v2.0/authorize", "issuer": "https://" + r.host + "/" + tenant + "/v2.0"}
	case strings.HasPrefix(r.path, "/metadata/identity"):
		return map[string]any{"access_token": "token-of-azure", "expires_in": "3600", "expires_on": strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10), "resource": "r", "token_type": "Bearer"}
	}
	return map[string]any{"access_token": "token-of-azure", "expires_in": 3600, "token_type": "Bearer"}
}

// certificate returns a PEM file with a certificate and its key.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "client.pem")
	writeFile(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))+string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return path
}

func fixedSecret(text secret.String) *secret.File {
	return secret.NewFile("", text, func(secret.String) bool { return true })
}

// TestAzureSources gets a token from every kind of source.
func TestAzureSources(t *testing.T) {
	cases := map[string]struct {
		by       provider.Azure
		workload bool
		host     string
		has      string // in the form of the last request
	}{
		"client secret":     {by: provider.Azure{Tenant: tenant, Client: app, Secret: fixedSecret("client-secret")}, host: "login.microsoftonline.com", has: "client_secret=client-secret"},
		"certificate":       {by: provider.Azure{Tenant: tenant, Client: app, Certificate: certificate(t)}, host: "login.microsoftonline.com", has: "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"},
		"other cloud":       {by: provider.Azure{Tenant: tenant, Client: app, Secret: fixedSecret("client-secret"), Authority: "https://login.microsoftonline.us/"}, host: "login.microsoftonline.us"},
		"workload identity": {by: provider.Azure{Tenant: tenant, Client: app}, workload: true, host: "login.microsoftonline.com", has: "client_assertion=jwt-of-the-pod"},
		"managed identity":  {host: "169.254.169.254"},
		"user identity":     {by: provider.Azure{Client: app}, host: "169.254.169.254"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT", "MSI_ENDPOINT", "IMDS_ENDPOINT"} {
				t.Setenv(variable, "")
			}
			if c.workload {
				path := filepath.Join(t.TempDir(), "token")
				writeFile(t, path, "jwt-of-the-pod")
				t.Setenv("AZURE_FEDERATED_TOKEN_FILE", path)
			}
			s, client := newTokenServer(t, azureAnswer)
			c.by.Scope = "https://cognitiveservices.azure.com/.default"
			if err := Check(&c.by); err != nil {
				t.Fatal(err)
			}
			made, err := (&azureVendor{&c.by}).fetch(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			req := newRequest()
			if err := made.sign(time.Now(), req, nil); err != nil || req.Header.Get("Authorization") != "Bearer token-of-azure" {
				t.Error(err, req.Header)
			}
			if time.Until(made.expires).Round(time.Minute) != time.Hour {
				t.Errorf("ends in %s", time.Until(made.expires))
			}
			if last := s.last(); last.host != c.host || !strings.Contains(last.body, c.has) {
				t.Errorf("%s %s %s", last.host, last.path, last.body)
			}
			before := len(s.seen)
			if _, err := (&azureVendor{&c.by}).fetch(t.Context(), client); err != nil || len(s.seen) == before {
				t.Errorf("%v: the second fetch gave the token of a cache", err)
			}
		})
	}
}

// TestAzureRefusals reports a refused secret without the secret.
func TestAzureRefusals(t *testing.T) {
	_, client := newTokenServer(t, func(r issued) any {
		if strings.HasSuffix(r.path, "/token") {
			return http.StatusUnauthorized
		}
		return azureAnswer(r)
	})
	_, err := (&azureVendor{&provider.Azure{Tenant: tenant, Client: app, Secret: fixedSecret("client-secret"), Scope: "s/.default"}}).fetch(t.Context(), client)
	if err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "client-secret") {
		t.Error(err)
	}
}

// TestAzureFiles reports a certificate that cannot be used.
func TestAzureFiles(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	writeFile(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	for file, want := range map[string]string{path: "write a PEM or PKCS #12 file", filepath.Join(t.TempDir(), "absent"): "needs a file"} {
		if err := Check(&provider.Azure{Tenant: tenant, Client: app, Certificate: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}
