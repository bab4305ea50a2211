package signin

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/people/identity"
	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
)

const (
	honestDocument = `{"issuer":"URL","authorization_endpoint":"URL/authorize","token_endpoint":"URL/token","jwks_uri":"URL/keys","revocation_endpoint":"URL/revoke",
		"id_token_signing_alg_values_supported":["EdDSA"],"token_endpoint_auth_methods_supported":["client_secret_basic"]}`
	honestTokens = `{"access_token":"a","id_token":"i","token_type":"Bearer","refresh_token":"r","expires_in":3600,"scope":"openid"}`
)

// askProvider makes every call of the gateway to an identity provider.
func askProvider(ctx context.Context, url string, client *http.Client, idToken bool) (all []tokens) {
	p := &provider{o: &Options{Issuer: url, Client: "gateway", Secret: "secret-of-test", IDToken: idToken}, client: client}
	keep := func(t tokens, err error) {
		if err == nil {
			all = append(all, t)
		}
	}
	if t, err := p.exchange(ctx, url+"/callback", "code", "verifier"); err == nil {
		keep(p.tokens(t))
	}
	if t, err := p.refresh(ctx, netip.Addr{}, "refresh"); err == nil {
		keep(p.tokens(t))
	}
	_ = p.revoke(ctx, netip.Addr{}, "token") // whatever it answers
	return all
}

// TestHostileProviders signs in at identity providers that answer anything: the process lives, reads
// little, and sends nothing elsewhere.
func TestHostileProviders(t *testing.T) {
	var current atomic.Pointer[hostile.Server]
	var server *httptest.Server
	place := ""
	honest := map[string]string{"/.well-known/openid-configuration": honestDocument, "/token": honestTokens, "/revoke": `{"ok":true}`}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == place {
			current.Load().ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(honest[r.URL.Path], "URL", server.URL))
	}))
	defer server.Close()
	client, err := identity.NewClient("")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for place = range honest {
		answers := func(elsewhere string) []hostile.Answer {
			return hostile.Answers(strings.ReplaceAll(honest[place], "URL", server.URL), elsewhere)
		}
		tried += hostile.Try(t, answers, func(ctx context.Context, h *hostile.Server) {
			current.Store(h)
			for _, got := range askProvider(ctx, server.URL, client, false) {
				if got.Bearer == "" {
					t.Errorf("%s %s: no token, and no error", place, h.Answer.Name)
				}
			}
		})
	}
	if tried < 300 {
		t.Errorf("%d answers", tried)
	}
}

// answers is an identity provider that answers every request with one text.
type answers string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// FuzzProvider reads any text as the answers of an identity provider.
func FuzzProvider(f *testing.F) {
	const at = "https://idp.example.com"
	document := strings.ReplaceAll(honestDocument, "URL", at)
	f.Add(document[:len(document)-1] + "," + honestTokens[1:])
	f.Add(honestTokens)
	f.Add("null")
	f.Fuzz(func(t *testing.T, text string) {
		for _, idToken := range []bool{false, true} {
			for _, got := range askProvider(t.Context(), at, &http.Client{Transport: answers(text)}, idToken) {
				if got.Bearer == "" {
					t.Error("no token, and no error")
				}
			}
		}
	})
}
