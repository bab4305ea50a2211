package cloud

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// divert sends every request to a scripted server, with its own host as X-Host.
type divert struct {
	to   *url.URL
	base *http.Transport
}

func (d *divert) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Host", req.URL.Host)
	req.URL.Scheme, req.URL.Host, req.Host = d.to.Scheme, d.to.Host, ""
	return d.base.RoundTrip(req)
}

// issued is a request to a scripted token server.
type issued struct {
	method, host, path, query string
	header                    http.Header
	form                      url.Values
	body                      string
}

// tokenServer answers requests for tokens as a function says, and keeps them.
type tokenServer struct {
	*httptest.Server
	mu   sync.Mutex
	seen []issued
}

func newTokenServer(t *testing.T, answer func(r issued) any) (*tokenServer, *http.Client) {
	t.Helper()
	s := &tokenServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		one := issued{r.Method, r.Header.Get("X-Host"), r.URL.Path, r.URL.RawQuery, r.Header, form, string(body)}
		s.mu.Lock()
		s.seen = append(s.seen, one)
		s.mu.Unlock()
		w.Header().Set("Metadata-Flavor", "Google")
		w.Header().Set("Content-Type", "application/json")
		switch out := answer(one).(type) {
		case int:
			w.WriteHeader(out)
			_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"refused"}`))
		default:
			_ = json.NewEncoder(w).Encode(out)
		}
	}))
	t.Cleanup(s.Close)
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return s, newClientOf(&divert{to, base})
}

func (s *tokenServer) last() issued {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[len(s.seen)-1]
}

func googleAnswer(r issued) any {
	if strings.HasSuffix(r.path, ":generateAccessToken") {
		return map[string]any{"accessToken": "token-of-the-account", "expireTime": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
	}
	return map[string]any{"access_token": "token-of-google", "expires_in": 3600, "token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
}

func serviceAccount(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@p.iam.gserviceaccount.com", "private_key_id": "k",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": "https://oauth2.googleapis.com/token"})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGoogleSources gets a token from every kind of source.
func TestGoogleSources(t *testing.T) {
	dir := t.TempDir()
	subject := filepath.Join(dir, "subject")
	writeFile(t, subject, "jwt-of-the-pod")
	federation := `{"type":"external_account","audience":"//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"file":"` + subject + `"}}`
	cases := map[string]struct {
		file  string // "": application default credentials, which are not there
		env   bool   // the file is that of GOOGLE_APPLICATION_CREDENTIALS
		by    provider.Google
		host  string // of the last request
		token string
		has   string // in the body of the last request
	}{
		"service account": {file: serviceAccount(t), host: "oauth2.googleapis.com", token: "token-of-google", has: "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"},
		"default file":    {file: serviceAccount(t), env: true, host: "oauth2.googleapis.com", token: "token-of-google"},
		"user":            {file: `{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}`, host: "oauth2.googleapis.com", token: "token-of-google", has: "refresh_token=r"},
		"federation":      {file: federation, host: "sts.googleapis.com", token: "token-of-google", has: "subject_token=jwt-of-the-pod"},
		"metadata":        {host: "169.254.169.254", token: "token-of-google"},
		"impersonation": {by: provider.Google{Impersonate: "m@p.iam.gserviceaccount.com", Delegates: []string{"d@p.iam.gserviceaccount.com"}}, host: "iamcredentials.googleapis.com",
			token: "token-of-the-account", has: `"delegates":["projects/-/serviceAccounts/d@p.iam.gserviceaccount.com"]`},
		"impersonation by federation": {file: federation, by: provider.Google{Impersonate: "m@p.iam.gserviceaccount.com"}, host: "iamcredentials.googleapis.com", token: "token-of-the-account"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
			s, client := newTokenServer(t, googleAnswer)
			c.by.Scopes, c.by.QuotaProject = []string{"https://www.googleapis.com/auth/cloud-platform"}, "pays"
			if c.file != "" {
				path := filepath.Join(t.TempDir(), "credentials.json")
				writeFile(t, path, c.file)
				if c.env {
					t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
				} else {
					c.by.File = path
				}
			}
			if err := Check(&c.by); err != nil {
				t.Fatal(err)
			}
			made, err := (&googleVendor{&c.by}).fetch(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			req := newRequest()
			if err := made.sign(time.Now(), req, nil); err != nil {
				t.Fatal(err)
			}
			if got := req.Header.Get("Authorization"); got != "Bearer "+c.token || req.Header.Get("X-Goog-User-Project") != "pays" {
				t.Error(req.Header)
			}
			if time.Until(made.expires).Round(time.Minute) != time.Hour {
				t.Errorf("ends in %s", time.Until(made.expires))
			}
			if last := s.last(); last.host != c.host || !strings.Contains(last.body, c.has) {
				t.Errorf("%s %s %s", last.host, last.path, last.body)
			}
		})
	}
}

// TestGoogleFiles refuses files that start a program or are no credential.
func TestGoogleFiles(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1")
	ran := filepath.Join(t.TempDir(), "ran")
	program := `{"type":"external_account","audience":"a","subject_token_type":"t","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"executable":{"command":"touch ` + ran + `"}}}`
	for text, want := range map[string]string{
		program: "has credential_source.executable, which the gateway does not run; use a file",
		`{"type":"impersonated_service_account","source_credentials":` + program + `}`: "has credential_source.executable",
		`{"type":"client"}`: `has the type "client"; write the path of`,
		`{"installed":{}}`:  `has the type ""; write the path of`,
		`nothing`:           "is not JSON; write the path of",
	} {
		path := filepath.Join(t.TempDir(), "credentials.json")
		writeFile(t, path, text)
		_, client := newTokenServer(t, googleAnswer)
		g := &provider.Google{File: path}
		_, err := (&googleVendor{g}).fetch(t.Context(), client)
		for _, err := range []error{err, Check(g)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program was started")
	}
	if err := Check(&provider.Google{File: filepath.Join(t.TempDir(), "absent")}); err == nil || !strings.Contains(err.Error(), "needs a file") {
		t.Error(err)
	}
}

// TestGoogleRefusals reports a refusing issuer without the token that it got.
func TestGoogleRefusals(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	_, client := newTokenServer(t, func(r issued) any {
		if strings.HasSuffix(r.path, ":generateAccessToken") {
			return http.StatusForbidden
		}
		return googleAnswer(r)
	})
	_, err := (&googleVendor{&provider.Google{Impersonate: "m@p.iam.gserviceaccount.com"}}).fetch(t.Context(), client)
	if err == nil || !strings.Contains(err.Error(), "impersonating m@p.iam.gserviceaccount.com: status 403") || strings.Contains(err.Error(), "token-of-google") {
		t.Error(err)
	}
}
