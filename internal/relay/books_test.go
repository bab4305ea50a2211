package relay

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Classes of tokens do not overlap, and each has its price.
func TestUsageClassesInTheRow(t *testing.T) {
	const told = `"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":80},"completion_tokens_details":{"reasoning_tokens":30}}`
	answer := strings.Replace(plainAnswer, `"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}`, told, 1)
	want := llm.Usage{Input: 20, CacheRead: 80, Output: 20, Reasoning: 30}
	for _, l := range lanes() {
		t.Run(l.name, func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use, l.change)
			g.up.Answer(l.script(inForms{upstreamtest.Stream(textChunk + stopChunk + `data: {"id":"c1","choices":[],` + told + "}\n\n" + sentinel), upstreamtest.JSON(200, answer)}))
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

// What a provider has told before an answer breaks off holds, and what was passed
// on since is added.
func TestEarlyUsageHolds(t *testing.T) {
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
			path, ask := simpleAsk(client, true)
			c, r := g.dial(t)
			_, _ = io.WriteString(c, rawPost(path, ask, len(ask)))
			readUntil(t, r, "canary")
			leave(c, true)
			row := books.one(t, g)
			if row.Outcome != usage.Left || !row.Estimated || row.Usage.Input != 70 || row.Usage.CacheRead != 30 || row.Usage.Output < 1 || row.Usage.Output > 4 {
				t.Errorf("%+v", row)
			}
		})
	}
}

// Whoever leaves while it waits for its turn has cost nobody anything.
func TestLeavingTheQueueIsFree(t *testing.T) {
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
	_, _ = io.WriteString(first, rawPost(chatPath, plainAsk, len(plainAsk)))
	<-asked
	second, _ := g.dial(t)
	_, _ = io.WriteString(second, rawPost(chatPath, plainAsk, len(plainAsk)))
	eventually(t, "both have begun", func() bool { return books.spool.Snapshot().Open == 2 })
	leave(second, true)
	g.line(t)
	rows := books.all(t)
	if len(rows) != 1 {
		t.Fatalf("%+v", rows)
	}
	row := rows[0]
	if row.Outcome != usage.Left || (row.Usage != llm.Usage{}) || row.Cost == nil || *row.Cost != 0 || row.Target != "" || len(row.Attempts) != 0 {
		t.Errorf("%+v", row)
	}
	leave(first, true)
	eventually(t, "both are over", func() bool { return books.spool.Snapshot().Open == 0 })
	books.wantSpent(t, costOf(likelyOf(plainAsk), 0))
}

// A mistake of ours has a row, and does not keep what was reserved.
func TestPanicHasARow(t *testing.T) {
	for at, c := range map[string]struct {
		after  int
		script upstreamtest.Script
		cost   usage.Money
		status int
	}{
		"before anything": {0, upstreamtest.Stream(textChunk), 0, 500},
		"in mid-stream":   {1, inPieces(textChunk, textChunk), costOf(likelyOf(streamAsk), 1), 200},
	} {
		t.Run(at, func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use)
			g.relay.codecs[protocol.OpenAIChat] = faulty{at: "Event", after: c.after}
			g.up.Answer(c.script)
			_, _, _ = g.post(t, chatPath, streamAsk)
			row := books.one(t, g)
			if row.Outcome != usage.Failed || row.Status != c.status || row.Cost == nil || *row.Cost != c.cost {
				t.Errorf("%+v", row)
			}
			books.wantSpent(t, c.cost)
		})
	}
}

// A keep-alive has told the status before anybody answered.
func TestRowAfterKeepAlive(t *testing.T) {
	books := newLedger(t)
	g := newGateway(t, books.use, keepAlive(time.Millisecond))
	c, r := g.dial(t)
	begun := make(chan bool)
	g.up.Answer(func(c *upstreamtest.Conn) {
		<-begun
		c.Whole(500, "application/json", busy)
	})
	_, _ = io.WriteString(c, rawPost(chatPath, streamAsk, len(streamAsk)))
	readUntil(t, r, "\n:")
	begun <- true
	readUntil(t, r, `"error"`)
	if row := books.one(t, g); row.Status != http.StatusOK || row.Outcome != usage.Failed || row.Attempts[0].Status != 500 || row.Attempts[0].Charged {
		t.Errorf("%+v", row)
	}
}

// Who will answer is not known before: the dearest of them is reserved for, and who
// does is paid.
func TestTheDearestIsReservedFor(t *testing.T) {
	p, books := newCounted(t)
	asked, end := make(chan bool), make(chan bool)
	p.up.Answer(func(c *upstreamtest.Conn) {
		asked <- true
		<-end
		c.Whole(200, "application/json", plainAnswer)
	})
	answered := make(chan bool)
	go func() {
		defer close(answered)
		_, _, _ = p.post(t, chatPath, pairPlain)
	}()
	<-asked
	books.wantSpent(t, 2*costOf(promptOf(pairPlain), unboundedMost)) // as "two" would cost
	end <- true
	<-answered
	books.one(t, p.gateway)
	books.wantSpent(t, costOf(3, 2))
}

// Where no more can be written down, those who matter least are turned away, and
// the others are served.
func TestFullLedger(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: usage.Dollar})
	g := newGateway(t, books.use)
	full, err := usage.OpenSpool(usage.SpoolOptions{Dir: t.TempDir(), Node: "n1", MaxBytes: 1})
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
	g.up.Answer(upstreamtest.JSON(200, plainAnswer))
	if resp, got, _ := g.post(t, chatPath, plainAsk); resp.StatusCode != http.StatusOK { // which fills it
		t.Errorf("%s %s", resp.Status, got)
	}
	resp, got, _ := g.post(t, chatPath, plainAsk, criticalityHeader, "sheddable")
	if code, _ := readError(t, got); resp.StatusCode != http.StatusServiceUnavailable || code != "ledger_full" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s %s", resp.Status, got)
	}
	if resp, got, _ := g.post(t, chatPath, plainAsk); resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s", resp.Status, got)
	}
	eventually(t, "all are over", func() bool { return strings.Count(g.log.String(), `"msg":"exchange"`) == 3 })
	books.wantNothingHeld(t)
	if b := full.Snapshot(); b.Open != 0 || b.Rows != 1 {
		t.Errorf("%+v", b)
	}
	books.wantSpent(t, 2*costOf(3, 2))
}
