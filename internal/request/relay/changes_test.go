package relay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestFailoverIsLogged checks that requests that failed over name the failed attempts in
// their log lines, and that the target's ejection and the model's fallback give one line
// each.
func TestFailoverIsLogged(t *testing.T) {
	p := newPair(t)
	p.up.Answer(upstreamtest.JSON(503, `{"error":{"message":"secret prompt","type":"server_error","code":"engine_down"}}`))
	p.two.Answer(good("fine"))
	const requests = 12
	for range requests {
		if _, body, err := p.post(t, chatPath, pairStream); err != nil || !strings.Contains(body, "fine") {
			t.Fatal(err, body)
		}
	}
	count := func(text string) int { return strings.Count(p.log.String(), text) }
	eventually(t, "all exchanges are logged", func() bool { return count(`"msg":"exchange"`) == requests })
	for text, want := range map[string]int{
		`"level":"WARN","msg":"target out of service","target":"up/x","reason":"ejected","error":"HTTP 503","until":"20`: 1,
		`"level":"WARN","msg":"model served by a fallback target","model":"m","target":"two/x"`:                          1,
		`"attempts":2,"failed":["up/x 503 overloaded engine_down"]`:                                                      5, // then it is ejected
		`"client":"127.0.0.1"`: requests,
		"secret prompt":        0,
	} {
		if got := count(text); got != want {
			t.Errorf("%d lines have %s, want %d\n%s", got, text, want, p.log)
		}
	}
}

// TestUpstreamCodeIsLogged checks that the line of an error that is relayed unchanged has
// the upstream's own code: an exhausted account is not a rate limit.
func TestUpstreamCodeIsLogged(t *testing.T) {
	g := newGateway(t)
	const body = `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`
	g.up.Answer(upstreamtest.JSON(429, body))
	if resp, got, err := g.post(t, chatPath, plainRequest); err != nil || resp.StatusCode != http.StatusTooManyRequests || got != body {
		t.Fatal(err, resp.Status, got)
	}
	g.wantLine(t, `"status":429`, `"error_kind":"quota"`, `"error_code":"insufficient_quota"`, `"failed":["up/real-chat 429 quota insufficient_quota"]`)
}

// TestUnknownPathsAreRecorded checks that a request to an unknown path is answered with
// the likely one, logged and counted.
func TestUnknownPathsAreRecorded(t *testing.T) {
	g := newGateway(t)
	resp, body, _ := g.post(t, "/chat/completions", plainRequest)
	wantError(t, resp, body, http.StatusNotFound, "unknown_url")
	if !strings.Contains(body, "did you mean /v1/chat/completions?") {
		t.Error(body)
	}
	g.wantLine(t, `"endpoint":"unknown"`, `"status":404`, `"outcome":"client_error"`, `"error":"there is no endpoint POST /chat/completions; did you mean /v1/chat/completions?"`)
	g.wantMetrics(t, `isogloss_requests_total{dialect="openai-chat",endpoint="unknown",model="",outcome="client_error",provider="",status="404",stream="false"} 1`)
	resp, body = g.request(t, http.MethodGet, "/v1/v1/models", "", http.Header{})
	wantError(t, resp, body, http.StatusNotFound, "unknown_url")
	if !strings.Contains(body, "version twice") || !strings.Contains(body, "did you mean /v1/models?") {
		t.Error(body)
	}
}

// missing is the response of an upstream that does not have the target's model.
func missing(body string) upstreamtest.Script {
	return upstreamtest.JSON(http.StatusNotFound, body)
}

// TestMissingModelFailsOver checks that a target whose model does not exist fails over, and
// that it is logged and counted as what it is.
func TestMissingModelFailsOver(t *testing.T) {
	for name, body := range map[string]string{
		"by its code": `{"error":{"message":"gone","type":"invalid_request_error","code":"model_not_found"}}`,
		"by its name": `{"object":"error","message":"The model ` + "`x`" + ` does not exist.","type":"NotFoundError","code":404}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.up.Answer(missing(body))
			p.two.Answer(good("fine"))
			for range 2 {
				if _, got, err := p.post(t, chatPath, pairStream); err != nil || !strings.Contains(got, "fine") {
					t.Fatal(err, got)
				}
			}
			p.wantLine(t, `"outcome":"ok"`, `"failed":["up/x 404 upstream model_missing"]`)
			p.wantMetrics(t, `isogloss_upstream_errors_total{kind="model_missing",provider="up"} 2`)
			if got := strings.Count(p.log.String(), `"level":"WARN","msg":"target's model does not exist at its provider","target":"up/x"`); got != 1 {
				t.Errorf("%d lines name the missing model\n%s", got, p.log)
			}
		})
	}
}

// TestMissingModel checks who gets which error if no target has the model.
func TestMissingModel(t *testing.T) {
	const body = `{"error":{"message":"The model does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`
	p := newPair(t)
	p.up.Answer(missing(body))
	p.two.Answer(missing(body))
	resp, got, _ := p.post(t, chatPath, pairPlain)
	wantError(t, resp, got, http.StatusBadGateway, "model_missing")
	for _, want := range []string{"the model 'm'", "'two' has no model 'x'"} {
		if !strings.Contains(got, want) {
			t.Errorf("the error lacks %q: %s", want, got)
		}
	}
	if n := len(p.up.Requests()) + len(p.two.Requests()); n != 2 {
		t.Errorf("%d attempts, want one for each target", n)
	}
	p.wantLine(t, `"outcome":"upstream_error"`, `"error_code":"model_missing"`)

	g := newGateway(t)
	g.up.Answer(missing(body))
	resp, got, _ = g.post(t, chatPath, strings.Replace(plainRequest, "real-chat", "any/thing", 1))
	if resp.StatusCode != http.StatusNotFound || got != body {
		t.Errorf("a client that named the provider's model got %s %s", resp.Status, got)
	}
	g.wantLine(t, `"outcome":"client_error"`, `"error_code":"model_not_found"`)
}
