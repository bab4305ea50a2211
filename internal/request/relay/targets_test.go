package relay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestWorkersShareTheLabelsOfTheirPool checks that the metrics of discovered workers are
// labelled with the pool's name, so that thousands of workers add no series, and that the
// log names the worker.
func TestWorkersShareTheLabelsOfTheirPool(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(200, plainResponse))
	pool := &route.Route{Name: "m", Balance: balance.Weighted}
	for i := range 4096 {
		worker := *g.provider
		worker.Name, worker.Workers = fmt.Sprintf("pod-%d", i), "discovered/m"
		pool.Targets = append(pool.Targets, route.Target{Provider: &worker, Model: "x", Weight: 1, Timeouts: worker.Timeouts})
	}
	g.state.Routes = route.New(append(g.routes(), pool))
	g.relay.Use(g.state)
	for range 100 {
		if resp, body, _ := g.post(t, chatPath, pairPlain); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, body)
		}
	}
	if resp, body, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, body)
	}
	eventually(t, "all requests are logged", func() bool { return strings.Count(g.log.String(), `"target":"pod-`) == 100 })
	metrics := g.metrics()
	for _, want := range []string{
		`isogloss_requests_total{dialect="openai-chat",endpoint="chat_completions",model="m",outcome="ok",provider="discovered/m",status="200",stream="false"} 100`,
		`isogloss_target_ready{target="discovered/m"} 1`,
		`isogloss_requests_in_flight{model="real-chat",provider="up"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	if strings.Contains(metrics, "pod-") {
		t.Error("a worker's name is a label")
	}
}

// TestForbiddenTargetCoolsDown checks that a 403 response is retried on the next target
// and that several in a row cool the target down, unless they all concern one of several
// client keys.
func TestForbiddenTargetCoolsDown(t *testing.T) {
	keys := func(p *pair) {
		p.state.Keys = access.NewKeys([]access.Key{{Secret: "sk-a", Criticality: "normal"}, {Secret: "sk-b", Criticality: "normal"}})
	}
	noKeys := func(*pair) {}
	both := []string{"sk-a", "sk-b"}
	for name, c := range map[string]struct {
		keys   func(*pair)
		before []string // keys with a successful request before
		denied []string // keys whose requests get a 403, in this order
		sent   int      // requests of 30 that reach the forbidden target
	}{
		"without keys":         {noKeys, nil, []string{""}, 5},
		"one key of its own":   {keys, nil, []string{"sk-a"}, 5},
		"two keys":             {keys, both, both, 5},
		"one key of those two": {keys, both, []string{"sk-a"}, 30},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, c.keys)
			p.up.Answer(upstreamtest.JSON(200, plainResponse))
			p.two.Answer(upstreamtest.JSON(200, plainResponse))
			for _, key := range c.before {
				if resp, body, _ := p.post(t, chatPath, pairPlain, "Authorization", "Bearer "+key); resp.StatusCode != http.StatusOK {
					t.Fatal(resp.Status, body)
				}
			}
			p.up.Answer(upstreamtest.JSON(403, `{"error":{"message":"not for you","code":"model_not_allowed"}}`))
			for i := range 30 {
				resp, body, _ := p.post(t, chatPath, pairPlain, "Authorization", "Bearer "+c.denied[i%len(c.denied)])
				if resp.StatusCode != http.StatusOK {
					t.Fatal(resp.Status, body)
				}
			}
			if got := len(p.up.Requests()) - len(c.before); got != c.sent {
				t.Errorf("%d of 30 requests reached the forbidden target, want %d", got, c.sent)
			}
		})
	}
}
