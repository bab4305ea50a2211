package signin

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
	"github.com/isogloss-gateway/isogloss/internal/test/signintest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// gateway is a running sign-in with a store in a file, an identity provider, and a client of it.
type gateway struct {
	*signintest.Provider
	server *Server
	store  *store.Store
	file   string
	client string // URL of the client port
	admin  string // URL of the admin port

	refused atomic.Pointer[llm.Error] // by Admit, if set
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{file: filepath.Join(t.TempDir(), "store.db")}
	var s atomic.Pointer[Server]
	serve := func(find func(*Server, string) http.Handler) string {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := find(s.Load(), r.URL.Path); h != nil {
				h.ServeHTTP(w, r)
				return
			}
			http.NotFound(w, r)
		}))
		t.Cleanup(ts.Close)
		return ts.URL
	}
	g.client, g.admin = serve((*Server).Client), serve((*Server).Admin)
	g.Provider = signintest.New(t, g.client+callbackPath, g.admin+loginCallbackPath)
	var err error
	if g.store, err = store.Open(t.Context(), "sqlite:"+g.file, store.Options{Migrate: true, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.store.Close() })
	v, err := identity.New([]identity.Issuer{{URL: g.URL(), Audiences: []string{signintest.Audience}, Rules: []identity.Rule{
		{When: []identity.Condition{{Claim: "groups", Values: []string{"llm-ops"}}}, Grant: identity.Grant{Org: "acme", Role: access.Auditor}},
		{When: []identity.Condition{{Claim: "groups", Values: []string{"llm-search"}}}, Grant: identity.Grant{Org: "acme", Team: "search"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	v.Revoked = &identity.Revoked{}
	g.server, err = New(Options{Revoked: v.Revoked, URL: g.client, Admin: g.admin, Issuer: g.URL(), Client: signintest.Client, Secret: signintest.Secret, Scopes: []string{"openid"}, Notice: "Employees only.",
		People: admitter{access.NewClients(access.NewKeys(nil), nil, v), g}, Verifier: v, Store: g.store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.Store(g.server)
	var watch sync.WaitGroup
	watch.Go(func() { WatchRevoked(t.Context(), g.store, v.Revoked) })
	t.Cleanup(watch.Wait)
	return g
}

// admitter admits the owners of tokens, unless the test refuses them.
type admitter struct {
	*access.Clients
	g *gateway
}

func (a admitter) Admit(r *http.Request, token string) (*access.Person, *llm.Error) {
	if fault := a.g.refused.Load(); fault != nil {
		return nil, fault
	}
	return a.Clients.Admit(r, token)
}

// browser is a browser with its cookies.
type browser struct {
	t *testing.T
	http.Client
}

func newBrowser(t *testing.T) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, http.Client{Jar: jar}}
}

// page is an answer.
type page struct {
	status int
	header http.Header
	text   string
}

func (b *browser) do(method, address string, form url.Values, header ...string) page {
	b.t.Helper()
	var body io.Reader = http.NoBody
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, address, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return page{resp.StatusCode, resp.Header, string(text)}
}

var refreshTo = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]+)"`)

// onward returns the address to which a page sends the browser.
func (p page) onward(t *testing.T) string {
	t.Helper()
	m := refreshTo.FindStringSubmatch(p.text)
	if p.status != 200 || m == nil {
		t.Fatalf("the page does not lead on: %d %s", p.status, p.text)
	}
	return strings.ReplaceAll(m[1], "&amp;", "&")
}

func (p page) json(t *testing.T) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(p.text), &out); err != nil {
		t.Fatalf("%v: %s", err, p.text)
	}
	return out
}

// start begins a sign-in of a device and returns its codes.
func (g *gateway) start(t *testing.T) (device, user string) {
	t.Helper()
	p := newBrowser(t).do("POST", g.client+devicePath, url.Values{"surface": {"claude_code"}})
	if p.status != 200 {
		t.Fatalf("%d %s", p.status, p.text)
	}
	answer := p.json(t)
	device, _ = answer["device_code"].(string)
	user, _ = answer["user_code"].(string)
	return device, user
}

// poll asks for the tokens of a device.
func (g *gateway) poll(t *testing.T, device string) page {
	return newBrowser(t).do("POST", g.client+tokenPath, url.Values{"grant_type": {deviceGrant}, "device_code": {device}})
}

func (g *gateway) refreshWith(t *testing.T, token string) page {
	return newBrowser(t).do("POST", g.client+tokenPath, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// signIn is the whole sign-in of a device by a person.
func (g *gateway) signIn(t *testing.T, subject string) map[string]any {
	t.Helper()
	device, user := g.start(t)
	b := newBrowser(t)
	to := b.do("POST", g.client+verifyPath, url.Values{"user_code": {user}}).onward(t)
	if p := b.do("GET", g.Approve(to, subject), nil); p.status != 200 || !strings.Contains(p.text, "return to your terminal") {
		t.Fatalf("%d %s", p.status, p.text)
	}
	p := g.poll(t, device)
	if p.status != 200 {
		t.Fatalf("%d %s", p.status, p.text)
	}
	return p.json(t)
}

func wantError(t *testing.T, p page, status int, code string) {
	t.Helper()
	if p.status != status || !strings.Contains(p.text, `"error":"`+code+`"`) {
		t.Errorf("%d %s, want %d %s", p.status, p.text, status, code)
	}
}

func (g *gateway) audited(t *testing.T, action string) (n int) {
	t.Helper()
	list, err := g.store.AuditLog(t.Context(), store.AuditQuery{Action: action})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestDeviceFlow is a sign-in from the metadata to the sign-out.
func TestDeviceFlow(t *testing.T) {
	g := newGateway(t)
	meta := newBrowser(t).do("GET", g.client+metadataPath, nil).json(t)
	for _, name := range []string{"device_authorization_endpoint", "token_endpoint", "revocation_endpoint"} {
		if u, _ := meta[name].(string); !strings.HasPrefix(u, g.client+"/") {
			t.Errorf("%s is %q, not on the gateway's origin", name, u)
		}
	}
	if _, has := meta["authorization_endpoint"]; has {
		t.Error("the metadata has an authorization endpoint")
	}

	device, user := g.start(t)
	wantError(t, g.poll(t, device), 400, "authorization_pending")
	wantError(t, g.poll(t, device), 400, "slow_down")
	b := newBrowser(t)
	shown := b.do("GET", g.client+verifyPath+"?user_code="+user, nil)
	if shown.status != 200 || !strings.Contains(shown.text, `value="`+user+`"`) || strings.Contains(shown.text, "<script") || refreshTo.MatchString(shown.text) {
		t.Errorf("the page does not show the code, or sends it by itself: %s", shown.text)
	}
	to := b.do("POST", g.client+verifyPath, url.Values{"user_code": {strings.ToLower(strings.ReplaceAll(user, "-", " "))}}).onward(t)
	wantError(t, g.poll(t, device), 400, "slow_down")
	if p := b.do("GET", g.Approve(to, "ann"), nil); p.status != 200 {
		t.Fatalf("%d %s", p.status, p.text)
	}
	raw, err := os.ReadFile(g.file + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), device) || strings.Contains(string(raw), strings.ReplaceAll(user, "-", "")) || strings.Contains(string(raw), "eyJ") || strings.Contains(string(raw), "ann@") {
		t.Error("the store has a secret in plain text")
	}
	answer := g.poll(t, device)
	got := answer.json(t)
	access, _ := got["access_token"].(string)
	refresh, _ := got["refresh_token"].(string)
	if answer.status != 200 || strings.Count(access, ".") != 2 || refresh == "" || got["token_type"] != "Bearer" || got["email"] != "ann@example.com" || got["expires_in"].(float64) < 200 {
		t.Fatalf("%d %s", answer.status, answer.text)
	}
	if answer.header.Get("Cache-Control") != "no-store" {
		t.Error("tokens may be cached")
	}
	wantError(t, g.poll(t, device), 400, "expired_token") // a replayed device code

	again := g.refreshWith(t, refresh)
	if next, _ := again.json(t)["refresh_token"].(string); again.status != 200 || next == refresh || next == "" {
		t.Fatalf("%d %s", again.status, again.text)
	} else if p := newBrowser(t).do("POST", g.client+revokePath, url.Values{"token": {next}}); p.status != 200 {
		t.Errorf("%d %s", p.status, p.text)
	} else {
		wantError(t, g.refreshWith(t, next), 401, "invalid_grant")
	}
	wantError(t, g.refreshWith(t, refresh), 401, "invalid_grant") // used before
	wantError(t, g.refreshWith(t, ""), 400, "invalid_request")
	wantError(t, g.poll(t, ""), 400, "invalid_request")
	if _, fault := g.server.o.People.Admit(httptest.NewRequest(http.MethodGet, "/", http.NoBody), access); fault != nil {
		t.Fatal(fault)
	}
	for _, text := range otherSpellings(access) { // after the first time the token is refused already
		if p := newBrowser(t).do("POST", g.client+revokePath, url.Values{"token": {text}}); p.status != 200 {
			t.Errorf("%d %s", p.status, p.text)
		}
		if _, fault := g.server.o.People.Admit(httptest.NewRequest(http.MethodGet, "/", http.NoBody), access); fault == nil || fault.Code != "revoked_token" {
			t.Errorf("a revoked token: %v", fault)
		}
	}
	if rows, err := g.store.RevokedTokens(t.Context(), time.Now()); err != nil || len(rows) != 1 || g.audited(t, "sign-out") != 1 {
		t.Errorf("%d rows and %d sign-outs of one token, %v", len(rows), g.audited(t, "sign-out"), err)
	}
	if n := g.audited(t, "sign-in"); n != 1 {
		t.Errorf("%d sign-ins in the audit log, want 1", n)
	}
}

// otherSpellings returns a token and texts whose last letter differs in bits that base64 ignores.
func otherSpellings(token string) []string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(letters, token[len(token)-1])
	list := []string{token}
	for bit := range 16 {
		list = append(list, token[:len(token)-1]+letters[last&^15|bit:][:1])
	}
	return list
}

// TestSessionOfAbortedRequest renews the tokens of a session for a request that the browser aborts
// while the provider answers. The session goes on.
func TestSessionOfAbortedRequest(t *testing.T) {
	g := newGateway(t)
	g.Set(func(s *signintest.State) { s.Groups = []string{"llm-ops"} })
	b := newBrowser(t)
	at, _ := url.Parse(g.admin)
	b.do("GET", g.Approve(b.do("GET", g.admin+loginPath, nil).onward(t), "olga"), nil)
	secret := readCookie(requestWith(b, at), g.admin, sessionCookie)
	for range 2 {
		if err := g.expire(t, secret); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		g.server.provider.client.Transport = &aborting{g.server.provider.client.Transport, cancel}
		r := requestWith(b, at).WithContext(ctx)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		_, _ = g.server.Operator(r) // the browser has left
		if ctx.Err() == nil {
			t.Fatal("nothing was renewed")
		}
		r = requestWith(b, at)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if _, fault := g.server.Operator(r); fault != nil {
			t.Fatalf("the session has ended: %v", fault)
		}
	}
}

// aborting aborts a browser's request as soon as the provider has answered.
type aborting struct {
	http.RoundTripper
	abort func()
}

func (a *aborting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	a.abort()
	return resp, err
}

// TestSignInRefused checks people who cancel, whom no rule admits, or who lose the admission later.
func TestSignInRefused(t *testing.T) {
	g := newGateway(t)
	begin := func() (*browser, string, string) {
		device, user := g.start(t)
		b := newBrowser(t)
		return b, device, b.do("POST", g.client+verifyPath, url.Values{"user_code": {user}}).onward(t)
	}
	b, device, to := begin()
	state, _ := url.Parse(to)
	if p := b.do("GET", g.client+callbackPath+"?error=access_denied&state="+state.Query().Get("state"), nil); p.status != 403 {
		t.Errorf("%d %s", p.status, p.text)
	}
	wantError(t, g.poll(t, device), 400, "access_denied")

	g.Set(func(s *signintest.State) { s.Groups = []string{"sales"} })
	b, device, to = begin()
	if p := b.do("GET", g.Approve(to, "eve"), nil); p.status != 403 || !strings.Contains(p.text, "does not admit you") {
		t.Errorf("%d %s", p.status, p.text)
	}
	wantError(t, g.poll(t, device), 400, "access_denied")
	if n := g.audited(t, "sign-in.refuse"); n != 2 {
		t.Errorf("%d refusals in the audit log, want 2", n)
	}

	g.Set(func(s *signintest.State) { s.Groups = []string{"llm-search"} })
	refresh, _ := g.signIn(t, "ann")["refresh_token"].(string)
	g.refused.Store(&llm.Error{Kind: llm.Permission, Message: "revoked"})
	wantError(t, g.refreshWith(t, refresh), 401, "invalid_grant")
	g.refused.Store(nil)

	refresh, _ = g.signIn(t, "ann")["refresh_token"].(string)
	g.Set(func(s *signintest.State) { s.Down = true })
	wantError(t, g.refreshWith(t, refresh), 503, "temporarily_unavailable")
	g.Set(func(s *signintest.State) { s.Down = false })
	if p := g.refreshWith(t, refresh); p.status != 200 { // an outage signs nobody out
		t.Errorf("%d %s", p.status, p.text)
	}
}

// TestAttacks checks that sign-ins cannot be guessed, forced upon a browser, or redirected.
func TestAttacks(t *testing.T) {
	t.Run("login CSRF: the answer of the attacker's sign-in in the victim's browser", func(t *testing.T) {
		g := newGateway(t)
		_, user := g.start(t)
		attacker := newBrowser(t)
		answer := g.Approve(attacker.do("POST", g.client+verifyPath, url.Values{"user_code": {user}}).onward(t), "eve")
		if p := newBrowser(t).do("GET", answer, nil); p.status != 400 {
			t.Errorf("%d %s", p.status, p.text)
		}
		victim := newBrowser(t)
		_, other := g.start(t)
		victim.do("POST", g.client+verifyPath, url.Values{"user_code": {other}})
		if p := victim.do("GET", answer, nil); p.status != 400 { // with an attempt of its own
			t.Errorf("%d %s", p.status, p.text)
		}
		login := g.Approve(attacker.do("GET", g.admin+loginPath, nil).onward(t), "eve")
		if p := newBrowser(t).do("GET", login, nil); p.status != 400 || p.header.Get("Set-Cookie") != "" && strings.Contains(p.header.Get("Set-Cookie"), sessionCookie) {
			t.Errorf("%d %s", p.status, p.text)
		}
	})
	t.Run("a form of another page", func(t *testing.T) {
		g := newGateway(t)
		_, user := g.start(t)
		if p := newBrowser(t).do("POST", g.client+verifyPath, url.Values{"user_code": {user}}, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); p.status != 403 {
			t.Errorf("%d %s", p.status, p.text)
		}
	})
	t.Run("guessed user codes", func(t *testing.T) {
		g := newGateway(t)
		_, user := g.start(t)
		b := newBrowser(t)
		limited := 0
		for range 40 {
			switch p := b.do("POST", g.client+verifyPath, url.Values{"user_code": {newUserCode()}}); p.status {
			case 400:
			case 429:
				limited++
			default:
				t.Fatalf("%d %s", p.status, p.text)
			}
		}
		if limited < 19 {
			t.Errorf("%d of 40 guesses were limited", limited)
		}
		if p := b.do("POST", g.client+verifyPath, url.Values{"user_code": {user}}); p.status != 429 {
			t.Errorf("a limited address learns that a code is right: %d", p.status)
		}
	})
	t.Run("a flood of sign-ins", func(t *testing.T) {
		g := newGateway(t)
		last := 0
		for range 30 {
			last = newBrowser(t).do("POST", g.client+devicePath, url.Values{}).status
		}
		if last != 429 {
			t.Errorf("the 30th sign-in of an address within a second: %d, want 429", last)
		}
	})
	t.Run("open redirect", func(t *testing.T) {
		g := newGateway(t)
		b := newBrowser(t)
		for _, target := range []string{"?next=https://evil.example", "?redirect_uri=https://evil.example", "?return_to=//evil.example"} {
			to := b.do("GET", g.admin+loginPath+target, nil).onward(t)
			if strings.Contains(to, "evil") {
				t.Errorf("%s leads to %s", target, to)
			}
			p := b.do("GET", g.Approve(to, "ann")+"&next=https://evil.example", nil)
			if strings.Contains(p.text, "evil") {
				t.Errorf("%s", p.text)
			}
		}
	})
	t.Run("the answer of another provider, a replayed nonce, a code twice", func(t *testing.T) {
		g := newGateway(t)
		begin := func() (*browser, string) {
			_, user := g.start(t)
			b := newBrowser(t)
			return b, b.do("POST", g.client+verifyPath, url.Values{"user_code": {user}}).onward(t)
		}
		b, to := begin()
		if p := b.do("GET", strings.Replace(g.Approve(to, "ann"), "iss="+url.QueryEscape(g.URL()), "iss=https://other.example", 1), nil); p.status != 400 {
			t.Errorf("another provider: %d %s", p.status, p.text)
		}
		b, to = begin()
		g.Set(func(s *signintest.State) { s.Nonce = "of another sign-in" })
		if p := b.do("GET", g.Approve(to, "ann"), nil); p.status != 403 {
			t.Errorf("a replayed ID token: %d %s", p.status, p.text)
		}
		g.Set(func(s *signintest.State) { s.Nonce = "" })
		b, to = begin()
		answer := g.Approve(to, "ann")
		b.do("GET", answer, nil)
		if p := b.do("GET", answer, nil); p.status != 400 {
			t.Errorf("an answer twice: %d %s", p.status, p.text)
		}
	})
	t.Run("script in a user code", func(t *testing.T) {
		g := newGateway(t)
		p := newBrowser(t).do("GET", g.client+verifyPath+"?user_code="+url.QueryEscape(`"><script>alert(1)</script>`), nil)
		if strings.Contains(p.text, "<script") || !strings.Contains(p.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s", p.text)
		}
	})
}

// TestSession checks the session of an operator: its cookie, its renewal, and its end.
func TestSession(t *testing.T) {
	g := newGateway(t)
	g.Set(func(s *signintest.State) { s.Groups = []string{"llm-ops"} })
	b := newBrowser(t)
	chosen := &http.Cookie{Name: sessionCookie, Value: "chosen-by-an-attacker"}
	at, _ := url.Parse(g.admin)
	b.Jar.SetCookies(at, []*http.Cookie{chosen})
	signedIn := b.do("GET", g.Approve(b.do("GET", g.admin+loginPath, nil).onward(t), "olga"), nil)
	if signedIn.status != http.StatusOK || !strings.Contains(signedIn.text, "role is auditor") || !strings.Contains(signedIn.text, "Sign out") {
		t.Errorf("%d %s", signedIn.status, signedIn.text)
	}
	cookies := signedIn.header.Values("Set-Cookie")
	mine := slices.IndexFunc(cookies, func(c string) bool { return strings.HasPrefix(c, sessionCookie+"=") })
	if mine < 0 || !strings.Contains(cookies[mine], "SameSite=Strict") || !strings.Contains(cookies[mine], "HttpOnly") || strings.Contains(cookies[mine], chosen.Value) {
		t.Fatalf("%q", cookies)
	}

	operator := func(b *browser, header ...string) (access.Record, *llm.Error) {
		r := httptest.NewRequest(http.MethodGet, g.admin+"/api/v1/whoami", http.NoBody)
		for _, c := range b.Jar.Cookies(at) {
			r.AddCookie(c)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if !g.server.HasSession(r) {
			return access.Record{}, &llm.Error{Kind: llm.Authentication, Code: "no_session"}
		}
		return g.server.Operator(r)
	}
	page := []string{"Sec-Fetch-Site", "same-origin"}
	if op, fault := operator(b, page...); fault != nil || op.Role != access.Auditor || op.Org != "acme" {
		t.Fatalf("%+v %v", op, fault)
	}
	for _, site := range []string{"cross-site", "same-site", ""} { // CSRF
		if _, fault := operator(b, "Sec-Fetch-Site", site); fault == nil || fault.Kind != llm.Permission {
			t.Errorf("a request from %q uses the session: %v", site, fault)
		}
	}
	eve := newBrowser(t) // session fixation: the attacker's secret is no session
	eve.Jar.SetCookies(at, []*http.Cookie{chosen})
	if _, fault := operator(eve, page...); fault == nil || fault.Code != "session_ended" {
		t.Errorf("%v", fault)
	}

	g.refused.Store(&llm.Error{Kind: llm.Authentication, Code: "revoked"})
	if _, fault := operator(b, page...); fault == nil || fault.Code != "revoked" {
		t.Errorf("a revoked operator: %v", fault)
	}
	g.refused.Store(nil)

	secret := readCookie(requestWith(b, at), g.admin, sessionCookie)
	if err := g.expire(t, secret); err != nil {
		t.Fatal(err)
	}
	if op, fault := operator(b, page...); fault != nil || op.Role != access.Auditor {
		t.Errorf("the session was not renewed: %v", fault)
	}
	g.Set(func(s *signintest.State) { s.Groups = []string{"llm-search"} }) // no operator any more
	if err := g.expire(t, secret); err != nil {
		t.Fatal(err)
	}
	if _, fault := operator(b, page...); fault == nil || fault.Kind != llm.Permission {
		t.Errorf("the role outlives the group: %v", fault)
	}
	g.Set(func(s *signintest.State) { s.Groups = []string{"llm-ops"} })

	if p := b.do("POST", g.admin+logoutPath, url.Values{}, "Sec-Fetch-Site", "cross-site"); p.status != 403 {
		t.Errorf("another page signs out: %d", p.status)
	}
	if p := b.do("POST", g.admin+logoutPath, url.Values{}); p.status != 200 {
		t.Errorf("%d %s", p.status, p.text)
	}
	b.Jar.SetCookies(at, []*http.Cookie{{Name: sessionCookie, Value: secret}})
	if _, fault := operator(b, page...); fault == nil || fault.Code != "session_ended" {
		t.Errorf("the session outlives the sign-out: %v", fault)
	}
	if g.Revoked() == 0 || g.audited(t, "sign-out") != 1 || g.audited(t, "sign-in") != 1 {
		t.Errorf("%d tokens revoked, %d sign-outs, %d sign-ins", g.Revoked(), g.audited(t, "sign-out"), g.audited(t, "sign-in"))
	}

	g.Set(func(s *signintest.State) { s.Groups = []string{"llm-search"} })
	if p := newBrowser(t); p.do("GET", g.Approve(p.do("GET", g.admin+loginPath, nil).onward(t), "ann"), nil).status != 403 {
		t.Error("a person without a role got a session")
	}
}

func requestWith(b *browser, at *url.URL) *http.Request {
	r := httptest.NewRequest(http.MethodGet, at.String(), http.NoBody)
	for _, c := range b.Jar.Cookies(at) {
		r.AddCookie(c)
	}
	return r
}

// expire makes the tokens of a session expire.
func (g *gateway) expire(t *testing.T, secret string) error {
	id := digest(sessionSecret, secret)
	n, err := g.store.Session(t.Context(), id, time.Now())
	if err != nil {
		return err
	}
	old, err := unseal(secret, n.Tokens)
	if err != nil {
		return err
	}
	old.Expires = time.Now().Add(-time.Second)
	sealed, err := seal(n.Seal, old)
	if err != nil {
		return err
	}
	return g.store.RenewSession(t.Context(), id, sealed)
}

// TestHostCookie checks that cookies of an https address are bound to the host.
func TestHostCookie(t *testing.T) {
	c := cookie("https://gateway.example.com", sessionCookie, "v", time.Minute, http.SameSiteStrictMode)
	if c.Name != "__Host-"+sessionCookie || !c.Secure || c.Domain != "" || c.Path != "/" || !c.HttpOnly {
		t.Errorf("%+v", c)
	}
}
