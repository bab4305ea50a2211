package login

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gateway is the token endpoint of a gateway. A refresh token works once.
type gateway struct {
	*httptest.Server
	renewals atomic.Int32
	metadata string // replaces the metadata
	device   string // replaces the answer that begins a sign-in
	tokens   string // replaces the answer with tokens
	ended    atomic.Bool
	status   atomic.Int32 // of renewals, if set
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		if g.metadata != "" {
			_, _ = fmt.Fprint(w, g.metadata)
			return
		}
		_, _ = fmt.Fprintf(w, `{"device_authorization_endpoint":"%[1]s/device","token_endpoint":"%[1]s/token"}`, g.URL)
	})
	mux.HandleFunc("POST /device", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if g.device != "" {
			_, _ = fmt.Fprint(w, strings.ReplaceAll(g.device, "URL", g.URL))
			return
		}
		_, _ = fmt.Fprintf(w, `{"device_code":"d","user_code":"BCDF-GHJK","verification_uri":"%s/verify","expires_in":600,"interval":1}`, g.URL)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if status := int(g.status.Load()); status != 0 {
			w.WriteHeader(status)
			return
		}
		if g.tokens != "" {
			if strings.Contains(g.tokens, `"error"`) {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = fmt.Fprint(w, g.tokens)
			return
		}
		n := g.renewals.Load()
		if r.PostFormValue("grant_type") == "refresh_token" && (g.ended.Load() || r.PostFormValue("refresh_token") != fmt.Sprint("r", n)) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return
		}
		n = g.renewals.Add(1)
		_, _ = fmt.Fprintf(w, `{"access_token":"a%d","token_type":"Bearer","refresh_token":"r%[1]d","expires_in":%d}`, n, map[bool]int{true: 30, false: 3600}[n == 1])
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

func signIn(t *testing.T, g *gateway) *Logins {
	t.Helper()
	l := &Logins{File: filepath.Join(t.TempDir(), "isogloss", "logins.json")}
	flow, err := l.Start(t.Context(), g.URL)
	if err != nil {
		t.Fatal(err)
	}
	if flow.Code != "BCDF-GHJK" || flow.URL != g.URL+"/verify" {
		t.Errorf("%+v", flow)
	}
	if _, err := flow.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRenewOnce checks that processes that need a token at the same time renew it once, because a
// refresh token works once.
func TestRenewOnce(t *testing.T) {
	g := newGateway(t)
	l := signIn(t, g) // the first token is valid for 30 seconds
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if token, err := (&Logins{File: l.File}).Token(t.Context(), ""); err != nil || token != "a2" {
				t.Errorf("%q, %v", token, err)
			}
		})
	}
	all.Wait()
	if info, err := os.Stat(l.File); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file can be read by others: %v, %v", info.Mode(), err)
	}
}

// TestEnded checks what a person reads when the sign-in has ended, and that an outage ends nothing.
func TestEnded(t *testing.T) {
	g := newGateway(t)
	l := signIn(t, g)
	g.status.Store(http.StatusServiceUnavailable)
	if _, err := l.Token(t.Context(), g.URL); err == nil || errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
	g.status.Store(0)
	g.ended.Store(true)
	if _, err := l.Token(t.Context(), g.URL); !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "isogloss login "+g.URL) {
		t.Errorf("%v", err)
	}
}

// TestStaleLock checks that the lock of a killed process does not last.
func TestStaleLock(t *testing.T) {
	g := newGateway(t)
	l := signIn(t, g)
	lock := l.File + ".lock"
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * lockStale)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	if token, err := l.Token(t.Context(), ""); err != nil || token != "a2" {
		t.Errorf("%q, %v", token, err)
	}
}

// TestForeignAddresses checks that tokens are never sent to another server.
func TestForeignAddresses(t *testing.T) {
	g := newGateway(t)
	l := &Logins{File: filepath.Join(t.TempDir(), "logins.json")}
	for _, metadata := range []string{
		`{"device_authorization_endpoint":"` + g.URL + `/device","token_endpoint":"https://evil.example/token"}`,
		`{"device_authorization_endpoint":"https://evil.example/device","token_endpoint":"` + g.URL + `/token"}`,
		`{"device_authorization_endpoint":"` + g.URL + `/device","token_endpoint":"` + g.URL + `/token","revocation_endpoint":"https://evil.example/"}`,
		`{}`, `[]`, `<html>`, `{"device_authorization_endpoint":"` + g.URL + `/device","token_endpoint":"` + g.URL + `/token"}{}`,
	} {
		g.metadata = metadata
		if _, err := l.Start(t.Context(), g.URL); err == nil {
			t.Errorf("%s is accepted", metadata)
		}
	}
	for _, gateway := range []string{"http://gateway.example.com", "gateway.example.com", "ftp://x", "https://u:p@gateway.example.com", ""} {
		if _, err := l.Start(t.Context(), gateway); err == nil {
			t.Errorf("%q is accepted", gateway)
		}
	}
}

// TestHostileTexts signs in at a gateway whose texts would write to the terminal or lead elsewhere.
func TestHostileTexts(t *testing.T) {
	const begin = `{"device_code":"d","user_code":"AB\u001b[2J\u202eCD","verification_uri":"URL/verify","expires_in":600,"interval":1}`
	for name, c := range map[string]struct{ device, tokens, want string }{
		"code and mail":   {begin, `{"access_token":"a","token_type":"Bearer","email":"a\u001b]0;x\u0007\n@b"}`, ""},
		"token":           {begin, `{"access_token":"a\u001b[2J","token_type":"Bearer"}`, "unprintable"},
		"error":           {begin, `{"error":"x\u001b[2J","error_description":"\u001b[31mroot\u202e"}`, "root"},
		"another host":    {`{"device_code":"d","user_code":"A","verification_uri":"https://evil.example.com/verify","expires_in":600}`, "", "another address"},
		"another link":    {`{"device_code":"d","user_code":"A","verification_uri":"URL/verify","verification_uri_complete":"javascript:alert(1)","expires_in":600}`, "", "another address"},
		"user in the URL": {`{"device_code":"d","user_code":"A","verification_uri":"URL@evil.example.com/verify","expires_in":600}`, "", "another address"},
		"escape in a URL": {`{"device_code":"d","user_code":"A","verification_uri":"URL/\u202everify","expires_in":600}`, "", "another address"},
	} {
		g := newGateway(t)
		g.device, g.tokens = c.device, c.tokens
		l := &Logins{File: filepath.Join(t.TempDir(), "logins.json")}
		flow, err := l.Start(t.Context(), g.URL)
		shown := ""
		if err == nil {
			var mail string
			mail, err = flow.Wait(t.Context())
			shown = flow.URL + flow.Code + mail
		}
		if err != nil {
			shown += err.Error()
		}
		if (err == nil) != (c.want == "") || !strings.Contains(shown, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if strings.ContainsAny(shown, "\x1b\x07\n\u202e") {
			t.Errorf("%s: shows %q", name, shown)
		}
	}
}
