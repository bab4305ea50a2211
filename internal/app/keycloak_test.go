//go:build keycloak

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/cmd/isogloss/login"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// The test of docs/identity.md on a real Keycloak. `make identity` runs it.

const (
	keycloakPeople = 1000
	keycloakGroups = 50
	userPassword   = "pass-of-a-test"
	signInSecret   = "secret-of-the-gateway"
)

// realm is a realm of a Keycloak.
type realm struct {
	t      *testing.T
	server *storetest.Server
	client *http.Client
	admin  string       // token
	sent   atomic.Int64 // requests of all loads
}

func (r *realm) issuer() string { return r.server.URL + "/realms/main" }

// token returns an access token by the password grant, and how it was refused.
func (r *realm) token(realm, client, user, password string) (secret.String, error) {
	resp, err := r.client.PostForm(r.server.URL+"/realms/"+realm+"/protocol/openid-connect/token",
		url.Values{"grant_type": {"password"}, "client_id": {client}, "username": {user}, "password": {password}})
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Token secret.String `json:"access_token"`
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return "", fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	return answer.Token, json.NewDecoder(resp.Body).Decode(&answer)
}

// call sends a request to Keycloak's admin API.
func (r *realm) call(method, path string, body any) string {
	r.t.Helper()
	token, err := r.token("master", "admin-cli", "admin", storetest.KeycloakPassword) // expires after a minute
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+"/admin/realms"+path, bytes.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		r.t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, answer, err)
	}
	return string(answer)
}

// section returns the shell commands below a heading of a page.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	_, rest, found := strings.Cut(rest, "```sh\n")
	block, _, _ := strings.Cut(rest, "\n```")
	if !ok || !found {
		t.Fatalf("%s has no commands below %s", page, heading)
	}
	return block
}

// TestKeycloak follows docs/identity.md, then signs in 1,000 people of 50 groups, rotates the keys
// under load and freezes Keycloak under load.
func TestKeycloak(t *testing.T) {
	folder := os.Getenv("ISOGLOSS_KEYCLOAK")
	homes, _ := filepath.Glob(filepath.Join(folder, "keycloak-*"))
	if len(homes) == 0 {
		t.Fatal("ISOGLOSS_KEYCLOAK names no folder with Keycloak; run make identity")
	}
	r := &realm{t: t, server: storetest.Keycloak(t, folder), client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
	t.Cleanup(r.client.CloseIdleConnections)
	began := time.Now()
	data, admin := "http://"+freePort(t), "http://"+freePort(t)
	home := t.TempDir()
	for _, heading := range []string{"Keycloak", "Sign-in in the browser"} {
		commands := exec.Command("bash", "-euc", section(t, filepath.Join("..", "..", "docs", "identity.md"), heading))
		commands.Env = append(os.Environ(), "HOME="+home, "KEYCLOAK="+homes[0], "IDP="+r.server.URL, "ADMIN_PASSWORD="+storetest.KeycloakPassword, "PASSWORD="+userPassword,
			"GATEWAY="+data, "ADMIN="+admin, "SIGN_IN_SECRET="+signInSecret)
		if out, err := commands.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", heading, err, out)
		}
	}
	t.Logf("the commands of the page took %s", time.Since(began).Round(time.Second))
	r.addPeople()

	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusOK, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`))
	rules := "{ when: { groups: llm-ops }, org: acme, role: auditor }, { when: { groups: llm-search }, org: acme, team: search }"
	for i := range keycloakGroups {
		rules += fmt.Sprintf(", { when: { groups: group-%d }, org: acme, team: team-%d }", i, i)
	}
	configuration := fmt.Sprintf(`
listen: %q
admin: { listen: %q }
data: %q
store: sqlite
providers: { chat: { protocol: openai-chat, base_url: "http://%s/v1" } }
models: { m: { targets: [chat/m] } }
identity:
  issuers: [{ issuer: %q, audiences: [isogloss], name: preferred_username, rules: [%s] }]
  sign_in: { url: %q, admin: %q, client: gateway, secret: %q }
`, strings.TrimPrefix(data, "http://"), strings.TrimPrefix(admin, "http://"), t.TempDir(), up.Addr, r.issuer(), rules, data, admin, signInSecret)
	keys := keyringOf(t, configuration)
	g := start(t, configuration, pace{})

	ann, err := r.token("main", "cli", "ann", userPassword)
	if err != nil {
		t.Fatal(err)
	}
	g.want(t, "m", ann, 200, "")
	if why, err := (Options{Config: g.file, Env: noEnvironment}).ExplainToken(t.Context(), ann.Reveal()); err != nil || why != "team search, because groups contains llm-search" {
		t.Errorf("explain: %q, %v", why, err)
	}
	if admin, err := r.token("master", "admin-cli", "admin", storetest.KeycloakPassword); err != nil {
		t.Error(err)
	} else {
		g.want(t, "m", admin, 401, "invalid_token") // another realm
	}

	r.signInByBrowser(g, data, admin)
	tokens := r.signIn(g)
	r.checkTeams(keys)
	r.rotateUnderLoad(g, tokens)
	r.freezeUnderLoad(g, tokens)
}

var loginForm = regexp.MustCompile(`action="([^"]+)"`)

// enter signs a person in on the login page of Keycloak and returns the page to which it leads.
func (r *realm) enter(browser *http.Client, address, user string) (int, string) {
	r.t.Helper()
	status, page := visit(r.t, browser, "GET", address, "")
	form := loginForm.FindStringSubmatch(page)
	if status != http.StatusOK || form == nil {
		r.t.Fatalf("there is no login page: %d %s", status, page)
	}
	return visit(r.t, browser, "POST", html.UnescapeString(form[1]), url.Values{"username": {user}, "password": {userPassword}}.Encode())
}

// signInByBrowser signs in on the command line and as an operator, renews a token and signs out.
func (r *realm) signInByBrowser(g *gateway, data, admin string) {
	t := r.t
	l := &login.Logins{File: filepath.Join(t.TempDir(), "logins.json")}
	flow, err := l.Start(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	ann := newPerson(t)
	_, page := visit(t, ann, "POST", data+"/device", url.Values{"user_code": {flow.Code}}.Encode())
	if status, page := r.enter(ann, led(t, page), "ann"); status != http.StatusOK || !strings.Contains(page, "return to your terminal") {
		t.Fatalf("%d %s", status, page)
	}
	if _, err := flow.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := l.Token(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	g.want(t, "m", secret.String(first), 200, "")
	expireTokens(t, l.File)
	second, err := l.Token(t.Context(), "")
	if err != nil || second == first {
		t.Fatalf("the token was not renewed: %v", err)
	}
	g.want(t, "m", secret.String(second), 200, "")

	r.call(http.MethodPost, "/main/users", map[string]any{"username": "olga", "email": "olga@example.com", "firstName": "O", "lastName": "Ps", "enabled": true,
		"groups": []string{"llm-ops"}, "credentials": []map[string]any{{"type": "password", "value": userPassword}}})
	for user, want := range map[string]int{"olga": http.StatusOK, "ann": http.StatusForbidden} {
		browser := newPerson(t)
		_, page := visit(t, browser, "GET", admin+"/login", "")
		if status, page := r.enter(browser, led(t, page), user); status != want {
			t.Errorf("%s: %d %s", user, status, page)
		}
		want = map[int]int{http.StatusOK: http.StatusOK, http.StatusForbidden: http.StatusUnauthorized}[want]
		if status, text := visit(t, browser, "GET", admin+"/api/v1/whoami", "", "Sec-Fetch-Site", "same-origin"); status != want {
			t.Errorf("%s: whoami %d %s", user, status, text)
		}
	}

	if _, err := l.Out(t.Context(), ""); err != nil {
		t.Error(err)
	}
	g.want(t, "m", secret.String(second), 401, "revoked_token")
}

// addPeople adds the people and groups. Passwords are hashed once only, because hashing is not what
// is tested.
func (r *realm) addPeople() {
	r.call(http.MethodPut, "/main", map[string]any{"passwordPolicy": "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)", "accessTokenLifespan": 3600})
	for i := range keycloakGroups {
		r.call(http.MethodPost, "/main/groups", map[string]any{"name": fmt.Sprintf("group-%d", i)})
	}
	var people []map[string]any
	for i := range keycloakPeople {
		people = append(people, map[string]any{"username": fmt.Sprintf("user-%d", i), "email": fmt.Sprintf("user-%d@example.com", i), "firstName": "U", "lastName": "Ser", "enabled": true,
			"groups": []string{fmt.Sprintf("/group-%d", i%keycloakGroups)}, "credentials": []map[string]any{{"type": "password", "value": userPassword}}})
	}
	r.call(http.MethodPost, "/main/partialImport", map[string]any{"ifResourceExists": "FAIL", "users": people})
}

// signIn fetches a token for each person and sends one request with it.
func (r *realm) signIn(g *gateway) []secret.String {
	tokens := make([]secret.String, keycloakPeople)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := worker; i < keycloakPeople; i += 4 {
				token, err := r.token("main", "cli", fmt.Sprintf("user-%d", i), userPassword)
				if err != nil {
					r.t.Error(err)
					return
				}
				tokens[i] = token
				if status, body, _ := g.try(r.t, "m", token); status != http.StatusOK {
					r.t.Errorf("user-%d: %d %s", i, status, body)
				}
			}
		})
	}
	all.Wait()
	return tokens
}

// checkTeams checks that each person has one account in the team of the group.
func (r *realm) checkTeams(keys *Keyring) {
	list, err := keys.Keys(r.t.Context(), "acme")
	if err != nil {
		r.t.Fatal(err)
	}
	people := 0
	for _, k := range list {
		var n int
		if _, err := fmt.Sscanf(k.Name, "user-%d", &n); err == nil && access.IsPerson(k.ID) {
			people++
			if want := fmt.Sprintf("team-%d", n%keycloakGroups); k.Team != want {
				r.t.Errorf("%s is in %s, want %s", k.Name, k.Team, want)
			}
		}
	}
	if people != keycloakPeople {
		r.t.Errorf("%d accounts, want %d", people, keycloakPeople)
	}
}

// load sends requests with valid tokens and with tokens whose signature is broken, until stop is
// closed, and returns how many valid ones were refused and invalid ones admitted.
func (r *realm) load(g *gateway, tokens []secret.String, stop <-chan struct{}) func() (sent, refused, admitted int64) {
	var sent, refused, admitted atomic.Int64
	var all sync.WaitGroup
	for worker := range 2 {
		all.Go(func() {
			for i := worker; ; i += 2 {
				select {
				case <-stop:
					return
				default:
				}
				token := tokens[i%len(tokens)]
				sent.Add(2)
				r.sent.Add(2)
				if status, body, _ := g.try(r.t, "m", token); status != http.StatusOK {
					refused.Add(1)
					r.t.Logf("refused: %d %s", status, body)
				}
				broken := token[:len(token)-8] + "AAAAAAAA"
				if status, _, _ := g.try(r.t, "m", broken); status == http.StatusOK {
					admitted.Add(1)
				}
			}
		})
	}
	return func() (int64, int64, int64) { all.Wait(); return sent.Load(), refused.Load(), admitted.Load() }
}

func (r *realm) check(what string, sent, refused, admitted int64) {
	r.t.Helper()
	r.t.Logf("%s: %d requests, %d valid ones refused, %d invalid ones admitted", what, sent, refused, admitted)
	if refused > 0 || admitted > 0 || sent < 100 {
		r.t.Errorf("%s: %d requests, %d valid ones refused, %d invalid ones admitted", what, sent, refused, admitted)
	}
}

// rotateUnderLoad gives the realm a new key twice and signs in with it at once.
func (r *realm) rotateUnderLoad(g *gateway, tokens []secret.String) {
	stop := make(chan struct{})
	result := r.load(g, tokens, stop)
	for n := range 2 {
		r.call(http.MethodPost, "/main/components", map[string]any{"name": fmt.Sprintf("rotated-%d", n), "providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider",
			"config": map[string][]string{"priority": {fmt.Sprint(200 + n)}, "enabled": {"true"}, "active": {"true"}, "algorithm": {"RS256"}}})
		for i := range 20 {
			token, err := r.token("main", "cli", fmt.Sprintf("user-%d", i), userPassword)
			if err != nil {
				r.t.Error(err)
				continue
			}
			if status, body, _ := g.try(r.t, "m", token); status != http.StatusOK {
				r.t.Errorf("a token of the new key: %d %s", status, body)
			}
			tokens[i] = token
		}
	}
	close(stop)
	sent, refused, admitted := result()
	r.check("rotation", sent, refused, admitted)
}

// freezeUnderLoad stops Keycloak while requests are sent. Known keys verify known and new tokens.
func (r *realm) freezeUnderLoad(g *gateway, tokens []secret.String) {
	fresh := make([]secret.String, 20)
	for i := range fresh {
		var err error
		if fresh[i], err = r.token("main", "cli", fmt.Sprintf("user-%d", i+100), userPassword); err != nil {
			r.t.Fatal(err)
		}
	}
	r.server.Freeze()
	defer r.server.Thaw()
	stop := make(chan struct{})
	result := r.load(g, tokens, stop)
	for _, token := range fresh {
		if status, body, _ := g.try(r.t, "m", token); status != http.StatusOK {
			r.t.Errorf("a new token while the identity provider is frozen: %d %s", status, body)
		}
	}
	enough := r.sent.Load() + int64(10*len(tokens)) // each token five times
	testrig.Eventually(r.t, "the load is sent during the outage", func() bool { return r.sent.Load() >= enough })
	close(stop)
	sent, refused, admitted := result()
	r.check("outage", sent, refused, admitted)
}

// expireTokens makes the tokens in a file of sign-ins expire.
func expireTokens(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`"expiry": "[^"]+"`).ReplaceAll(text, []byte(`"expiry": "2020-01-01T00:00:00Z"`))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
