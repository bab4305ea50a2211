package deploytest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// person has an account at an identity provider, and the isogloss command on a machine of their own.
type person struct {
	t     *testing.T
	token string
	keys  string // JWKS of the identity provider
}

const issuer = "https://idp.example.com/realms/main"

func newPerson(t *testing.T) *person {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(`{"alg":"EdDSA","kid":"k"}`)) + "." + part(fmt.Appendf(nil, `{"iss":%q,"aud":"isogloss","sub":"ann","exp":%d}`, issuer, time.Now().Add(time.Hour).Unix()))
	return &person{t: t, token: signed + "." + part(ed25519.Sign(private, []byte(signed))),
		keys: fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","use":"sig","alg":"EdDSA","x":%q}]}`, part(public))}
}

// identity returns the section of the configuration that admits the person, with the file of the issuer's keys.
func (p *person) identity(keys string) string {
	return fmt.Sprintf("identity: { issuers: [{ issuer: %q, audiences: [isogloss], jwks: %q, rules: [{ own_keys: { max: 2, expires: 48h, models: [openai/gpt-x] } }] }] }\n", issuer, keys)
}

// call sends a request and returns the status, the headers and the body.
func (p *person) call(method, address, body string, headers ...string) (int, http.Header, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // without redirects
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// ownKey is a key with its text, as the gateway returns it.
type ownKey struct {
	Key  struct{ ID, Name, State string }
	Text string
}

// ownKeys lets the person create, name, rotate and revoke keys with the command and over HTTP, look at what they used, and
// open the page. Then an operator revokes the person.
func (p *person) ownKeys(gateway string, ended func() error, isogloss func(args ...string) string) {
	t := p.t
	t.Helper()
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "isogloss"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "isogloss/logins.json"), fmt.Sprintf(`{%q: {"token": {"access_token": %q, "expiry": %q}, "server": {}}}`, gateway, p.token, time.Now().Add(time.Hour).Format(time.RFC3339)))
	if err := os.Chmod(filepath.Join(home, "isogloss/logins.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	mine := func(args ...string) string {
		cmd := exec.Command(binary(t), append([]string{"keys", "mine"}, args...)...)
		cmd.Dir, cmd.Env = home, []string{"XDG_CONFIG_HOME=" + home}
		return run(t, cmd)
	}
	made := func(text string) (k ownKey) {
		if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&k); err != nil || k.Text == "" {
			t.Fatalf("%v: %s", err, text)
		}
		return k
	}
	bearer := func(token string) []string {
		return []string{"Authorization", "Bearer " + token, "Content-Type", "application/json"}
	}
	const plain = `{"model":"openai/gpt-x","messages":[{"role":"user","content":"Hello"}]}`
	ends := func(key string) {
		t.Helper()
		testrig.Eventually(t, "the key has ended", func() bool {
			status, _, _ := p.call("POST", gateway+"/v1/chat/completions", plain, bearer(key)...)
			return status == http.StatusUnauthorized || status == http.StatusForbidden // of a person who is revoked
		})
	}

	first := made(mine("create", "ci", "--expires", "1d", "--json"))
	ask(t, gateway, first.Text, ended)
	next := made(mine("rotate", "ci", "--keep", "1s", "--json"))
	ask(t, gateway, next.Text, ended)
	ends(first.Text)

	status, _, text := p.call("POST", gateway+"/v1/key", `{"name":"nightly"}`, bearer(p.token)...)
	second := made(text)
	if status != http.StatusCreated || second.Key.Name != "nightly" {
		t.Errorf("%d %s", status, text)
	}
	status, _, text = p.call("POST", gateway+"/v1/key/"+second.Key.ID+"/rotate", "", bearer(p.token)...)
	rotated := made(text)
	if status != http.StatusOK || rotated.Text == second.Text {
		t.Errorf("%d %s", status, text)
	}
	ends(second.Text)
	if status, _, text := p.call("POST", gateway+"/v1/key", `{"name":"third"}`, bearer(p.token)...); status != http.StatusConflict && status != http.StatusForbidden && status != http.StatusBadRequest {
		t.Errorf("a third key of two: %d %s", status, text)
	}
	if status, _, text := p.call("DELETE", gateway+"/v1/key/"+second.Key.ID, "", bearer(p.token)...); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	ends(rotated.Text)

	if status, _, _ := p.call("POST", gateway+"/v1/chat/completions", strings.Replace(plain, "gpt-x", "gpt-y", 1), bearer(next.Text)...); status != http.StatusForbidden {
		t.Errorf("a model that the key may not use: %d", status)
	}
	var used struct {
		Total   struct{ Requests, Refused int }
		Refused []struct{ Reason string }
	}
	testrig.Eventually(t, "the usage has the requests", func() bool {
		_, _, text = p.call("GET", gateway+"/v1/usage", "", bearer(next.Text)...)
		return json.Unmarshal([]byte(text), &used) == nil && used.Total.Requests >= 2 && len(used.Refused) > 0
	})
	var me struct {
		ID     string
		Person bool
		Keys   []struct{ Name, State string }
	}
	if _, _, text := p.call("GET", gateway+"/v1/key", "", bearer(p.token)...); json.Unmarshal([]byte(text), &me) != nil || !me.Person || len(me.Keys) != 2 {
		t.Errorf("%s", text)
	}

	own := []string{"Sec-Fetch-Site", "same-origin", "Content-Type", "application/x-www-form-urlencoded"}
	status, header, text := p.call("POST", gateway+"/my-usage", url.Values{"do": {"key"}, "key": {next.Text}}.Encode(), own...)
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	if status != http.StatusSeeOther || !strings.Contains(header.Get("Set-Cookie"), "HttpOnly; SameSite=Strict") || strings.Contains(cookie, next.Text) {
		t.Fatalf("%d %v %s", status, header, text)
	}
	own = append(own, "Cookie", cookie)
	if status, _, text := p.call("GET", gateway+"/my-usage", "", own...); status != http.StatusOK || !strings.Contains(text, "By day and model") || !strings.Contains(text, "openai/gpt-x") {
		t.Errorf("%d %s", status, text)
	}
	if status, _, _ := p.call("POST", gateway+"/v1/chat/completions", plain, own...); status != http.StatusUnauthorized {
		t.Errorf("a model with the cookie: %d", status)
	}

	isogloss("keys", "revoke", me.ID)
	ends(next.Text)
	if status, _, _ := p.call("GET", gateway+"/v1/key", "", bearer(p.token)...); status < 400 {
		t.Errorf("a revoked person: %d", status)
	}
}
