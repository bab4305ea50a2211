package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// sendAdmin sends a request to the admin port as a page of the given site does.
func (g *gateway) sendAdmin(t *testing.T, b *http.Client, method, path, site string, key secret.String) (int, string) {
	t.Helper()
	headers := []string{"Sec-Fetch-Site", site}
	if key != "" {
		headers = append(headers, "Authorization", "Bearer "+key.Reveal())
	}
	return visit(t, b, method, "http://"+g.adminAddress(t)+path, "", headers...)
}

// beginSession trades an operator's key for a session in a new browser.
func (g *gateway) beginSession(t *testing.T, key secret.String) *http.Client {
	t.Helper()
	b := newPerson(t)
	status, text := g.sendAdmin(t, b, "POST", "/api/v1/session", "same-origin", key)
	var made struct{ Expires time.Time }
	if status != 201 || json.Unmarshal([]byte(text), &made) != nil || time.Until(made.Expires).Round(time.Hour) != 12*time.Hour {
		t.Fatal(status, text)
	}
	return b
}

// TestKeySession trades operators' keys for sessions in SQLite and PostgreSQL: pages of other origins can neither begin
// nor use one, the store does not have the key, and a session ends with the sign-out, and within two seconds of the
// revocation or rotation of the key.
func TestKeySession(t *testing.T) {
	for name, store := range map[string]string{"sqlite": "sqlite", "postgres": ""} {
		t.Run(name, func(t *testing.T) {
			if store == "" {
				store = fmt.Sprintf("{ url: %q, peppers: [%q] }", storetest.Postgres(t).URL, strings.Repeat("0", 64))
			}
			configuration := stored(upstreamtest.New(t), t.TempDir(), store, "")
			keys := keyringOf(t, configuration)
			owner, client := keys.operator(t, access.Owner), keys.must(t, quota.Limit{})
			g := start(t, configuration, quick())

			for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "none": 403, "": 403} {
				if status, text := g.sendAdmin(t, newPerson(t), "POST", "/api/v1/session", site, owner.Text); status != want {
					t.Errorf("a page of %q begins a session: %d %s", site, status, text)
				}
			}
			if status, text := g.sendAdmin(t, newPerson(t), "POST", "/api/v1/session", "same-origin", client.Text); status != 403 || !strings.Contains(text, "client_key") {
				t.Errorf("a client's key: %d %s", status, text)
			}
			browser := g.beginSession(t, owner.Text)
			at, err := url.Parse("http://" + g.adminAddress(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range browser.Jar.Cookies(at) {
				if strings.Contains(owner.Text.Reveal(), c.Value) || strings.Contains(c.Value, owner.ID) {
					t.Errorf("the cookie %s has a part of the key", c.Name)
				}
			}
			for site, want := range map[string]int{"same-origin": 200, "none": 200, "cross-site": 403, "same-site": 403, "": 403} {
				if status, text := g.sendAdmin(t, browser, "GET", "/api/v1/whoami", site, ""); status != want {
					t.Errorf("whoami from %q: %d %s, want %d", site, status, text, want)
				}
			}
			if status, _ := g.sendAdmin(t, browser, "POST", "/api/v1/session", "same-origin", ""); status != 401 {
				t.Errorf("a session begins another one: %d", status)
			}

			copied := newPerson(t)
			copied.Jar.SetCookies(at, browser.Jar.Cookies(at))
			if status, text := g.sendAdmin(t, browser, "POST", "/logout", "same-origin", ""); status != 200 || !strings.Contains(text, "has ended") {
				t.Errorf("sign-out: %d %s", status, text)
			}
			if status, text := g.sendAdmin(t, copied, "GET", "/api/v1/whoami", "same-origin", ""); status != 401 || !strings.Contains(text, "session_ended") {
				t.Errorf("a copy after the sign-out: %d %s", status, text)
			}

			rotated, revoked := keys.operator(t, access.Auditor), keys.operator(t, access.Billing)
			ofRotated, ofRevoked := g.beginSession(t, rotated.Text), g.beginSession(t, revoked.Text)
			if _, err := keys.RotateKey(t.Context(), rotated.ID, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := keys.RevokeKey(t.Context(), revoked.ID); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for code, b := range map[string]*http.Client{"expired_api_key": ofRotated, "revoked_api_key": ofRevoked} {
				testrig.Eventually(t, "the session ends: "+code, func() bool {
					status, text := g.sendAdmin(t, b, "GET", "/api/v1/whoami", "same-origin", "")
					return status == 401 && strings.Contains(text, code)
				})
			}
			t.Logf("both have ended after %v", time.Since(began))
		})
	}
}
