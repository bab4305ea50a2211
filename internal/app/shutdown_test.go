package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
)

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
