package provider

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// TestFileKey signs with the file's present text and reports whether a refused request had
// another one. Authorize leaves the header to it.
func TestFileKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("key-one")
	for _, auth := range []Auth{Bearer, XAPIKey} {
		write("key-one")
		file := secret.NewFile(path, "key-one", func(secret.String) bool { return true })
		p := &Provider{Auth: auth, Key: "key-one", Credential: NewFileKey(auth, file)}
		req := &http.Request{Header: http.Header{}}
		if p.Authorize(req.Header); len(req.Header) > 0 {
			t.Error(req.Header)
		}
		if err := p.Sign(t.Context(), req); err != nil || !strings.HasSuffix(req.Header.Get(auth.Header()), "key-one") {
			t.Error(err, req.Header)
		}
		if p.Credential.Renew(t.Context(), req, nil) {
			t.Error("the same key would be refused again")
		}
		write("key-two")
		if !p.Credential.Renew(t.Context(), req, nil) {
			t.Error("the new key is not tried")
		}
		if err := p.Sign(t.Context(), req); err != nil || !strings.HasSuffix(req.Header.Get(auth.Header()), "key-two") || len(req.Header) != 1 {
			t.Error(err, req.Header)
		}
		if got := string(p.Redactor().Redact([]byte("key-one key-two"))); got != "*** ***" {
			t.Error(got)
		}
		if got := fmt.Sprint(p.Secrets()); !strings.Contains(got, "key-two") {
			t.Error(got)
		}
	}
}

// TestFingerprint tells credentials apart by every setting and shows no secret.
func TestFingerprint(t *testing.T) {
	text := func(s secret.String) *secret.File {
		return secret.NewFile("", s, func(secret.String) bool { return true })
	}
	seen := map[string]bool{}
	for _, c := range []Cloud{
		&AWS{Region: "a"}, &AWS{Region: "b"}, &AWS{Region: "a", Roles: []Role{{ARN: "r"}}}, &AWS{Region: "a", Roles: []Role{{ARN: "r", ExternalID: "x"}}},
		&Google{}, &Google{File: "f"}, &Google{Impersonate: "f"},
		&Azure{}, &Azure{Client: "c"}, &Azure{Secret: text("CANARY-1")}, &Azure{Secret: text("CANARY-2")}, &Azure{Certificate: "f", Password: "CANARY-1"}, &Azure{Certificate: "f", Password: "CANARY-2"},
	} {
		f := c.Fingerprint()
		if seen[f] || strings.Contains(f, "CANARY") || c.Fingerprint() != f {
			t.Errorf("%T: %s", c, f)
		}
		seen[f] = true
	}
}
