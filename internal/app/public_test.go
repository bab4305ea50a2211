package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
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
	h := publicHandler(&config.Config{BasePath: "/llm", Origins: []string{"https://app.example.com"}, Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
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

// TestMetricsPort checks that the metrics port serves metrics and probes and nothing
// else.
func TestMetricsPort(t *testing.T) {
	g := start(t, minimal+"metrics: {listen: \"127.0.0.1:0\"}\n", quick())
	base := strings.TrimSuffix(g.metricsURL, "/metrics")
	for path, want := range map[string]int{"/metrics": 200, "/live": 200, "/ready": 200, "/v1/models": 404, "/api/v1/keys": 404, "/explain": 404} {
		if status, body := g.get(t, base+path); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestShutdownNotice checks that readiness fails during the notice while requests are
// still served, under each of its names.
func TestShutdownNotice(t *testing.T) {
	// On a busy machine the checks may outlast the notice; then a longer one is tried.
	for notice := 2 * time.Second; ; notice *= 4 {
		if problems, took := checkNotice(t, notice); took < notice {
			for _, p := range problems {
				t.Error(p)
			}
			return
		}
	}
}

// checkNotice stops a gateway and returns what was wrong during the notice, and how long the
// checks took.
func checkNotice(t *testing.T, notice time.Duration) (problems []string, took time.Duration) {
	p := quick()
	p.notice = notice
	g := start(t, minimal+"metrics: {listen: \"127.0.0.1:0\"}\n", p)
	check := func(when, url string, want int) {
		resp, err := g.client.Get(url)
		if err != nil {
			problems = append(problems, err.Error())
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			problems = append(problems, fmt.Sprintf("%s %s: status %d, want %d", url, when, resp.StatusCode, want))
		}
	}
	probes := []string{g.url + "/health", g.url + "/ready", g.url + "/readyz", g.url + "/health/readiness", strings.Replace(g.metricsURL, "/metrics", "/ready", 1)}
	for _, u := range probes {
		check("before", u, http.StatusOK)
	}
	began := time.Now()
	g.stop()
	g.log.waitFor(t, `"msg":"draining"`, 1)
	for _, u := range probes {
		check("during the notice", u, http.StatusServiceUnavailable)
	}
	for _, path := range []string{"/live", "/healthz", "/health/liveliness", "/v1/models"} {
		check("during the notice", g.url+path, http.StatusOK)
	}
	return problems, time.Since(began)
}

// TestShutdownSettings checks that the settings are the durations of a shutdown.
func TestShutdownSettings(t *testing.T) {
	cfg, err := config.Parse("x.yaml", []byte(minimal+"shutdown: {notice: 3s, drain: 9m}\n"), noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if p := usualPace(cfg.Shutdown); p.notice != 3*time.Second || p.drain != 9*time.Minute || p.finish != 10*time.Minute {
		t.Errorf("%+v", p)
	}
}
