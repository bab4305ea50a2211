package observe

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestCounts(t *testing.T) {
	o, _ := open(t, Options{})
	x := whole(o)
	has(t, o, `requests_in_flight{model="openai/*",provider="openai"} 1`)
	x.End()
	has(t, o,
		`requests_total{dialect="openai-chat",endpoint="chat_completions",model="openai/*",outcome="ok",provider="openai",status="200",stream="true"} 1`,
		`requests_in_flight{model="openai/*",provider="openai"} 0`,
		`request_duration_seconds_count{endpoint="chat_completions",model="openai/*",provider="openai",stream="true"} 1`,
		`upstream_first_byte_seconds_sum{model="openai/*",provider="openai"} 0.04`,
		`time_to_first_token_seconds_sum{model="openai/*",provider="openai"} 0.25`,
		`inter_token_latency_seconds_sum{model="openai/*",provider="openai"} 0.02`,
		`inter_token_latency_seconds_count{model="openai/*",provider="openai"} 1`,
		`tokens_total{kind="input",model="openai/*",provider="openai"} 10`,
		`tokens_total{kind="cache_read",model="openai/*",provider="openai"} 20`,
		`tokens_total{kind="cache_write",model="openai/*",provider="openai"} 30`,
		`tokens_total{kind="output",model="openai/*",provider="openai"} 40`,
		`tokens_total{kind="reasoning",model="openai/*",provider="openai"} 50`,
		`units_total{model="openai/*",provider="openai",unit="cache_write_1h"} 25`,
		`cancels_total{model="openai/*",provider="openai"} 0`,
		`bytes_total{direction="in"} 2000`,
		`bytes_total{direction="out"} 1000`,
		`stream_events_total 12`)
}

func TestEndCountsOnce(t *testing.T) {
	o, log := open(t, Options{})
	x := whole(o)
	x.End()
	x.End()
	x.Route("late", "late", x.Target) // no effect: the exchange has ended
	has(t, o,
		`requests_total{dialect="openai-chat",endpoint="chat_completions",model="openai/*",outcome="ok",provider="openai",status="200",stream="true"} 1`,
		`requests_in_flight{model="openai/*",provider="openai"} 0`,
		`bytes_total{direction="in"} 2000`)
	if strings.Contains(scrape(t, o), `"late"`) {
		t.Error("a route after the end is counted")
	}
	one(t, log)
}

func TestPanicBeforeTheAnswer(t *testing.T) {
	o, log := open(t, Options{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("End swallowed the panic")
			}
		}()
		x := begin(o)
		defer x.End()
		x.Route("m", "p", x.Target)
		panic("broken")
	}()
	has(t, o,
		`requests_total{dialect="openai-chat",endpoint="chat_completions",model="m",outcome="gateway_error",provider="p",status="0",stream="false"} 1`,
		`requests_in_flight{model="m",provider="p"} 0`)
	if l := one(t, log); l["level"] != "WARN" || l["error_kind"] != "internal" {
		t.Errorf("logged %v", l)
	}
}

func TestFailover(t *testing.T) {
	o, log := open(t, Options{})
	x := begin(o)
	x.Route("fast", "first", x.Target)
	x.Responded(503, x.start)
	x.Failed(&llm.Error{Kind: llm.Overloaded})
	x.Failed(&llm.Error{Kind: llm.Overloaded}) // no effect: the attempt has ended already
	x.Route("fast", "second", x.Target)
	has(t, o,
		`requests_in_flight{model="fast",provider="first"} 0`,
		`requests_in_flight{model="fast",provider="second"} 1`)
	x.Responded(200, x.start)
	x.Status, x.Attempts = 200, 2
	x.End()
	has(t, o,
		`upstream_errors_total{kind="overloaded",provider="first"} 1`,
		`requests_total{dialect="openai-chat",endpoint="chat_completions",model="fast",outcome="ok",provider="second",status="200",stream="false"} 1`,
		`requests_in_flight{model="fast",provider="second"} 0`)
	if strings.Contains(scrape(t, o), `isogloss_upstream_errors_total{kind="overloaded",provider="second"}`) {
		t.Error("the good attempt counted as an error")
	}
	if l := one(t, log); l["upstream_id"] != nil || l["provider"] != "second" {
		t.Errorf("logged facts of the failed attempt: %v", l)
	}
}

// TestLastFailureCountsOnce checks that the failure of the last attempt counts once,
// whether the relay calls Failed or only End, and that it counts as an upstream error
// even for a 429.
func TestLastFailureCountsOnce(t *testing.T) {
	for _, told := range []bool{true, false} {
		o, log := open(t, Options{})
		x := begin(o)
		x.Route("m", "p", x.Target)
		x.Responded(429, x.start)
		if told {
			x.Failed(&llm.Error{Kind: llm.RateLimit})
		}
		x.Err = &llm.Error{Kind: llm.RateLimit, Message: "slow down"}
		x.End()
		has(t, o,
			`upstream_errors_total{kind="rate_limit",provider="p"} 1`,
			`requests_total{dialect="openai-chat",endpoint="chat_completions",model="m",outcome="upstream_error",provider="p",status="429",stream="false"} 1`)
		if l := one(t, log); l["upstream_status"] != 429.0 {
			t.Errorf("logged %v", l)
		}
	}
}

func TestCancelled(t *testing.T) {
	o, _ := open(t, Options{})
	x := begin(o)
	x.Route("m", "p", x.Target)
	x.Err = &llm.Error{Kind: llm.Cancelled, Message: "the client went away"}
	x.End()
	early := begin(o) // the client disconnected before a route was found
	early.Status = 499
	early.End()
	has(t, o,
		`cancels_total{model="m",provider="p"} 1`,
		`cancels_total{model="",provider=""} 1`,
		`requests_total{dialect="openai-chat",endpoint="chat_completions",model="m",outcome="cancelled",provider="p",status="499",stream="false"} 1`)
	if strings.Contains(scrape(t, o), "isogloss_upstream_errors_total{") {
		t.Error("a cancel counted as an upstream's error")
	}
}

func TestCancelledAttemptIsNoUpstreamError(t *testing.T) {
	o, _ := open(t, Options{})
	x := begin(o)
	x.Route("m", "p", x.Target)
	x.Failed(&llm.Error{Kind: llm.Cancelled})
	x.Err = &llm.Error{Kind: llm.Cancelled}
	x.End()
	if strings.Contains(scrape(t, o), "isogloss_upstream_errors_total{") {
		t.Error("a cancel counted as an upstream's error")
	}
}

func TestOddNumbersDoNotPanic(t *testing.T) {
	o, _ := open(t, Options{})
	x := whole(o)
	x.Usage = &llm.Usage{Input: -5, Output: 7}
	x.BytesIn, x.BytesOut, x.Events = -1, -1, -1
	x.Status = 777
	x.End()
	has(t, o,
		`tokens_total{kind="input",model="openai/*",provider="openai"} 0`,
		`tokens_total{kind="output",model="openai/*",provider="openai"} 7`,
		`requests_total{dialect="openai-chat",endpoint="chat_completions",model="openai/*",outcome="gateway_error",provider="openai",status="0",stream="true"} 1`)
}

func TestWithoutRoute(t *testing.T) {
	o, log := open(t, Options{})
	x := begin(o)
	x.Requested = "no-such-model"
	x.Responded(200, time.Now())
	x.Token(time.Now())
	x.Err = &llm.Error{Kind: llm.NotFound, Code: "model_not_found", Message: "there is no such model"}
	x.End()
	has(t, o, `requests_total{dialect="openai-chat",endpoint="chat_completions",model="",outcome="client_error",provider="",status="404",stream="false"} 1`)
	if strings.Contains(scrape(t, o), "no-such-model") {
		t.Error("the client's model name became a label")
	}
	if l := one(t, log); l["requested"] != "no-such-model" || l["model"] != nil {
		t.Errorf("logged %v", l)
	}
}

// recordSuccess records a successful exchange.
func recordSuccess(o *Observer, model, provider string) {
	x := begin(o)
	x.Route(model, provider, x.Target)
	x.Responded(200, time.Now())
	x.Token(time.Now())
	x.Status, x.Usage = 200, &llm.Usage{Input: 1, Output: 1}
	x.End()
}

// TestScrapeIsBoundedWithManyWorkers checks that thousands of discovered workers and
// models do not increase the size of a scrape beyond its bound, and that a provider first
// used afterwards still has its own label.
func TestScrapeIsBoundedWithManyWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		pool  func(worker int) (model, pool string)
		lines int
	}{
		"workers of one model":         {func(int) (string, string) { return "m", "discovered/m" }, 405},
		"workers with a model of each": {func(i int) (string, string) { m := "m" + strconv.Itoa(i); return m, "discovered/" + m }, 150 * (maxPools + 2)},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := open(t, Options{})
			o.Watch(func() Live {
				var live Live
				for i := range 4096 {
					live.Targets = append(live.Targets, LiveTarget{Target: "t" + strconv.Itoa(i), Open: 1, Ready: i == 4095})
				}
				return live
			})
			for i := range 4096 {
				model, pool := c.pool(i)
				recordSuccess(o, model, pool)
			}
			recordSuccess(o, "late", "late-provider")
			has(t, o,
				`requests_total{dialect="openai-chat",endpoint="chat_completions",model="late",outcome="ok",provider="late-provider",status="200",stream="false"} 1`,
				`tokens_total{kind="input",model="late",provider="late-provider"} 1`,
				`target_requests_open{target="other"} `+strconv.Itoa(4096-maxTargets+1),
				`target_ready{target="other"} 1`)
			text := scrape(t, o)
			if lines := strings.Count(text, "\n") - 4*maxTargets; lines > c.lines || len(text) > 4<<20 {
				t.Errorf("the scrape has %d lines beside the targets, want at most %d, and %d bytes", lines, c.lines, len(text))
			}
		})
	}
}

// TestProvidersKeepTheirNames checks that many models of one provider do not replace
// another provider's label by "other".
func TestProvidersKeepTheirNames(t *testing.T) {
	o, _ := open(t, Options{})
	for i := range maxSeries + 1 {
		recordSuccess(o, "m"+strconv.Itoa(i), "p")
	}
	recordSuccess(o, "late", "late-provider")
	has(t, o,
		`requests_in_flight{model="m0",provider="p"} 0`,
		`requests_in_flight{model="other",provider="p"} 0`,
		`requests_in_flight{model="other",provider="late-provider"} 0`)
	if n := strings.Count(scrape(t, o), "isogloss_requests_in_flight{"); n != maxRoutes+2 {
		t.Errorf("%d pairs of model and provider, want %d", n, maxRoutes+2)
	}
}

// TestLabelsAreBounded checks that label values taken from clients' texts do not grow the
// memory without bound.
func TestLabelsAreBounded(t *testing.T) {
	o, _ := open(t, Options{})
	m := o.metrics
	for i := range maxSeries {
		m.series.entries[seriesKey{model: strconv.Itoa(i)}] = nil
	}
	for i := range maxProviders {
		m.providers.entries[strconv.Itoa(i)] = strconv.Itoa(i)
	}
	for i := range maxRoutes {
		m.routes.get(routeKey{model: strconv.Itoa(i)})
	}
	for i := range 50 {
		x := begin(o)
		x.endpoint = "e" + strconv.Itoa(i)
		x.Route("m"+strconv.Itoa(i), "p"+strconv.Itoa(i), x.Target)
		x.Err = &llm.Error{Kind: llm.Upstream}
		x.End()
	}
	if routes, rest, series := len(m.routes.entries), len(m.routes.rest), len(m.series.entries); routes != maxRoutes || rest != 1 || series != maxSeries+1 {
		t.Errorf("%d routes, %d for the others and %d series, want %d, 1 and %d", routes, rest, series, maxRoutes, maxSeries+1)
	}
	has(t, o,
		`requests_total{dialect="other",endpoint="other",model="other",outcome="upstream_error",provider="other",status="502",stream="false"} 50`,
		`upstream_errors_total{kind="upstream",provider="other"} 50`,
		`requests_in_flight{model="other",provider="other"} 0`)
}

// TestStatusesAreBounded checks that invented upstream statuses do not grow the memory
// without bound.
func TestStatusesAreBounded(t *testing.T) {
	o, _ := open(t, Options{})
	for status := 200; status < 600; status++ {
		x := begin(o)
		x.Route("m", "p", x.Target)
		x.Responded(status, x.start)
		x.Status = status
		x.End()
	}
	if n := strings.Count(scrape(t, o), "isogloss_requests_total{"); n != maxResults+1 {
		t.Errorf("%d lines, want %d", n, maxResults+1)
	}
}

func TestBrokenTextInLabels(t *testing.T) {
	o, _ := open(t, Options{Version: "v\xff"})
	x := begin(o)
	x.endpoint, x.dialect = "e\xff", "d\xff"
	x.Route("m\xff", "p\xff", x.Target)
	x.Err = &llm.Error{Kind: "made up"}
	x.End()
	has(t, o, "requests_total{dialect=\"d\uFFFD\",endpoint=\"e\uFFFD\",model=\"m\uFFFD\",outcome=\"gateway_error\",provider=\"p\uFFFD\",status=\"500\",stream=\"false\"} 1")
}

func TestLossesAreCounted(t *testing.T) {
	o, _ := open(t, Options{})
	for _, fidelity := range []string{"exact", "", "dropped;a=1;d=2;codes=\"x\"", "dropped;a=0;d=1;codes=\"y\"", "refused;codes=\"z\"", "made up"} {
		_, x := o.Begin(t.Context(), "id", "messages", "anthropic", nil)
		x.Route("m", "p", x.Target)
		x.Fidelity, x.Status = fidelity, 200
		x.End()
	}
	has(t, o, `losses_total{model="m",provider="p",verdict="dropped"} 2`, `losses_total{model="m",provider="p",verdict="refused"} 1`)
}
