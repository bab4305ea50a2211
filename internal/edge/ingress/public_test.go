package ingress

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// TestForwardedFor checks which address counts as the client's.
func TestForwardedFor(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for _, tt := range []struct{ name, peer, header, want string }{
		{"one proxy", "10.0.0.1:5", "192.0.2.1", "192.0.2.1"},
		{"two proxies", "10.0.0.1:5", "192.0.2.1, 10.0.0.2", "192.0.2.1"},
		{"a client that claims another address", "10.0.0.1:5", "127.0.0.1, 192.0.2.1", "192.0.2.1"},
		{"a peer that is no proxy", "192.0.2.9:5", "127.0.0.1", ""},
		{"IPv6 and a port", "[::1]:5", "[2001:db8::1]:443", "2001:db8::1"},
		{"IPv4 mapped to IPv6", "[::ffff:10.0.0.1]:5", "::ffff:192.0.2.1", "192.0.2.1"},
		{"not an address", "10.0.0.1:5", "192.0.2.1, unknown", ""},
		{"only proxies", "10.0.0.1:5", "10.0.0.2, 10.0.0.3", ""},
		{"no header", "10.0.0.1:5", "", ""},
		{"too many", "10.0.0.1:5", "192.0.2.1" + strings.Repeat(",10.0.0.2", maxForwarded), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.RemoteAddr = tt.peer
			if tt.header != "" {
				r.Header.Set("X-Forwarded-For", tt.header)
			}
			got, ok := forwardedFor(trusted, r)
			if ok != (tt.want != "") || ok && got.String() != tt.want {
				t.Errorf("%v %v", got, ok)
			}
		})
	}
}

// TestPublicHandler checks the path prefix, CORS and the client's address on one handler.
func TestPublicHandler(t *testing.T) {
	h := Public{BasePath: "/llm", Origins: []string{"https://app.example.com"}, Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}.Handler(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path, " ", r.RemoteAddr) }))
	for _, tt := range []struct {
		method, path string
		headers      []string
		want         string // status, allowed origin, body
	}{
		{"GET", "/llm/v1/models", nil, "200  /v1/models 192.0.2.1:1234"},
		{"GET", "/llm/v1/models", []string{"X-Forwarded-For", "198.51.100.7"}, "200  /v1/models 198.51.100.7:0"},
		{"GET", "/v1/models", nil, "404  paths of this gateway begin with /llm\n"},
		{"GET", "/llm", nil, "200  / 192.0.2.1:1234"},
		{"GET", "/llmx/v1", nil, "404  paths of this gateway begin with /llm\n"},
		{"GET", "/ready", nil, "200  /ready 192.0.2.1:1234"},
		{"GET", "/healthz", nil, "200  /healthz 192.0.2.1:1234"},
		{"GET", "/llm/ready", nil, "200  /ready 192.0.2.1:1234"},
		{"GET", "/llm/x", []string{"Origin", "https://app.example.com"}, "200 https://app.example.com /x 192.0.2.1:1234"},
		{"GET", "/llm/x", []string{"Origin", "https://evil.example.com"}, "200  /x 192.0.2.1:1234"},
		{"OPTIONS", "/llm/x", []string{"Origin", "https://app.example.com", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization"}, "204 https://app.example.com "},
		{"OPTIONS", "/llm/x", []string{"Origin", "https://evil.example.com", "Access-Control-Request-Method", "POST"}, "200  /x 192.0.2.1:1234"},
	} {
		r := httptest.NewRequest(tt.method, tt.path, http.NoBody)
		for i := 0; i < len(tt.headers); i += 2 {
			r.Header.Set(tt.headers[i], tt.headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := fmt.Sprintf("%d %s %s", w.Code, w.Header().Get("Access-Control-Allow-Origin"), w.Body); got != tt.want {
			t.Errorf("%s %s %v: %q, want %q", tt.method, tt.path, tt.headers, got, tt.want)
		}
		if w.Code == http.StatusNoContent && w.Header().Get("Access-Control-Allow-Headers") != "authorization" {
			t.Error(w.Header())
		}
	}
}

func TestPathsBefore(t *testing.T) {
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	h := Public{BasePath: "/llm"}.Handler(Paths{"/a/b": says("own")}.Before(says("rest")))
	for path, want := range map[string]string{"/llm/a/b": "own", "/llm/a/b?c": "own", "/llm/a/b/": "rest", "/llm/a%2Fb": "rest", "/llm/a": "rest", "/ready": "rest"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if got := w.Body.String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
