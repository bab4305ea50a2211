package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// signedIn returns the environment of a person who is signed in at a gateway with a token, and the file of the keys of
// the token's issuer.
func signedIn(t *testing.T, issuer string) (keys string, env func(gateway string) []string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k", Use: "sig", Algorithm: "EdDSA"}}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ends := time.Now().Add(time.Hour)
	signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":%q,"aud":"isogloss","sub":"ann","exp":%d}`, issuer, ends.Unix()))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	return writeFile(t, "jwks.json", string(set)), func(gateway string) []string {
		if err := os.MkdirAll(filepath.Join(home, "isogloss"), 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{%q: {"token": {"access_token": %q, "expiry": %q}, "server": {}}}`, gateway, token, ends.Format(time.RFC3339))
		if err := os.WriteFile(filepath.Join(home, "isogloss", "logins.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"XDG_CONFIG_HOME=" + home}
	}
}

// TestKeysMine creates, lists, rotates and revokes a person's own keys with the command.
func TestKeysMine(t *testing.T) {
	const issuer = "https://idp.example.com/realms/main"
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	keys, env := signedIn(t, issuer)
	file := writeFile(t, "isogloss.yaml", fmt.Sprintf(withMetrics, up.BaseURL())+fmt.Sprintf("store: sqlite\nidentity: { issuers: [{ issuer: %q, audiences: [isogloss], jwks: %q, rules: [{ own_keys: { max: 1, expires: 48h, models: [fast] } }] }] }\n", issuer, keys))
	g := serve(t, []string{"ISOGLOSS_DATA=" + t.TempDir()}, "-c", file)
	me := env(g.url)
	mine := func(code int, args ...string) string {
		t.Helper()
		r := command(t, t.TempDir(), me, append([]string{"keys", "mine"}, args...)...)
		if r.code != code {
			t.Fatalf("%v: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
		return r.stdout + r.stderr
	}
	sends := func(key string) int {
		status, _ := send(t, g.url+"/v1/messages", plainRequest, "Authorization", "Bearer "+key)
		return status
	}
	if text := mine(0); !strings.Contains(text, "You have no keys") {
		t.Error(text)
	}
	var made, next ownKeyMade
	if err := json.Unmarshal([]byte(mine(0, "create", "ci", "--expires", "1d", "--json")), &made); err != nil || sends(made.Text) != 200 || time.Until(*made.Key.Expires) > 24*time.Hour {
		t.Errorf("%v, %+v", err, made.Key)
	}
	for want, args := range map[string][]string{
		"as many keys as you may": {"create", "second"}, "may not have the model": {"create", "second", "--models", "*"}, "expires after": {"create", "second", "--expires", "90d"},
		`no active key "other"`: {"revoke", "other"}, "not signed in at": {"--at", "https://other.example.com"},
	} {
		if text := mine(1, args...); !strings.Contains(text, want) {
			t.Errorf("%v: %s", args, text)
		}
	}
	if err := json.Unmarshal([]byte(mine(0, "rotate", "ci", "--keep", "1h", "--json")), &next); err != nil || next.Text == made.Text || sends(next.Text) != 200 || sends(made.Text) != 200 {
		t.Errorf("%v, %+v", err, next.Key)
	}
	if text := mine(0); !strings.Contains(text, made.Key.ID) || !strings.Contains(text, "active") {
		t.Error(text)
	}
	mine(0, "revoke", "ci")
	testrig.Eventually(t, "the key has ended", func() bool { return sends(next.Text) == 401 })
	if text := mine(0); !strings.Contains(text, "revoked") {
		t.Error(text)
	}
	if text := mine(0, "create", "ci"); !strings.HasPrefix(text, "gw_live_") || !strings.Contains(text, "not shown again") {
		t.Error(text)
	}
}
