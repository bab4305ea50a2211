package cloud

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// tokenSource is a kind of credential. Each call of its function returns another credential with
// random settings, and the same settings for the second implementation.
type tokenSource struct {
	name string
	make func(t *testing.T, r *rand.Rand) (vendor, map[string]any)
}

// tokenRequests fetches n tokens from all kinds of sources in turn, and writes the settings and
// the request that arrived at the issuer.
func tokenRequests(t *testing.T, n int, out *json.Encoder) {
	t.Helper()
	for _, variable := range []string{"GOOGLE_APPLICATION_CREDENTIALS", "AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT", "MSI_ENDPOINT", "IMDS_ENDPOINT"} {
		t.Setenv(variable, "")
	}
	t.Setenv("HOME", t.TempDir())
	var at string // the tenant
	s, client := newTokenServer(t, func(r issued) any {
		if !strings.Contains(r.host, "microsoftonline") && r.path != "/metadata/identity/oauth2/token" {
			return googleAnswer(r)
		}
		text, err := json.Marshal(azureAnswer(r))
		if err != nil {
			t.Error(err)
		}
		return json.RawMessage(strings.ReplaceAll(string(text), tenant, at))
	})
	sources := append(googleSources(t), azureSources(t)...)
	r := rand.New(rand.NewPCG(3, 4)) // the same settings each time
	for i := range n {
		source := sources[i%len(sources)]
		t.Setenv("AZURE_FEDERATED_TOKEN_FILE", "")
		v, settings := source.make(t, r)
		at, _ = settings["tenant"].(string)
		if _, err := v.fetch(t.Context(), client); err != nil {
			t.Fatalf("%s: %v", source.name, err)
		}
		got := s.last()
		arrived := map[string]any{"method": got.method, "host": got.host, "path": got.path, "query": got.query, "headers": got.header, "body": got.body}
		if err := out.Encode(map[string]any{"kind": "token", "source": source.name, "settings": settings, "arrived": arrived}); err != nil {
			t.Fatal(err)
		}
	}
}

// oddSecret returns a text with odd characters that does not start or end in white space.
func oddSecret(r *rand.Rand) string { return "s" + odd(r) + "." }

func guid(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48))
}

// email returns the name of a service account.
func email(r *rand.Rand) string {
	return fmt.Sprintf("gateway-%d@project-%d.iam.gserviceaccount.com", r.IntN(1000), r.IntN(1000))
}

func googleScopes(r *rand.Rand) []string {
	all := []string{"https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/generative-language", "https://www.googleapis.com/auth/userinfo.email"}
	return all[:1+r.IntN(len(all))]
}

func googleSources(t *testing.T) []tokenSource {
	t.Helper()
	file, subject := filepath.Join(t.TempDir(), "credentials.json"), filepath.Join(t.TempDir(), "subject")
	var account map[string]string
	if err := json.Unmarshal([]byte(serviceAccount(t)), &account); err != nil {
		t.Fatal(err)
	}
	public := publicKey(t, account["private_key"])
	// use returns the credential of a file with these members.
	use := func(t *testing.T, by provider.Google, members any, settings map[string]any) (vendor, map[string]any) {
		t.Helper()
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, string(text))
		by.File, settings["file"], settings["scopes"] = file, json.RawMessage(text), by.Scopes
		return &googleVendor{&by}, settings
	}
	key := func(r *rand.Rand) map[string]string {
		account["client_email"], account["private_key_id"] = email(r), guid(r)
		return account
	}
	return []tokenSource{
		{"google service account", func(t *testing.T, r *rand.Rand) (vendor, map[string]any) {
			return use(t, provider.Google{Scopes: googleScopes(r)}, key(r), map[string]any{"public": public})
		}},
		{"google user", func(t *testing.T, r *rand.Rand) (vendor, map[string]any) {
			return use(t, provider.Google{Scopes: googleScopes(r)[:1]}, map[string]string{
				"type": "authorized_user", "client_id": guid(r) + ".apps.googleusercontent.com", "client_secret": oddSecret(r), "refresh_token": "1//" + oddSecret(r),
			}, map[string]any{})
		}},
		{"google federation", func(t *testing.T, r *rand.Rand) (vendor, map[string]any) {
			writeFile(t, subject, oddSecret(r))
			return use(t, provider.Google{Scopes: googleScopes(r)}, map[string]any{
				"type": "external_account", "audience": fmt.Sprintf("//iam.googleapis.com/projects/%d/locations/global/workloadIdentityPools/p/providers/q", r.IntN(1e9)),
				"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": "https://sts.googleapis.com/v1/token", "credential_source": map[string]string{"file": subject},
			}, map[string]any{"subject": readFile(t, subject)})
		}},
		{"google impersonation", func(t *testing.T, r *rand.Rand) (vendor, map[string]any) {
			by := provider.Google{Scopes: googleScopes(r), Impersonate: email(r)}
			for range r.IntN(3) {
				by.Delegates = append(by.Delegates, email(r))
			}
			return use(t, by, key(r), map[string]any{"impersonate": by.Impersonate, "delegates": by.Delegates})
		}},
		{"google metadata", func(_ *testing.T, r *rand.Rand) (vendor, map[string]any) {
			scopes := googleScopes(r)
			return &googleVendor{&provider.Google{Scopes: scopes}}, map[string]any{"scopes": scopes}
		}},
	}
}

func azureSources(t *testing.T) []tokenSource {
	t.Helper()
	cert, federated := certificate(t), filepath.Join(t.TempDir(), "token")
	settings := func(by provider.Azure, more ...string) (vendor, map[string]any) {
		all := map[string]any{"tenant": by.Tenant, "client": by.Client, "scope": by.Scope}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return &azureVendor{&by}, all
	}
	identity := func(r *rand.Rand) provider.Azure {
		scopes := []string{"https://cognitiveservices.azure.com/.default", "https://ai.azure.com/.default", "api://" + guid(r) + "/.default"}
		return provider.Azure{Tenant: guid(r), Client: guid(r), Scope: scopes[r.IntN(len(scopes))]}
	}
	return []tokenSource{
		{"azure client secret", func(_ *testing.T, r *rand.Rand) (vendor, map[string]any) {
			by, text := identity(r), oddSecret(r)
			by.Secret = fixedSecret(secret.String(text))
			return settings(by, "secret", text)
		}},
		{"azure certificate", func(t *testing.T, r *rand.Rand) (vendor, map[string]any) {
			by := identity(r)
			by.Certificate = cert
			return settings(by, "certificate", readFile(t, cert))
		}},
		{"azure workload identity", func(t *testing.T, r *rand.Rand) (vendor, map[string]any) {
			writeFile(t, federated, oddSecret(r))
			t.Setenv("AZURE_FEDERATED_TOKEN_FILE", federated)
			return settings(identity(r), "token", readFile(t, federated))
		}},
		{"azure managed identity", func(_ *testing.T, r *rand.Rand) (vendor, map[string]any) {
			return settings(provider.Azure{Scope: identity(r).Scope})
		}},
		{"azure user-assigned identity", func(_ *testing.T, r *rand.Rand) (vendor, map[string]any) {
			by := identity(r)
			by.Tenant = ""
			return settings(by)
		}},
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// publicKey returns the public key of a private one, as PEM.
func publicKey(t *testing.T, private string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(private))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.(*rsa.PrivateKey).Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
}
