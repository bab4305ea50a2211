package observe

import (
	"strconv"
	"strings"
	"sync"
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
		`cancels_total{model="openai/*",provider="openai"} 0`,
		`bytes_total{direction="in"} 2000`,
		`bytes_total{direction="out"} 1000`,
		`stream_events_total 12`)
}

func TestEndCountsOnce(t *testing.T) {
	o, log := open(t, Options{})
	x := whole(o)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(x.End)
	}
	wait.Wait()
	x.End()
	x.Route("late", "late") // a route after the end is in flight nowhere
	has(t, o,
		`requests_total{dialect="openai-chat",endpoint="chat_completions",model="openai/*",outcome="ok",provider="openai",status="200",stream="true"} 1`,
		`requests_in_flight{model="openai/*",provider="openai"} 0`,
		`requests_in_flight{model="late",provider="late"} 0`,
		`bytes_total{direction="in"} 2000`)
	one(t, log)
}

func TestRouteRacesEnd(t *testing.T) {
	o, _ := open(t, Options{})
	for range 100 {
		x := begin(o)
		var wait sync.WaitGroup
		wait.Go(func() { x.Route("m", "p") })
		wait.Go(func() { x.close() })
		wait.Wait()
	}
	has(t, o, `requests_in_flight{model="m",provider="p"} 0`)
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
		x.Route("m", "p")
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
	x.Route("fast", "first")
	x.UpstreamStatus, x.UpstreamID = 503, "req_first"
	x.Failed(llm.Overloaded)
	x.Failed(llm.Overloaded) // the attempt has ended already
	x.Route("fast", "second")
	has(t, o,
		`requests_in_flight{model="fast",provider="first"} 0`,
		`requests_in_flight{model="fast",provider="second"} 1`)
	x.Status, x.UpstreamStatus, x.Attempts = 200, 200, 2
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

// The last attempt's failure is one error, whether the relay calls Failed for it
// or leaves it to End, and it is the upstream's though the limit is a 429.
func TestLastFailureCountsOnce(t *testing.T) {
	for _, told := range []bool{true, false} {
		o, log := open(t, Options{})
		x := begin(o)
		x.Route("m", "p")
		x.UpstreamStatus = 429
		if told {
			x.Failed(llm.RateLimit)
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
	x.Route("m", "p")
	x.Err = &llm.Error{Kind: llm.Cancelled, Message: "the client went away"}
	x.End()
	early := begin(o) // the client left before there was a route
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
	x.Route("m", "p")
	x.Failed(llm.Cancelled)
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
	x.FirstByte(time.Now())
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

// A caller that passes on what clients send must not be able to fill the memory.
func TestLabelsAreBounded(t *testing.T) {
	o, _ := open(t, Options{})
	m := o.metrics
	for i := range maxLabelSets {
		m.routes.entries[routeKey{model: strconv.Itoa(i)}] = nil
		m.series.entries[seriesKey{model: strconv.Itoa(i)}] = nil
	}
	for i := range 50 {
		x := begin(o)
		x.Endpoint = "e" + strconv.Itoa(i)
		x.Route("m"+strconv.Itoa(i), "p"+strconv.Itoa(i))
		x.Err = &llm.Error{Kind: llm.Upstream}
		x.End()
	}
	if routes, series := len(m.routes.entries), len(m.series.entries); routes != maxLabelSets+1 || series != maxLabelSets+1 {
		t.Errorf("%d routes and %d series, want one over %d", routes, series, maxLabelSets)
	}
	has(t, o,
		`requests_total{dialect="other",endpoint="other",model="other",outcome="upstream_error",provider="other",status="502",stream="false"} 50`,
		`upstream_errors_total{kind="upstream",provider="other"} 50`,
		`requests_in_flight{model="other",provider="other"} 0`)
}

func TestBrokenTextInLabels(t *testing.T) {
	o, _ := open(t, Options{Version: "v\xff"})
	x := begin(o)
	x.Endpoint, x.Dialect = "e\xff", "d\xff"
	x.Route("m\xff", "p\xff")
	x.Err = &llm.Error{Kind: "made up"}
	x.End()
	has(t, o, "requests_total{dialect=\"d\uFFFD\",endpoint=\"e\uFFFD\",model=\"m\uFFFD\",outcome=\"gateway_error\",provider=\"p\uFFFD\",status=\"500\",stream=\"false\"} 1")
}

func TestLossesAreCounted(t *testing.T) {
	o, _ := open(t, Options{})
	for _, fidelity := range []string{"exact", "", "dropped;a=1;d=2;codes=\"x\"", "dropped;a=0;d=1;codes=\"y\"", "refused;codes=\"z\"", "made up"} {
		_, x := o.Begin(t.Context(), "id", "messages", "anthropic", nil)
		x.Route("m", "p")
		x.Fidelity, x.Status = fidelity, 200
		x.End()
	}
	has(t, o, `losses_total{model="m",provider="p",verdict="dropped"} 2`, `losses_total{model="m",provider="p",verdict="refused"} 1`)
}
