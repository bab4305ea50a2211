package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/cmd/isogloss/login"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/test/signintest"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

var onward = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]+)"`)

// visit makes a browser's request and returns the status and the page.
func visit(t *testing.T, b *http.Client, method, address, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func led(t *testing.T, text string) string {
	t.Helper()
	m := onward.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("the page does not lead on: %s", text)
	}
	return strings.ReplaceAll(m[1], "&amp;", "&")
}

// TestSignIn checks a sign-in on a running gateway: on the command line with a token for models, and
// in an operator's browser with a session for the admin API, each to its end.
func TestSignIn(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusOK, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`))
	data, admin := "http://"+freePort(t), "http://"+freePort(t)
	idp := signintest.New(t, data+"/oauth/callback", admin+"/login/callback")
	g := start(t, fmt.Sprintf(`
listen: %q
admin: { listen: %q }
data: %q
store: sqlite
providers: { chat: { protocol: openai-chat, base_url: "http://%s/v1" } }
models: { m: { targets: [chat/m] } }
identity:
  issuers:
    - issuer: %q
      audiences: [%s]
      rules:
        - { when: { groups: llm-ops }, org: acme, role: auditor }
        - { when: { groups: llm-search }, org: acme, team: search }
  sign_in: { url: %q, admin: %q, client: %s, secret: %q }
`, strings.TrimPrefix(data, "http://"), strings.TrimPrefix(admin, "http://"), t.TempDir(), up.Addr, idp.URL(), signintest.Audience, data, admin, signintest.Client, signintest.Secret), pace{})

	l := &login.Logins{File: filepath.Join(t.TempDir(), "config", "logins.json")}
	if _, err := l.Token(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "not signed in") {
		t.Errorf("%v", err)
	}
	flow, err := l.Start(t.Context(), data+"/")
	if err != nil {
		t.Fatal(err)
	}
	browser := newPerson(t)
	_, text := visit(t, browser, "POST", data+"/device", url.Values{"user_code": {flow.Code}}.Encode(), "Sec-Fetch-Site", "same-origin")
	if status, text := visit(t, browser, "GET", idp.Approve(led(t, text), "ann"), ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if mail, err := flow.Wait(t.Context()); err != nil || mail != "ann@example.com" {
		t.Fatalf("%q, %v", mail, err)
	}
	token, err := l.Token(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	g.want(t, "m", secret.String(token), 200, "")

	idp.Set(func(s *signintest.State) { s.Groups = []string{"llm-ops"} })
	operator := newPerson(t)
	_, text = visit(t, operator, "GET", admin+"/login", "")
	_, text = visit(t, operator, "GET", idp.Approve(led(t, text), "olga"), "")
	if !strings.Contains(text, "role is auditor") {
		t.Errorf("%s", text)
	}
	for site, want := range map[string]int{"same-origin": 200, "cross-site": 403, "": 403} {
		if status, text := visit(t, operator, "GET", admin+"/api/v1/whoami", "", "Sec-Fetch-Site", site); status != want {
			t.Errorf("whoami from %q: %d %s, want %d", site, status, text, want)
		}
	}
	if status, text := visit(t, operator, "POST", admin+"/api/v1/keys", "", "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"); status != 403 || !strings.Contains(text, "role_not_allowed") {
		t.Errorf("an auditor creates a key: %d %s", status, text)
	}
	if status, _ := visit(t, newPerson(t), "GET", admin+"/api/v1/whoami", "", "Sec-Fetch-Site", "same-origin"); status != 401 {
		t.Errorf("without a session: %d", status)
	}
	if status, _ := visit(t, operator, "POST", admin+"/logout", "", "Sec-Fetch-Site", "same-origin"); status != 200 {
		t.Errorf("sign-out: %d", status)
	}
	if status, _ := visit(t, operator, "GET", admin+"/api/v1/whoami", "", "Sec-Fetch-Site", "same-origin"); status != 401 {
		t.Errorf("after the sign-out: %d", status)
	}

	if at, err := l.Out(t.Context(), ""); err != nil || at != data {
		t.Errorf("%q, %v", at, err)
	}
	g.want(t, "m", secret.String(token), 401, "revoked_token")
	if _, err := l.Token(t.Context(), data); err == nil || !strings.Contains(err.Error(), "isogloss login") {
		t.Errorf("%v", err)
	}
}

func newPerson(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}
