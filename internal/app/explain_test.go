package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
)

// A running gateway is asked, and tells what it has learned of its targets.
func TestExplainAsksTheRunningGateway(t *testing.T) {
	bad, good := upstreamtest.New(t), upstreamtest.New(t)
	bad.Answer(upstreamtest.JSON(http.StatusUnauthorized, `{"error":{"message":"no"}}`))
	good.Answer(echo)
	g := start(t, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
providers:
  bad: {protocol: openai-chat, base_url: %q, api_key: k-bad}
  good: {protocol: openai-chat, base_url: %q, api_key: k-good}
models:
  m: {targets: [bad/x, good/y]}
`, bad.BaseURL(), good.BaseURL()), quick())
	resp, err := g.ask("m", false)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	admin := strings.TrimSuffix(strings.TrimPrefix(g.metricsURL, "http://"), "/metrics")
	e, err := askRunning(context.Background(), admin, "openai-chat", "m", []byte(`{"model":"m"}`))
	if err != nil || len(e.Targets) != 2 {
		t.Fatalf("%+v %v", e, err)
	}
	first, last := e.Targets[0], e.Targets[1]
	if first.Target != "good/y" || first.Place != 1 || first.Why != "" || first.FirstToken == "" {
		t.Errorf("%+v", first)
	}
	if last.Target != "bad/x" || last.Place != 0 || last.Why != "credential refused" || last.Until.IsZero() {
		t.Errorf("%+v", last)
	}
	for _, c := range []struct{ dialect, model, says string }{
		{"openai-chat", "nothing", "does not exist"}, {"klingon", "m", "dialect"}, {"gemini", "a b", "does not exist"},
	} {
		if _, err := askRunning(context.Background(), admin, c.dialect, c.model, []byte(`{"model":"nothing"}`)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A web page that found the address is not answered.
func TestExplainIsNotForWebPages(t *testing.T) {
	up := upstreamtest.New(t)
	g := start(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nproviders: {u: {protocol: openai-chat, base_url: %q, auth: none}}\nmodels: {m: {targets: [u/x]}}\n", up.BaseURL()), quick())
	req, err := http.NewRequest(http.MethodPost, strings.TrimSuffix(g.metricsURL, "/metrics")+explainPath+"?dialect=openai-chat", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://evil.example")
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Error(resp.Status)
	}
}
