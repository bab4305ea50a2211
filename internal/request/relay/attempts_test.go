package relay

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// newCounted returns a gateway with two upstreams and a ledger whose key has a budget of
// ten dollars.
func newCounted(t testing.TB, changes ...func(*pair)) (*pair, *ledger) {
	books := newLedger(t, quota.Limit{Budget: 10 * usage.Dollar})
	changes = append([]func(*pair){func(p *pair) { books.use(p.gateway) }}, changes...)
	return newPair(t, changes...), books
}

const busy = `{"error":{"message":"busy","type":"server_error","param":null,"code":null}}`

// streamWithUsage returns a stream of one text chunk with its usage.
func streamWithUsage(text string) string { return chunkOf(text) + stopChunk + tokensChunk + sentinel }

// counted streams a response. It includes usage only if the request sets include_usage.
func counted(text string) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		stream := streamWithUsage(text)
		if !bytes.Contains(c.Request.Body, []byte(`"include_usage":true`)) {
			stream = strings.Replace(stream, tokensChunk, "", 1)
		}
		upstreamtest.Stream(stream)(c)
	}
}

// wantRow checks a ledger row's outcome, cost and attempts. Each attempt is written as
// target, status, fault and "charged" if the client pays for it.
func wantRow(t testing.TB, row usage.Row, outcome usage.Outcome, cost usage.Money, attempts ...string) {
	t.Helper()
	if row.Outcome != outcome || row.Cost == nil || *row.Cost != cost {
		t.Errorf("outcome %s, cost %v, want %s, %v", row.Outcome, row.Cost, outcome, cost)
	}
	var got []string
	for _, a := range row.Attempts {
		text := a.Target + " " + http.StatusText(a.Status) + " " + a.Fault
		if a.Fault == "hedge_lost" { // the response headers may have arrived already
			text = a.Target + " " + a.Fault
		}
		if a.Charged {
			text += " charged"
		}
		got = append(got, strings.Join(strings.Fields(text), " "))
	}
	if strings.Join(got, "; ") != strings.Join(attempts, "; ") {
		t.Errorf("attempts %q, want %q", got, attempts)
	}
}

// TestFailedAttemptsAreNotCharged checks that the client pays only for the attempt that
// succeeds and that the row lists every attempt.
func TestFailedAttemptsAreNotCharged(t *testing.T) {
	second := usage.Money(3*2_000 + 2*20_000) // at "two", which costs twice as much
	for name, c := range map[string]struct {
		ask      string
		one, two upstreamtest.Script
		status   int
		outcome  usage.Outcome
		cost     usage.Money
		attempts []string
	}{
		"the second answers": {pairPlain, upstreamtest.JSON(503, busy), upstreamtest.JSON(200, plainResponse), 200, usage.Answered, second,
			[]string{"up/x Service Unavailable 503", "two/x OK charged"}},
		"the second streams": {pairStream, upstreamtest.JSON(503, busy), upstreamtest.Stream(streamWithUsage("b")), 200, usage.Answered, second,
			[]string{"up/x Service Unavailable 503", "two/x OK charged"}},
		"the first breaks off before it says anything": {pairStream, upstreamtest.Break(": hello\n\n"), upstreamtest.Stream(streamWithUsage("b")), 200, usage.Answered, second,
			[]string{"up/x OK upstream_truncated", "two/x OK charged"}},
		"an error in the first's first event": {pairStream, upstreamtest.Stream(failChunk), upstreamtest.Stream(streamWithUsage("b")), 200, usage.Answered, second,
			[]string{"up/x OK upstream", "two/x OK charged"}},
		"both fail": {pairPlain, upstreamtest.JSON(500, busy), upstreamtest.JSON(429, busy), 429, usage.Failed, 0,
			[]string{"up/x Internal Server Error 500", "two/x Too Many Requests 429"}},
		"the first breaks off in mid-stream": {pairStream, upstreamtest.Break(chunkOf("a")), upstreamtest.Stream(streamWithUsage("b")), 200, usage.Failed,
			costOf(likelyOf(pairStream), 1), []string{"up/x OK upstream_truncated charged"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, books := newCounted(t, func(p *pair) { p.state.Retries.Attempts = 2 })
			p.up.Answer(c.one)
			p.two.Answer(c.two)
			resp, body, _ := p.post(t, chatPath, c.ask)
			row := books.one(t, p.gateway)
			if resp.StatusCode != c.status || row.Status != c.status {
				t.Errorf("status %d, in the row %d, want %d: %s", resp.StatusCode, row.Status, c.status, body)
			}
			wantRow(t, row, c.outcome, c.cost, c.attempts...)
			books.wantSpent(t, c.cost)
		})
	}
}

// TestHedgesAreNotCharged checks that the client does not pay for a hedged attempt that
// loses or fails.
func TestHedgesAreNotCharged(t *testing.T) {
	second := usage.Money(3*2_000 + 2*20_000)
	hang := func(c *upstreamtest.Conn) { c.BeginStream(); c.Gone(never) }
	// Both attempts are sent before the first answers; the second answers after it.
	in := func(d time.Duration, script upstreamtest.Script) upstreamtest.Script {
		return func(c *upstreamtest.Conn) {
			time.Sleep(d)
			script(c)
		}
	}
	first := func(script upstreamtest.Script) upstreamtest.Script { return in(10*time.Second, script) }
	then := func(script upstreamtest.Script) upstreamtest.Script { return in(20*time.Second, script) }
	for name, c := range map[string]struct {
		one, two upstreamtest.Script
		outcome  usage.Outcome
		cost     usage.Money
		attempts []string
	}{
		"the second is sooner": {hang, counted("b"), usage.Answered, second, []string{"up/x hedge_lost", "two/x OK charged"}},
		"the first is sooner":  {first(counted("a")), hang, usage.Answered, costOf(3, 2), []string{"two/x hedge_lost", "up/x OK charged"}},
		"the first fails": {first(upstreamtest.JSON(500, busy)), then(counted("b")), usage.Answered, second,
			[]string{"up/x Internal Server Error upstream", "two/x OK charged"}},
		"both fail": {first(upstreamtest.JSON(500, busy)), then(upstreamtest.JSON(500, busy)), usage.Failed, 0,
			[]string{"two/x Internal Server Error upstream", "up/x Internal Server Error 500"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				p, books := newCounted(t, func(p *pair) {
					p.route.Hedge = route.Hedge{Quantile: 0.9, Share: 1}
					p.state.Retries.Attempts = 1
				})
				p.state.Books.Ledger = nil // requests that only build up the latency history need no rows
				p.relay.Use(p.state)
				p.up.Answer(answerIn(10*time.Millisecond, "quick"))
				p.two.Answer(upstreamtest.JSON(500, busy))
				p.learnLatency(t)
				state := *p.state
				state.Books.Ledger = books.spool
				p.relay.Use(&state)
				p.up.Answer(c.one)
				p.two.Answer(c.two)
				_, _, _ = p.post(t, chatPath, pairStream)
				eventually(t, "the row is written", func() bool { return books.spool.Snapshot().Open == 0 && len(books.all(t)) == 1 })
				if row := books.all(t)[0]; row.Estimated {
					t.Error("the row is an estimate; the upstream reports usage when asked")
				}
				wantRow(t, books.all(t)[0], c.outcome, c.cost, c.attempts...)
				books.wantNothingHeld(t)
				books.wantSpent(t, c.cost)
			})
		})
	}
}

// TestContinuedStreamEndsWithItsBudget checks that no other target continues a stream whose budget is exhausted.
func TestContinuedStreamEndsWithItsBudget(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: 2 * costOf(promptOf(pairStream), outputStep)}) // the more expensive target determines the reservation
	p := newPair(t, func(p *pair) {
		books.use(p.gateway)
		p.route.Continue = true
		p.provider.Continuation = provider.ContinueVLLM
	})
	p.up.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream()
		for piece := chunkOf(strings.Repeat("word ", 100)); c.Chunk(piece); { // until the gateway leaves
		}
	})
	p.two.Answer(good("more"))
	_, body, err := p.post(t, chatPath, pairStream)
	if err != nil || !strings.Contains(body, "budget") || len(p.two.Requests()) > 0 {
		t.Errorf("%v, %d requests to the other target: %s", err, len(p.two.Requests()), body[max(0, len(body)-500):])
	}
	if row := books.one(t, p.gateway); row.Outcome != usage.Failed || len(row.Attempts) != 1 || row.Attempts[0].Fault != "budget_exceeded" {
		t.Errorf("%+v", row)
	}
}

// TestContinuedStreamIsCountedOnce checks that a stream that a second target continues
// has one row, with each target's tokens at that target's price.
func TestContinuedStreamIsCountedOnce(t *testing.T) {
	prompt := likelyOf(pairStream)
	const nobody = ": nobody\n\n"
	const told = `event: message_start
data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"The answer is "}}

`
	said := chunkOf("The answer") + chunkOf(" is ")
	for name, c := range map[string]struct {
		first     protocol.Name
		one, two  string
		usage     llm.Usage
		estimated bool
		cost      usage.Money
		outcome   usage.Outcome
		attempts  []string
	}{
		"the first told nothing": {chatDialect, said, streamWithUsage("forty-two."), llm.Usage{Input: prompt + 3, Output: 2 + 2}, true, costOf(prompt, 2) + 3*2_000 + 2*20_000, usage.Answered,
			[]string{"up/x OK upstream_truncated charged", "two/x OK charged"}},
		"both told": {anthropicDialect, told, streamWithUsage("forty-two."), llm.Usage{Input: 7 + 3, Output: 4 + 2}, true, costOf(7, 4) + 3*2_000 + 2*20_000, usage.Answered,
			[]string{"up/x OK upstream_truncated charged", "two/x OK charged"}},
		"nobody told": {chatDialect, said, chunkOf("forty-two.") + stopChunk + sentinel, llm.Usage{Input: 2 * prompt, Output: 3}, true, costOf(prompt, 2) + usage.Money(prompt)*2_000 + 20_000, usage.Answered,
			[]string{"up/x OK upstream_truncated charged", "two/x OK charged"}},
		"the second has nothing to say": {chatDialect, said, "", llm.Usage{Input: prompt, Output: 2}, true, costOf(prompt, 2), usage.Failed,
			[]string{"up/x OK upstream_truncated charged", "two/x OK upstream_truncated"}},
		"nobody can take it up": {chatDialect, said, nobody, llm.Usage{Input: prompt, Output: 2}, true, costOf(prompt, 2), usage.Failed,
			[]string{"up/x OK upstream_truncated charged"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, books := newCounted(t, func(p *pair) {
				p.route.Continue = true
				p.provider.Continuation = provider.ContinueVLLM
				if c.two == nobody {
					p.provider.Continuation = provider.NoContinuation
				}
				p.gateway.provider.Protocol = c.first
				p.state.Retries.Attempts = 2
			})
			p.up.Answer(upstreamtest.Break(c.one))
			p.two.Answer(upstreamtest.Stream(c.two))
			_, body, _ := p.post(t, chatPath, pairStream)
			row := books.one(t, p.gateway)
			if row.Usage != c.usage || row.Estimated != c.estimated {
				t.Errorf("%+v, estimated %t, want %+v, %t: %s", row.Usage, row.Estimated, c.usage, c.estimated, body)
			}
			wantRow(t, row, c.outcome, c.cost, c.attempts...)
			books.wantSpent(t, c.cost)
		})
	}
}
