package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	alertsFile = "../../deploy/prometheus/alerts.yaml"
	alertTests = "../../deploy/prometheus/alerts_test.yaml"
	runbook    = "../../docs/operations/runbook.md"
	dashboards = "../../deploy/grafana/*.json"
)

// alert is one rule of alertsFile.
type alert struct {
	Alert, Expr string
	Annotations struct {
		RunbookURL string `yaml:"runbook_url"`
	}
}

func readAlerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Groups) != 1 || len(file.Groups[0].Rules) < 10 {
		t.Fatal(err, file)
	}
	return file.Groups[0].Rules
}

// panel is one panel of a dashboard with its queries.
type panel struct {
	board, title string
	queries      []string
}

func readPanels(t *testing.T) (list []panel) {
	t.Helper()
	files, err := filepath.Glob(dashboards)
	if err != nil || len(files) < 4 {
		t.Fatal(err, files)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil || len(board.Panels) == 0 {
			t.Fatal(name, err)
		}
		for _, p := range board.Panels {
			one := panel{board: board.Title, title: p.Title}
			for _, target := range p.Targets {
				// Grafana replaces it by four scrape intervals or more.
				one.queries = append(one.queries, strings.ReplaceAll(target.Expr, "$__rate_interval", "30s"))
			}
			list = append(list, one)
		}
	}
	return list
}

// tool returns the path of a program of Prometheus, which internal/test/storetest/setup.sh
// installs.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip("not installed; run make stores: ", err)
	}
	return path
}

// TestAlertRules checks the rules with promtool, that its tests fire every alert, and that
// every alert has a section of the runbook.
func TestAlertRules(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", alertTests}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	tests, err := os.ReadFile(alertTests)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		sections = append(sections, m[1])
	}
	var names []string
	for _, a := range readAlerts(t) {
		names = append(names, a.Alert)
		if !strings.Contains(string(tests), "alertname: "+a.Alert+"\n        exp_alerts:\n          - exp_labels:") {
			t.Errorf("no test fires %s", a.Alert)
		}
		if !strings.HasSuffix(a.Annotations.RunbookURL, "/docs/operations/runbook.md#"+strings.ToLower(a.Alert)) {
			t.Errorf("%s links to %s", a.Alert, a.Annotations.RunbookURL)
		}
	}
	if !slices.Equal(names, sections) {
		t.Errorf("the alerts and the sections of the runbook differ\nalerts   %v\nsections %v", names, sections)
	}
}

// prometheus is a running Prometheus that scrapes a gateway.
type prometheus struct{ url string }

func startPrometheus(t *testing.T, metricsURL, every string) prometheus {
	t.Helper()
	path, dir := tool(t, "prometheus"), t.TempDir()
	addresses, err := testrig.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(metricsURL)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("scrape_configs: [{ job_name: isogloss, scrape_interval: %[1]s, scrape_timeout: %[1]s, static_configs: [{ targets: [%[2]q] }] }]\n", every, target.Host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addresses[0])
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the log of Prometheus:\n%s", log.String())
		}
	})
	return prometheus{"http://" + addresses[0]}
}

// query returns the samples of a query that are numbers. It returns nil while Prometheus
// does not respond.
func (p prometheus) query(t *testing.T, query string) (samples []string) {
	t.Helper()
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return nil // it is starting
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil // it is starting
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", query, answer.Error)
	}
	for _, r := range answer.Data.Result {
		if text := fmt.Sprint(r.Value[1]); text != "NaN" {
			samples = append(samples, text)
		}
	}
	return samples
}

// fleetUpstream is an upstream whose models behave as their names say.
func fleetUpstream(t *testing.T) string {
	t.Helper()
	fail := func(w http.ResponseWriter, status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"no","type":"e","code":%q}}`, code)
	}
	const usage = `"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":40}}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Model  string
			Stream bool
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			t.Error(err)
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Ratelimit-Limit-Requests", "1000")
		h.Set("X-Ratelimit-Remaining-Requests", "900")
		switch {
		case ask.Model == "down":
			fail(w, http.StatusServiceUnavailable, "engine_down")
		case ask.Model == "gone":
			fail(w, http.StatusNotFound, "model_not_found")
		case ask.Model == "locked":
			fail(w, http.StatusUnauthorized, "invalid_api_key")
		case ask.Model == "endless":
			h.Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case ask.Stream:
			h.Set("Content-Type", "text/event-stream")
			for range 3 {
				fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n")
				_ = http.NewResponseController(w).Flush()
			}
			fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"+"data: {\"choices\":[],"+usage+"}\n\ndata: [DONE]\n\n")
		default:
			fmt.Fprint(w, `{"id":"c","object":"chat.completion","model":"good","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],`+usage+`}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// TestDashboards runs a real Prometheus on a gateway under load. Every query of every
// panel must return data, no alert may be due while the gateway is healthy, and those for
// failing upstreams must be due when they fail.
func TestDashboards(t *testing.T) {
	alerts, panels := readAlerts(t), readPanels(t)
	configuration := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
node: n1
data: %q
store: sqlite
prices: { models: { "up/*": { input: 1, output: 10 } } }
providers:
  up: { protocol: openai-chat, base_url: %q }
models:
  fast: { targets: [up/good] }
  second: { targets: [up/down, up/good] }
  retired: { targets: [up/gone, up/good] }
  locked: { targets: [up/locked, up/good] }
  endless: { targets: [up/endless] }
`, t.TempDir(), fleetUpstream(t))
	keys := keyringOf(t, configuration)
	g := start(t, configuration, quick())
	key, limited := keys.must(t, quota.Limit{}), keys.must(t, quota.Limit{Requests: 1})
	eventually(t, "the gateway knows the keys", func() bool {
		status, _, _ := g.try(t, "fast", key.Text)
		return status == http.StatusOK
	})
	p := startPrometheus(t, g.metricsURL, "1s")
	load := dashboardLoad{g, key.Text, limited.Text}

	poll(t, "Prometheus has scraped a healthy gateway", func() bool {
		load.healthy(t)
		n := p.query(t, `count_over_time(isogloss_requests_total{model="fast",outcome="ok",stream="true"}[5m])`)
		return len(n) > 0 && len(n[0]) > 0 && n[0] != "1" && n[0] != "2"
	})
	for _, a := range alerts {
		if got := p.query(t, a.Expr); len(got) > 0 {
			t.Errorf("%s is due on a healthy gateway: %v", a.Alert, got)
		}
	}

	due := []string{"IsoglossTargetOutOfService", "IsoglossCredentialRefused", "IsoglossModelMissing"}
	var missing []string
	poll(t, "all panels have data and the alerts are due", func() bool {
		load.healthy(t)
		load.failing(t)
		missing = missing[:0]
		for _, one := range panels {
			for _, q := range one.queries {
				if len(p.query(t, q)) == 0 {
					missing = append(missing, one.board+", "+one.title+": "+q)
				}
			}
		}
		for _, a := range alerts {
			if slices.Contains(due, a.Alert) && len(p.query(t, a.Expr)) == 0 {
				missing = append(missing, a.Alert)
			}
		}
		return len(missing) == 0
	}, func() string { return strings.Join(missing, "\n") })
}

// poll waits until a condition that Prometheus evaluates is true.
func poll(t *testing.T, what string, done func() bool, explain ...func() string) {
	t.Helper()
	if err := testrig.Until(t.Context(), 3*patience, what, done); err != nil {
		for _, e := range explain {
			t.Log(e())
		}
		t.Fatal(err)
	}
}

// dashboardLoad sends the requests that the panels need.
type dashboardLoad struct {
	g            *gateway
	key, limited secret.String
}

// send sends a request and reads its response.
func (l dashboardLoad) send(ctx context.Context, path, body string, key secret.String) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.g.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key.Reveal())
	resp, err := l.g.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (l dashboardLoad) must(t *testing.T, path, body string, key secret.String) {
	t.Helper()
	if err := l.send(t.Context(), path, body, key); err != nil {
		t.Fatal(err)
	}
}

const chat = "/v1/chat/completions"

// healthy sends requests that succeed.
func (l dashboardLoad) healthy(t *testing.T) {
	t.Helper()
	l.must(t, chat, `{"model":"fast","messages":[{"role":"user","content":"hi"}]}`, l.key)
	l.must(t, chat, `{"model":"fast","stream":true,"messages":[{"role":"user","content":"hi"}]}`, l.key)
	l.must(t, "/v1/messages", `{"model":"fast","max_tokens":9,"top_k":5,"messages":[{"role":"user","content":"hi"}]}`, l.key) // loses top_k
}

// failing sends requests whose first target fails, one above its key's limit, and one
// whose client leaves.
func (l dashboardLoad) failing(t *testing.T) {
	t.Helper()
	for _, model := range []string{"second", "retired", "locked"} {
		l.must(t, chat, `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`, l.key)
	}
	l.must(t, chat, `{"model":"fast","messages":[{"role":"user","content":"hi"}]}`, l.limited)
	ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	if l.send(ctx, chat, `{"model":"endless","stream":true,"messages":[{"role":"user","content":"hi"}]}`, l.key) == nil {
		t.Error("an endless stream has ended")
	}
}
