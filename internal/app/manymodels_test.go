package app

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestMetricsOfManyModels checks the number of series on the page of a gateway with
// 20,000 models of which 2,000 are used, and that Prometheus scrapes it.
func TestMetricsOfManyModels(t *testing.T) {
	tool(t, "prometheus")
	var b strings.Builder
	fmt.Fprintf(&b, "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nlog: { level: info }\nproviders:\n  up: { protocol: openai-chat, base_url: %q }\nmodels:\n", fleetUpstream(t))
	for i := range 20_000 {
		fmt.Fprintf(&b, "  m%d: { targets: [up/good%d] }\n", i, i)
	}
	g := start(t, b.String(), quick())
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := worker; i < 2000; i += 4 {
				resp, err := g.ask("m"+strconv.Itoa(i*10), i%8 >= 4)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body) // the status is checked
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("status %d", resp.StatusCode)
				}
			}
		})
	}
	wait.Wait()
	_, page := g.get(t, g.metricsURL)
	if series := strings.Count("\n"+page, "\nisogloss_"); series < 1000 || series > 25_000 {
		t.Errorf("%d series", series)
	}
	p := startPrometheus(t, g.metricsURL, "20s") // also the time that a scrape may take
	var sum []string
	poll(t, "Prometheus has scraped the gateway", func() bool {
		sum = p.query(t, `sum(isogloss_requests_total{outcome="ok"})`)
		return len(sum) == 1 && sum[0] == "2000"
	}, func() string { return fmt.Sprint(sum, p.query(t, "up"), p.query(t, "scrape_duration_seconds")) })
	if n := p.query(t, `isogloss_requests_total{model="other",provider="up",stream="false",outcome="ok"}`); len(n) != 1 {
		t.Errorf("the requests of the other models are %v", n)
	}
	t.Log(p.query(t, `scrape_samples_scraped`), p.query(t, `scrape_duration_seconds`))
}
