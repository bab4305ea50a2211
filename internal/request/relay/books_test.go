package relay

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestUsageClassesInTheRow checks that the token classes of a row do not overlap and that
// each is charged at its own price.
func TestUsageClassesInTheRow(t *testing.T) {
	const told = `"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":80},"completion_tokens_details":{"reasoning_tokens":30}}`
	answer := strings.Replace(plainResponse, `"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}`, told, 1)
	want := llm.Usage{Input: 20, CacheRead: 80, Output: 20, Reasoning: 30}
	for _, l := range lanes() {
		t.Run(l.name, func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use, l.change)
			g.up.Answer(l.script(upstreamScripts{upstreamtest.Stream(textChunk + stopChunk + `data: {"id":"c1","choices":[],` + told + "}\n\n" + sentinel), upstreamtest.JSON(200, answer)}))
			if resp, got, _ := g.post(t, l.path, l.body); resp.StatusCode != http.StatusOK {
				t.Fatal(got)
			}
			row := books.one(t, g)
			if row.Usage != want || row.Estimated {
				t.Errorf("%+v", row.Usage)
			}
			wantRow(t, row, usage.Answered, 20*1_000+80*100+50*10_000, "up/real-chat OK charged")
		})
	}
}

// TestImpossibleUsageIsEstimated checks that a response whose usage cannot be true is
// charged by an estimate and not as free.
func TestImpossibleUsageIsEstimated(t *testing.T) {
	for _, told := range []string{`"usage":{"prompt_tokens":-3,"completion_tokens":-2,"total_tokens":-5}`, `"usage":{"prompt_tokens":1e30,"completion_tokens":1e30,"total_tokens":1e30}`} {
		answer := strings.Replace(plainResponse, `"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}`, told, 1)
		for _, l := range lanes() {
			t.Run(l.name, func(t *testing.T) {
				books := newLedger(t, quota.Limit{Budget: usage.Dollar})
				g := newGateway(t, books.use, l.change)
				g.up.Answer(l.script(upstreamScripts{upstreamtest.Stream(textChunk + stopChunk + `data: {"id":"c1","choices":[],` + told + "}\n\n" + sentinel), upstreamtest.JSON(200, answer)}))
				if resp, got, _ := g.post(t, l.path, l.body); resp.StatusCode != http.StatusOK {
					t.Fatal(got)
				}
				if row := books.one(t, g); row.Usage.Input <= 0 || row.Usage.Output <= 0 || !row.Estimated || row.Cost == nil || *row.Cost <= 0 {
					t.Errorf("%+v", row)
				}
			})
		}
	}
}

// TestPartialUsageIsKept checks the row of a stream whose client disconnects after the
// upstream has reported its input tokens: the row keeps the reported input and estimates
// the output.
func TestPartialUsageIsKept(t *testing.T) {
	begun := `event: message_start
data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":70,"cache_read_input_tokens":30,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"canary"}}

`
	for _, client := range []protocol.Name{anthropicDialect, chatDialect} {
		t.Run(string(client), func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use, speaking(anthropicDialect))
			g.up.Answer(silence(func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(begun) }))
			path, ask := simpleRequest(client, true)
			c, r := g.dial(t)
			_, _ = io.WriteString(c, rawPost(path, ask, len(ask)))
			readUntil(t, r, "canary")
			disconnect(c, true)
			row := books.one(t, g)
			if row.Outcome != usage.Left || !row.Estimated || row.Usage.Input != 70 || row.Usage.CacheRead != 30 || row.Usage.Output < 1 || row.Usage.Output > 4 {
				t.Errorf("%+v", row)
			}
		})
	}
}

// TestDisconnectInQueueIsFree checks that a client that disconnects while its request is
// queued pays nothing.
func TestDisconnectInQueueIsFree(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: usage.Dollar})
	g := newGateway(t, books.use, func(g *gateway) {
		g.provider.Concurrency = 1
		g.state.Overload = limit.Config{Queue: 1, Wait: never}
	})
	asked := make(chan bool, 2)
	g.up.Answer(func(c *upstreamtest.Conn) {
		asked <- true
		c.Gone(never)
	})
	first, _ := g.dial(t)
	_, _ = io.WriteString(first, rawPost(chatPath, plainRequest, len(plainRequest)))
	<-asked
	second, _ := g.dial(t)
	_, _ = io.WriteString(second, rawPost(chatPath, plainRequest, len(plainRequest)))
	eventually(t, "both have begun", func() bool { return books.spool.Snapshot().Open == 2 })
	disconnect(second, true)
	g.line(t)
	rows := books.all(t)
	if len(rows) != 1 {
		t.Fatalf("%+v", rows)
	}
	row := rows[0]
	if row.Outcome != usage.Left || (row.Usage != llm.Usage{}) || row.Cost == nil || *row.Cost != 0 || row.Target != "" || len(row.Attempts) != 0 {
		t.Errorf("%+v", row)
	}
	disconnect(first, true)
	eventually(t, "both are over", func() bool { return books.spool.Snapshot().Open == 0 })
	books.wantSpent(t, costOf(likelyOf(plainRequest), 0))
}

// TestPanicHasARow checks that a request that panics writes a row and releases its
// reservation.
func TestPanicHasARow(t *testing.T) {
	for at, c := range map[string]struct {
		after  int
		script upstreamtest.Script
		cost   usage.Money
		status int
	}{
		"before anything": {0, upstreamtest.Stream(textChunk), 0, 500},
		"in mid-stream":   {1, inPieces(textChunk, textChunk), costOf(likelyOf(streamRequest), 1), 200},
	} {
		t.Run(at, func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use)
			g.relay.dialects.ByName[protocol.OpenAIChat].Codec = faulty{at: "Event", after: c.after}
			g.up.Answer(c.script)
			_, _, _ = g.post(t, chatPath, streamRequest)
			row := books.one(t, g)
			if row.Outcome != usage.Failed || row.Status != c.status || row.Cost == nil || *row.Cost != c.cost {
				t.Errorf("%+v", row)
			}
			books.wantSpent(t, c.cost)
		})
	}
}

// TestRowAfterKeepAlive checks the row of a stream that fails after a keep-alive comment
// has already sent status 200.
func TestRowAfterKeepAlive(t *testing.T) {
	books := newLedger(t)
	g := newGateway(t, books.use, keepAlive(time.Millisecond))
	c, r := g.dial(t)
	begun := make(chan bool)
	g.up.Answer(func(c *upstreamtest.Conn) {
		<-begun
		c.Whole(500, "application/json", busy)
	})
	_, _ = io.WriteString(c, rawPost(chatPath, streamRequest, len(streamRequest)))
	readUntil(t, r, "\n:")
	begun <- true
	readUntil(t, r, `"error"`)
	if row := books.one(t, g); row.Status != http.StatusOK || row.Outcome != usage.Failed || row.Attempts[0].Status != 500 || row.Attempts[0].Charged {
		t.Errorf("%+v", row)
	}
}

// TestReservationUsesHighestPrice checks that the reservation uses the price of the most
// expensive candidate and that the charge uses the price of the target that responded.
func TestReservationUsesHighestPrice(t *testing.T) {
	p, books := newCounted(t)
	asked, end := make(chan bool), make(chan bool)
	p.up.Answer(func(c *upstreamtest.Conn) {
		asked <- true
		<-end
		c.Whole(200, "application/json", plainResponse)
	})
	answered := make(chan bool)
	go func() {
		defer close(answered)
		_, _, _ = p.post(t, chatPath, pairPlain)
	}()
	<-asked
	books.wantSpent(t, 2*costOf(promptOf(pairPlain), outputStep)) // as "two" would cost
	end <- true
	<-answered
	books.one(t, p.gateway)
	books.wantSpent(t, costOf(3, 2))
}

// TestFullLedger checks that a full ledger rejects requests with a budget, and with the choice to serve
// them only sheddable ones.
func TestFullLedger(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: usage.Dollar})
	g := newGateway(t, books.use, withResponseCache(t, 0))
	full, err := spool.Open(spool.Options{Dir: t.TempDir(), Node: "n1", MaxBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := full.Close(); err != nil {
			t.Error(err)
		}
	})
	s := *g.state
	s.Books.Ledger = full
	g.relay.Use(&s)
	g.up.Answer(upstreamtest.JSON(200, plainResponse))
	if resp, got, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusOK { // fills the spool
		t.Errorf("%s %s", resp.Status, got)
	}
	resp, got, _ := g.post(t, chatPath, plainRequest, criticalityHeader, "sheddable")
	if code, _ := readError(t, got); resp.StatusCode != http.StatusServiceUnavailable || code != "ledger_full" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s %s", resp.Status, got)
	}
	resp, got, _ = g.post(t, chatPath, plainRequest)
	if code, _ := readError(t, got); resp.StatusCode != http.StatusServiceUnavailable || code != "ledger_full" {
		t.Errorf("with a budget: %s %s", resp.Status, got)
	}
	const cached = `{"model":"real-chat","temperature":0,"messages":[]}`
	serving := s
	serving.Books.Unrecorded = billing.Serve
	g.relay.Use(&serving)
	if resp, got, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s", resp.Status, got)
	}
	sent := 4
	eventually(t, "the response is cached", func() bool {
		resp, _, _ := g.post(t, chatPath, cached)
		sent++
		return resp.Header.Get("Isogloss-Cache") == "hit"
	})
	resp, got, _ = g.post(t, chatPath, cached, criticalityHeader, "sheddable")
	sent++
	if code, _ := readError(t, got); resp.StatusCode != http.StatusServiceUnavailable || code != "ledger_full" {
		t.Errorf("a cached response: %s %s", resp.Status, got)
	}
	eventually(t, "all are over", func() bool { return strings.Count(g.log.String(), `"msg":"exchange"`) == sent })
	books.wantNothingHeld(t)
	if b := full.Snapshot(); b.Open != 0 || b.Rows != 1 {
		t.Errorf("%+v", b)
	}
	books.wantSpent(t, costOf(3, 2)*usage.Money(len(g.up.Requests())))
}

// TestLongErrorCodeHasARow checks the row of a stream that ends with an error whose code is larger
// than a record of the ledger.
func TestLongErrorCodeHasARow(t *testing.T) {
	failed := `data: {"error":{"message":"died","code":"` + strings.Repeat("c", 2<<20) + `"}}` + "\n\n"
	for _, l := range lanes() {
		if !strings.Contains(l.body, `"stream":true`) {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use, l.change)
			g.up.Answer(upstreamtest.Stream(textChunk + failed))
			if _, _, err := g.post(t, l.path, l.body); err != nil {
				t.Fatal(err)
			}
			row := books.one(t, g)
			if row.Outcome != usage.Failed || len(row.Attempts) != 1 || row.Attempts[0].Fault != plain.Other {
				t.Errorf("the outcome is %s with %d attempts", row.Outcome, len(row.Attempts))
			}
		})
	}
}

// TestBackgroundJob checks the row of a request whose response the vendor makes later: it is charged
// its reservation.
func TestBackgroundJob(t *testing.T) {
	const job = `{"id":"resp_1","object":"response","created_at":1,"status":"queued","background":true,"error":null,"incomplete_details":null,"model":"m","output":[],"usage":null}`
	for limit, most := range map[string]int64{`"max_output_tokens":100,`: 100, "": 4096} {
		books := newLedger(t, quota.Limit{Budget: usage.Dollar})
		g := newGateway(t, books.use, speaking(responsesDialect))
		g.up.Answer(upstreamtest.JSON(200, job))
		ask := `{"model":"m",` + limit + `"background":true,"input":"Hi"}`
		if resp, got, _ := g.post(t, "/v1/responses", ask); resp.StatusCode != http.StatusOK {
			t.Fatal(got)
		}
		row := books.one(t, g)
		prompt := int64(len(ask)/2 + 1)
		if want := (llm.Usage{Input: prompt, Output: most}); row.Usage != want || !row.Estimated {
			t.Errorf("%+v, want %+v", row.Usage, want)
		}
		wantRow(t, row, usage.Queued, usage.Money(prompt)*inputCost+usage.Money(most)*outputCost, "up/m OK charged")
	}
}

// TestVendorHeaders checks that the headers with which a client of Anthropic names who pays reach it.
func TestVendorHeaders(t *testing.T) {
	headers := []string{"Anthropic-User-Profile-Id", "p1", "Anthropic-Workspace-Id", "w1"}
	path, ask := simpleRequest(anthropicDialect, false)
	g := newGateway(t, speaking(anthropicDialect))
	g.up.Answer(upstreamtest.JSON(200, `{}`))
	_, _, _ = g.post(t, path, ask, headers...)
	for i := 0; i < len(headers); i += 2 {
		if got := g.up.Last(t).Header.Get(headers[i]); got != headers[i+1] {
			t.Errorf("%s is %q upstream", headers[i], got)
		}
	}
	g = newGateway(t, speaking(chatDialect))
	g.up.Answer(upstreamtest.JSON(200, plainResponse))
	resp, got, _ := g.post(t, path, ask, headers...)
	if f := resp.Header.Get("Isogloss-Fidelity"); !strings.Contains(f, "header.anthropic_workspace_id") || !strings.Contains(f, "header.anthropic_user_profile_id") {
		t.Errorf("%s %s", f, got)
	}
}
