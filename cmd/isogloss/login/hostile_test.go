package login

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
)

const (
	honestDevice = `{"device_code":"d","user_code":"BCDF-GHJK","verification_uri":"URL/verify","verification_uri_complete":"URL/verify?user_code=x","expires_in":600,"interval":5}`
	honestToken  = `{"access_token":"a","token_type":"Bearer","refresh_token":"r","expires_in":3600,"email":"a@example.com"}`
)

// logInAt begins a sign-in and renews a token at a gateway, and returns what a person would read.
func logInAt(ctx context.Context, t *testing.T, url string, client *http.Client) (shown string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "logins.json")
	kept := `{"` + url + `":{"token":{"access_token":"a","refresh_token":"r","expiry":"2020-01-01T00:00:00Z"},"server":{"device_authorization_endpoint":"` + url + `/device","token_endpoint":"` + url + `/token"}}}`
	if err := os.WriteFile(file, []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &Logins{File: file, Client: client}
	flow, err := l.Start(ctx, url)
	if err == nil {
		shown = flow.URL + flow.Code
		ended, end := context.WithCancel(ctx)
		end() // nobody signs in
		_, err = flow.Wait(ended)
	}
	if err != nil {
		shown += err.Error()
	}
	token, err := l.Token(ctx, url)
	if err != nil {
		token = err.Error()
	}
	var got struct{ Keys []struct{ ID string } }
	if err := l.Call(ctx, url, http.MethodGet, "/v1/key", nil, &got); err != nil {
		shown += err.Error()
	}
	return shown + token
}

// TestHostileGateways signs in at gateways that answer anything: the program lives, reads little, shows
// nothing that a terminal obeys, and sends no token elsewhere.
func TestHostileGateways(t *testing.T) {
	var current atomic.Pointer[hostile.Server]
	var server *httptest.Server
	place := ""
	honest := func(path string) string {
		return strings.ReplaceAll(map[string]string{"/device": honestDevice, "/v1/key": `{"keys":[{"id":"k"}]}`, "/token": honestToken,
			"/.well-known/oauth-authorization-server": `{"device_authorization_endpoint":"URL/device","token_endpoint":"URL/token","revocation_endpoint":"URL/revoke"}`}[path], "URL", server.URL)
	}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == place {
			current.Load().ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, honest(r.URL.Path))
	}))
	defer server.Close()
	tried := 0
	for _, place = range []string{"/.well-known/oauth-authorization-server", "/device", "/token", "/v1/key"} {
		answers := func(elsewhere string) []hostile.Answer { return hostile.Answers(honest(place), elsewhere) }
		tried += hostile.Try(t, answers, func(ctx context.Context, h *hostile.Server) {
			current.Store(h)
			if shown := logInAt(ctx, t, server.URL, nil); !plain.IsLine(shown) {
				t.Errorf("%s %s: shows %q", place, h.Answer.Name, shown)
			}
		})
	}
	if tried < 300 {
		t.Errorf("%d answers", tried)
	}
}

// TestBadBeginnings begins sign-ins with answers on which the library panics.
func TestBadBeginnings(t *testing.T) {
	for _, device := range []string{`null`, strings.Replace(honestDevice, `"interval":5`, `"interval":-1`, 1), strings.Replace(honestDevice, `"interval":5`, `"interval":9223372036854775807`, 1)} {
		g := newGateway(t)
		g.device = device
		l := &Logins{File: filepath.Join(t.TempDir(), "logins.json")}
		if _, err := l.Start(t.Context(), g.URL); err == nil || !strings.Contains(err.Error(), "its answer") {
			t.Errorf("%s: %v", device, err)
		}
	}
}

// answers is a gateway that answers every request with one text.
type answers string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// FuzzGateway reads any text as the answers of a gateway.
func FuzzGateway(f *testing.F) {
	const at = "https://gateway.example.com"
	metadata := `{"device_authorization_endpoint":"URL/device","token_endpoint":"URL/token",`
	for _, seed := range []string{metadata + honestDevice[1:], metadata + honestToken[1:], `null`, metadata + `"error":"x\u001b[2J"}`} {
		f.Add(strings.ReplaceAll(seed, "URL", at))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if shown := logInAt(t.Context(), t, at, &http.Client{Transport: answers(text)}); !plain.IsLine(shown) {
			t.Errorf("shows %q", shown)
		}
	})
}
