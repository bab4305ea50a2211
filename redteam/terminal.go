package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// falseGateway is a gateway that the attacker runs, and at which a person signs in on the command line.
type falseGateway struct {
	server, elsewhere *httptest.Server
	astray            atomic.Int64
	answers           map[string]string // by path
	status            map[string]int    // by path, if not 200
	hostile           map[string]*hostile.Server
}

// Paths of a gateway's sign-in.
const (
	signInData  = "/.well-known/oauth-authorization-server"
	signInCodes = "/device"
	signInToken = "/token"
)

func newFalseGateway() *falseGateway {
	g := &falseGateway{status: map[string]int{}, hostile: map[string]*hostile.Server{}}
	g.elsewhere = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { g.astray.Add(1) }))
	g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", testrig.JSONMedia)
		if h := g.hostile[r.URL.Path]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		if status := g.status[r.URL.Path]; status != 0 {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, g.answers[r.URL.Path]) // a program that has gone
	}))
	g.answers = newAnswers(g.server.URL)
	return g
}

// newAnswers returns the honest answers of a gateway.
func newAnswers(u string) map[string]string {
	return map[string]string{
		signInData:  fmt.Sprintf(`{"device_authorization_endpoint":%q,"token_endpoint":%q}`, u+signInCodes, u+signInToken),
		signInCodes: fmt.Sprintf(`{"device_code":"d","user_code":"BCDF-GHJK","verification_uri":%q,"expires_in":600,"interval":1}`, u+"/verify"),
		signInToken: `{"access_token":"token-of-test","token_type":"Bearer","refresh_token":"r","expires_in":3600,"email":"ann@example.com"}`,
	}
}

func (g *falseGateway) close() {
	g.server.CloseClientConnections()
	g.server.Close()
	g.elsewhere.Close()
}

// logIn signs a person in, and returns what the program printed. It ends the program after a time: some
// answers never end.
func (g *falseGateway) logIn(ctx context.Context, r *rig, within time.Duration) *evidence {
	home := testrig.Must(os.MkdirTemp("", "redteam-login-"))
	defer os.RemoveAll(home)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	cmd := exec.CommandContext(ctx, testrig.Must(filepath.Abs(r.bin)), "login", g.server.URL)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	if r.weak {
		cmd.Env = append(cmd.Env, weakVariable+"=1")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	e := &evidence{sent: fmt.Sprintf("%v %v", g.answers, g.status), got: out.String()}
	e.problem(strings.Contains(e.got, "panic:") || strings.Contains(e.got, "goroutine "), "the program panics")
	p := obeyed(e.got)
	e.problem(p != "", "the program prints %s", p)
	e.problem(strings.Contains(e.got, lineBreak), "the program prints a line of the gateway")
	e.problem(g.astray.Load() > 0, "%d requests went to another server", g.astray.Load())
	first, _, _ := strings.Cut(e.got, "\n")
	e.problem(strings.HasPrefix(first, "Open ") && strings.Contains(first, "evil.example"), "the program names another host as the place to sign in")
	for _, h := range g.hostile {
		e.problem(h.Sent.Load() > mostRead, "%d bytes of an answer without an end were read", h.Sent.Load())
	}
	if err == nil {
		e.status = 200
	}
	return e
}

// failsToSignIn fails if the program has signed in.
func failsToSignIn(_ *rig, e *evidence) string {
	return testrig.When(e.status == 200, "the program has signed in")
}

// terminalPlaces are the places of a gateway's answers that the program prints, with WORD for a text.
var terminalPlaces = map[string]func(g *falseGateway, word string){
	"user-code":    func(g *falseGateway, w string) { g.edit(signInCodes, `"BCDF-GHJK"`, w) },
	"mail":         func(g *falseGateway, w string) { g.edit(signInToken, `"ann@example.com"`, w) },
	"token-error":  func(g *falseGateway, w string) { g.fail(signInToken, `{"error":"x","error_description":`+w+`}`) },
	"begin-error":  func(g *falseGateway, w string) { g.fail(signInCodes, `{"error":`+w+`,"error_description":"x"}`) },
	"link":         func(g *falseGateway, w string) { g.edit(signInCodes, `/verify"`, `/verify#`+w[1:]) },
	"endpoint":     func(g *falseGateway, w string) { g.edit(signInData, `/token"`, `/token#`+w[1:]) },
	"no-json":      func(g *falseGateway, w string) { g.answers[signInData] = w },
	"access-token": func(g *falseGateway, w string) { g.edit(signInToken, `"token-of-test"`, w) },
}

func (g *falseGateway) edit(path, from, to string) {
	g.answers[path] = strings.Replace(g.answers[path], from, to, 1)
}

func (g *falseGateway) fail(path, body string) {
	g.answers[path], g.status[path] = body, http.StatusBadRequest
}

func terminalAttacks() (all []attack) {
	for _, place := range slices.Sorted(maps.Keys(terminalPlaces)) {
		for _, name := range slices.Sorted(maps.Keys(terminalTexts)) {
			do := func(ctx context.Context, r *rig) *evidence {
				g := newFalseGateway()
				defer g.close()
				terminalPlaces[place](g, testrig.Quote(terminalTexts[name]))
				return g.logIn(ctx, r, patience)
			}
			all = append(all, attack{name: "terminal/" + place + "/" + name, do: do})
		}
	}
	return append(append(all, linkAttacks()...), falseAnswers()...)
}

// linkAttacks lead a person or a token to another server.
func linkAttacks() (all []attack) {
	links := map[string]string{
		"other-host": "https://evil.example/verify", "user": "URL@evil.example/verify", "user-of-host": "http://evil.example\\@HOST/verify", "script": "javascript:alert(1)", "data": "data:text/html,x", "file": "file:///etc/passwd", "no-scheme": "//evil.example/verify", "prefix": "URL.evil.example/verify", "port": "http://127.0.0.1:1/verify",
		"scheme": "https://HOST/verify", "upper": "HTTP://EVIL.EXAMPLE/verify", "empty-host": "http:///verify", "relative": "/verify", "newline": "URL/verify\nhttps://evil.example", "punycode": "https://xn--80ak6aa92e.com/", "ipv6": "http://[::1]/verify", "name": "http://localhost/verify", "command": "$(id)", "option": "--help",
	}
	places := map[string]struct{ path, member string }{"link": {signInCodes, "verification_uri"}, "whole-link": {signInCodes, "verification_uri_complete"}, "codes": {signInData, "device_authorization_endpoint"}, "tokens": {signInData, "token_endpoint"}, "revocation": {signInData, "revocation_endpoint"}}
	for place, at := range places {
		for name, link := range links {
			do := func(ctx context.Context, r *rig) *evidence {
				g := newFalseGateway()
				defer g.close()
				to := strings.NewReplacer("URL", g.server.URL, "HOST", strings.TrimPrefix(g.server.URL, "http://")).Replace(link)
				o := testrig.Parse([]byte(g.answers[at.path]))
				o[at.member] = to
				g.answers[at.path] = testrig.Compact(o)
				return g.logIn(ctx, r, patience)
			}
			all = append(all, attack{name: "terminal/" + place + "/" + name, do: do, holds: []oracle{failsToSignIn}})
		}
	}
	return all
}

// falseAnswers are answers with which nobody can sign in, or that never end.
func falseAnswers() (all []attack) {
	members := map[string][]string{signInData: {"device_authorization_endpoint", "token_endpoint"}, signInCodes: {"device_code", "interval", "verification_uri"}, signInToken: {"access_token"}}
	for path, names := range members {
		for _, a := range hostile.Answers(newAnswers("http://gateway")[path], "http://elsewhere") {
			member, value, changed := strings.Cut(a.Name, " is ")
			if changed && !slices.Contains(names, member) || a.Name == "silent" || a.Name == "slow" { // a person ends the program
				continue
			}
			if fits(member, value) {
				continue
			}
			do := func(ctx context.Context, r *rig) *evidence {
				g := newFalseGateway()
				defer g.close()
				for _, real := range hostile.Answers(g.answers[path], g.elsewhere.URL) {
					if real.Name == a.Name {
						h := hostile.New()
						h.Answer, g.hostile[path] = real, h
					}
				}
				return g.logIn(ctx, r, patience)
			}
			all = append(all, attack{name: "terminal/answer" + path + "/" + a.Name, do: do, holds: []oracle{failsToSignIn}})
		}
	}
	return all
}

// fits reports whether a program may use a value of a member: any text as a code or a token, and the default in
// place of no interval.
func fits(member, value string) bool {
	text := strings.HasPrefix(value, `"\"`) && value != `"\"\""`
	return member == "device_code" && text || member == "access_token" && text && !strings.Contains(value, "u001b") || member == "interval" && slices.Contains([]string{`"null"`, `"0"`, "missing"}, value)
}
