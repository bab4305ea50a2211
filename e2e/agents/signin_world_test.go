//go:build signin

package agents

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	personPassword = "pass-of-a-test"
	clientSecret   = "secret-of-a-test"
	adminKey       = "admin-key-of-a-test-admin-key-of-a-test"
	signInNotice   = "Use this gateway for work only."
	peopleSettings = `{ "permissions": { "deny": ["WebFetch"] } }`
	soldModel      = "claude-sonnet-4-5" // which the reference has a price for
)

// A place is a folder with a certificate of localhost and the authority that signed it.
type place struct {
	dir, ca, cert, key string
	roots              *x509.CertPool
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{dir: t.TempDir(), roots: x509.NewCertPool()}
	template := func(name string) *x509.Certificate {
		serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
		return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	}
	authority, leaf := template("authority of a test"), template("localhost")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	leaf.DNSNames, leaf.ExtKeyUsage = []string{"localhost"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	signer, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	own, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca, err3 := x509.CreateCertificate(rand.Reader, authority, authority, &signer.PublicKey, signer)
	der, err4 := x509.CreateCertificate(rand.Reader, leaf, authority, &own.PublicKey, signer)
	private, err5 := x509.MarshalPKCS8PrivateKey(own)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	p.ca, p.cert, p.key = p.file(t, "ca.pem", "CERTIFICATE", ca), p.file(t, "leaf.pem", "CERTIFICATE", der), p.file(t, "leaf.key", "PRIVATE KEY", private)
	parsed, err := x509.ParseCertificate(ca)
	if err != nil {
		t.Fatal(err)
	}
	p.roots.AddCert(parsed)
	return p
}

func (p *place) file(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// client returns an HTTP client that trusts the authority and follows no redirects.
func (p *place) client() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, DisableCompression: true, DisableKeepAlives: true},
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// An exchange is a request and its response.
type exchange struct {
	method, path string
	sent         http.Header
	form         url.Values
	status       int
	header       http.Header
	body         []byte
}

// A recorder stands before a gateway, with the gateway's certificate, and keeps all exchanges.
type recorder struct {
	url   string
	proxy *httputil.ReverseProxy

	mu  sync.Mutex
	to  *url.URL // the gateway
	all []*exchange
}

func newRecorder(t *testing.T, p *place) *recorder {
	t.Helper()
	r := &recorder{}
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	r.proxy = &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			r.mu.Lock()
			defer r.mu.Unlock()
			pr.SetURL(r.to)
			pr.Out.Host = pr.In.Host
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // a gateway that does not serve yet
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, DisableCompression: true},
	}
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = r.proxy.ErrorLog // of connections that only look at the certificate
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	r.url = "https://localhost:" + port
	return r
}

// lead sends requests to a gateway on a loopback port.
func (r *recorder) lead(addr string) {
	_, port, _ := net.SplitHostPort(addr)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = &url.URL{Scheme: "https", Host: "localhost:" + port}
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body) // what is missing fails at the gateway
	req.Body = io.NopCloser(bytes.NewReader(body))
	e := &exchange{method: req.Method, path: req.URL.Path, sent: req.Header.Clone()}
	if strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		e.form, _ = url.ParseQuery(string(body))
	}
	c := &copier{ResponseWriter: w, status: http.StatusOK}
	r.proxy.ServeHTTP(c, req)
	e.status, e.header, e.body = c.status, w.Header().Clone(), c.body.Bytes()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

// take returns the exchanges since the last call, in the order of their ends.
func (r *recorder) take() []*exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// copier keeps what is written.
type copier struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (c *copier) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *copier) Write(p []byte) (int, error) {
	c.body.Write(p)
	return c.ResponseWriter.Write(p)
}

func (c *copier) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// startKeycloak runs a Keycloak whose realm has ann, of the group llm-search, and ben, of the group
// llm-small. The gateways at the URLs are one client of it.
func startKeycloak(t *testing.T, urls ...string) (issuer string) {
	t.Helper()
	folder := os.Getenv("ISOGLOSS_KEYCLOAK")
	if folder == "" {
		t.Fatal("ISOGLOSS_KEYCLOAK names no folder with Keycloak; run make e2e-signin")
	}
	server := storetest.Keycloak(t, folder)
	person := func(name, group string) any {
		return object{
			"username": name, "email": name + "@example.com", "emailVerified": true, "firstName": name, "lastName": "Example", "enabled": true,
			"groups": []string{group}, "realmRoles": []string{"default-roles-main"}, "credentials": []any{object{"type": "password", "value": personPassword}},
		}
	}
	var redirects []string
	for _, u := range urls {
		redirects = append(redirects, u+"/oauth/callback")
	}
	both := func(config object) object {
		config["access.token.claim"], config["id.token.claim"] = "true", "true"
		return config
	}
	realm := object{
		"realm": "main", "enabled": true, "groups": []any{object{"name": "llm-search"}, object{"name": "llm-small"}},
		"users": []any{person("ann", "llm-search"), person("ben", "llm-small")},
		"clients": []any{object{
			"clientId": "gateway", "secret": clientSecret, "publicClient": false, "standardFlowEnabled": true, "redirectUris": redirects,
			"attributes": object{"access.token.lifespan": "3600"},
			"protocolMappers": []any{
				object{"name": "audience", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper", "config": object{"included.custom.audience": "isogloss", "access.token.claim": "true"}},
				object{"name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper", "config": both(object{"claim.name": "groups", "full.path": "false"})},
			},
		}},
	}
	var token struct {
		Access string `json:"access_token"`
	}
	login := url.Values{"grant_type": {"password"}, "client_id": {"admin-cli"}, "username": {"admin"}, "password": {storetest.KeycloakPassword}}
	send(t, http.DefaultClient, server.URL+"/realms/master/protocol/openid-connect/token", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, login.Encode(), &token)
	send(t, http.DefaultClient, server.URL+"/admin/realms", http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token.Access}}, testrig.Compact(realm), nil)
	return server.URL + "/realms/main"
}

type object = map[string]any

// send posts a request that has to succeed.
func send(t *testing.T, client *http.Client, address string, header http.Header, body string, answer any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s answers %d %s %v", address, resp.StatusCode, text, err)
	}
}

// startOurs runs the built gateway behind a recorder. Each model is behind an upstream of a dialect.
func startOurs(t *testing.T, p *place, r *recorder, up *rig.Upstream, issuer, bin string) {
	t.Helper()
	var providers, models strings.Builder
	for _, d := range rig.Dialects() {
		fmt.Fprintf(&providers, "  on-%s: { protocol: %s, base_url: %q, api_key: %s }\n", d.Name, d.Name, up.URL()+d.Prefix, rig.UpstreamKey)
		fmt.Fprintf(&models, "  %s: { targets: [ on-%s/%s ] }\n", claude().modelOn(d), d.Name, d.Target)
	}
	for _, name := range []string{soldModel, gemini().further} {
		fmt.Fprintf(&models, "  %s: { targets: [ on-anthropic/%s ] }\n", name, rig.DialectNamed("anthropic").Target)
	}
	g, err := testrig.NewGateway(bin, t.TempDir(), "gateway")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the gateway's log:\n%s", g.LogTail())
		}
		g.Close()
	})
	settings := filepath.Join(g.Dir, "settings.json")
	if err := os.WriteFile(settings, []byte(peopleSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	err = g.Configure(fmt.Sprintf(`tls: { cert: %s, key: %s }
store: sqlite:%s
retries: { attempts: 1 }
identity:
  issuers:
    - issuer: %s
      audiences: [isogloss]
      name: email
      rules:
        - { when: { groups: llm-search }, team: search, models: [ "claude-code-*", "claude-sonnet-*", "gemini-*" ] }
        - { when: { groups: llm-small }, team: small, budget: 20, window: 24h, settings: %s }
  sign_in: { url: %q, client: gateway, secret: %s, notice: %q }
prices: { models: { "on-anthropic/*": { input: 3, cache_read: 0.3, output: 15 } } }
providers:
%smodels:
%s`, p.cert, p.key, filepath.Join(g.Data, "store.db"), issuer, settings, r.url, clientSecret, signInNotice, providers.String(), models.String()))
	if err := errors.Join(err, g.Launch()); err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimPrefix(g.URL, "http://")
	r.lead(addr)
	awaitGateway(t, p, r, func() string { return g.LogTail() })
}

// startTheirs runs the reference gateway of Claude Code's vendor behind a recorder.
func startTheirs(t *testing.T, p *place, r *recorder, up *rig.Upstream, issuer, program string) {
	t.Helper()
	addr, err := testrig.Address()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	config := filepath.Join(p.dir, "gateway.yaml")
	text := fmt.Sprintf(`listen: { host: 127.0.0.1, port: %s, public_url: %q, tls: { cert: %s, key: %s } }
login_notice: %q
upstreams: [ { provider: anthropic, base_url: %q, auth: { api_key: %s } } ]
session: { jwt_secret: secret-of-a-test-secret-of-a-test-secret }
store: { postgres_url: %q }
oidc: { issuer: %s, client_id: gateway, client_secret: %s }
admin: { write_keys: [ { id: test, key: %s } ] }
managed: { policies: [ { match: { groups: [llm-small] }, cli: %s } ] }
`, port, r.url, p.cert, p.key, signInNotice, up.URL()+rig.DialectNamed("anthropic").Prefix, rig.UpstreamKey, storetest.Postgres(t).URL, issuer, clientSecret, adminKey, peopleSettings)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "gateway", "--config", config)
	output := &rig.Log{}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin", "CLAUDE_GATEWAY_ALLOW_LOOPBACK=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("the end of the reference's log:\n%s", output.Tail())
		}
	})
	r.lead(addr)
	awaitGateway(t, p, r, output.Tail)
}

func awaitGateway(t *testing.T, p *place, r *recorder, output func() string) {
	t.Helper()
	err := testrig.Until(t.Context(), 30*time.Second, "the gateway does not serve", func() bool {
		resp, err := p.client().Get(r.url + "/.well-known/oauth-authorization-server")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	if err != nil {
		t.Fatalf("%v; its log: %s", err, output())
	}
	r.take()
}

// loopbackJar sends cookies that are for TLS only to loopback addresses too, as browsers do.
type loopbackJar struct{ *cookiejar.Jar }

func (j loopbackJar) Cookies(u *url.URL) []*http.Cookie {
	return j.Jar.Cookies(&url.URL{Scheme: "https", Host: u.Host, Path: u.Path})
}

var (
	pageRefresh = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]+)"`)
	pageForm    = regexp.MustCompile(`(?s)<form\b([^>]*)>(.*?)</form>`)
	pageInput   = regexp.MustCompile(`<input\b[^>]*>`)
	pageField   = regexp.MustCompile(`\b(name|value|action)="([^"]*)"`)
)

// fields returns the attributes of a tag that matter here.
func fields(tag string) map[string]string {
	out := map[string]string{}
	for _, m := range pageField.FindAllStringSubmatch(tag, -1) {
		out[m[1]] = html.UnescapeString(m[2])
	}
	return out
}

// browse signs a person in, as a browser does it: it opens the address, submits the code that is
// filled in, follows all redirects, enters name and password, and returns the text of the last page.
func browse(t *testing.T, p *place, address, name string) string {
	t.Helper()
	jar, _ := cookiejar.New(nil) // never fails
	b := p.client()
	b.Jar, b.CheckRedirect = loopbackJar{jar}, nil
	form := ""
	for range 10 {
		method := http.MethodGet
		if form != "" {
			method = http.MethodPost
		}
		req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		if form != "" {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Origin", req.URL.Scheme+"://"+req.URL.Host)
			req.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		resp, err := b.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s answers %d %s %v", address, resp.StatusCode, text, err)
		}
		at := resp.Request.URL
		address, form = next(at, string(text), name)
		if address == "" {
			return string(text)
		}
	}
	t.Fatalf("the sign-in does not end, but at %s", address)
	return ""
}

// next is where a page leads, and the form to send there.
func next(at *url.URL, page, name string) (address, form string) {
	if m := pageRefresh.FindStringSubmatch(page); m != nil {
		to, _ := at.Parse(html.UnescapeString(m[1]))
		return to.String(), ""
	}
	m := pageForm.FindStringSubmatch(page)
	if m == nil {
		return "", ""
	}
	values := url.Values{}
	for _, tag := range pageInput.FindAllString(m[2], -1) {
		if f := fields(tag); f["name"] != "" {
			values.Set(f["name"], f["value"])
		}
	}
	if values.Has("password") {
		values.Set("username", name)
		values.Set("password", personPassword)
	}
	to, _ := at.Parse(fields(m[1])["action"])
	return to.String(), values.Encode()
}
