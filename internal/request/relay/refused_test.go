package relay

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/request/cache"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestRefusedRequestsHaveNoRow checks that a request that its key may not send is
// rejected with a reason, without an upstream request and without a row. A flood of
// rejected requests must not fill the ledger.
func TestRefusedRequestsHaveNoRow(t *testing.T) {
	for name, c := range map[string]struct {
		limit  quota.Limit
		code   string
		status int
		again  bool // the response has a Retry-After header
	}{
		"requests": {quota.Limit{Requests: 1}, "rate_limit_requests", 429, true},
		"tokens":   {quota.Limit{Tokens: 5000}, "rate_limit_tokens", 429, true},
		"budget":   {quota.Limit{Budget: costOf(promptOf(plainRequest), outputStep)}, "budget_exceeded", 429, false},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t, c.limit)
			g := newGateway(t, books.use)
			g.up.Answer(upstreamtest.JSON(200, strings.Replace(plainResponse, `"completion_tokens":2`, `"completion_tokens":4000`, 1)))
			if resp, got, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusOK {
				t.Fatal(got)
			}
			for range 3 {
				resp, got, _ := g.post(t, chatPath, plainRequest)
				if code, message := readError(t, got); resp.StatusCode != c.status || code != c.code || (resp.Header.Get("Retry-After") != "") != c.again || !strings.Contains(message, "key:k1") {
					t.Errorf("%s %v %s", resp.Status, resp.Header, got)
				}
			}
			if rows := books.all(t); len(rows) != 1 || len(g.up.Requests()) != 1 {
				t.Errorf("%d rows of %d requests", len(rows), len(g.up.Requests()))
			}
			books.wantNothingHeld(t)
		})
	}
}

// TestUnknownPrice checks that a model without a price is rejected for a key with a
// budget. Without a budget it is served and its row has no cost, which differs from a
// cost of zero.
func TestUnknownPrice(t *testing.T) {
	ceiling := &usage.Tariff{Input: "100", Output: "1000"}
	dear := usage.Money(3*100_000 + 2*1_000_000)
	budget := quota.Limit{Budget: 100 * usage.Dollar}
	for name, c := range map[string]struct {
		limits  []quota.Limit
		ceiling *usage.Tariff
		status  int
		cost    *usage.Money
	}{
		"with a budget":          {[]quota.Limit{budget}, nil, 403, nil},
		"without one":            {nil, nil, 200, nil},
		"with another limit":     {[]quota.Limit{{Requests: 9}}, nil, 200, nil},
		"a ceiling":              {nil, ceiling, 200, &dear},
		"a ceiling and a budget": {[]quota.Limit{budget}, ceiling, 200, &dear},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t, c.limits...)
			g := newGateway(t, books.use, func(g *gateway) {
				g.provider.Name = "nobody-knows"
				g.state.Books.Prices = prices(c.ceiling)
			})
			g.up.Answer(upstreamtest.JSON(200, plainResponse))
			resp, got, _ := g.post(t, chatPath, plainRequest)
			if resp.StatusCode != c.status {
				t.Fatalf("%s %s", resp.Status, got)
			}
			if c.status == 403 {
				if code, _ := readError(t, got); code != "price_unknown" || len(g.up.Requests()) != 0 {
					t.Errorf("%s, %d requests", got, len(g.up.Requests()))
				}
				books.none(t, g)
				return
			}
			row := books.one(t, g)
			if (row.Cost == nil) != (c.cost == nil) || row.Cost != nil && *row.Cost != *c.cost || (row.Usage != llm.Usage{Input: 3, Output: 2}) {
				t.Errorf("cost %v, want %v, of %+v", row.Cost, c.cost, row.Usage)
			}
			if a := row.Attempts[0]; (a.Cost == nil) != (c.cost == nil) || !a.Charged {
				t.Errorf("%+v", a)
			}
			if len(c.limits) > 0 && c.limits[0].Budget > 0 {
				books.wantSpent(t, *c.cost)
			}
		})
	}
}

// TestForwardedRow checks that a forwarded path writes a row without a cost and is
// rejected for a key with a budget.
func TestForwardedRow(t *testing.T) {
	t.Run("no budget", func(t *testing.T) {
		books := newLedger(t, quota.Limit{Requests: 9})
		g := newGateway(t, books.use, listSpeech)
		g.up.Answer(upstreamtest.JSON(201, `{"x":1}`))
		resp, got, _ := g.post(t, speechPath, "{}")
		row := books.one(t, g)
		if resp.StatusCode != http.StatusCreated || got != `{"x":1}` || row.Status != 201 || row.Outcome != usage.Answered || row.Cost != nil || row.Model != "" || row.Endpoint != "path" || row.Target != "up" {
			t.Errorf("%s %s %+v", resp.Status, got, row)
		}
		if len(row.Attempts) != 1 || row.Attempts[0].Status != 201 || row.Attempts[0].Target != "up" {
			t.Errorf("%+v", row.Attempts)
		}
	})
	t.Run("refused by the upstream", func(t *testing.T) {
		books := newLedger(t)
		g := newGateway(t, books.use, listSpeech)
		g.up.Answer(upstreamtest.JSON(400, busy))
		_, _, _ = g.post(t, speechPath, "{}")
		if row := books.one(t, g); row.Status != 400 || row.Outcome != usage.Failed || row.Attempts[0].Charged {
			t.Errorf("%+v", row)
		}
	})
	t.Run("a budget", func(t *testing.T) {
		books := newLedger(t, quota.Limit{Budget: usage.Dollar})
		g := newGateway(t, books.use, listSpeech)
		resp, got, _ := g.post(t, speechPath, "{}")
		if code, _ := readError(t, got); resp.StatusCode != http.StatusForbidden || code != "price_unknown" || len(g.up.Requests()) != 0 {
			t.Errorf("%s %s", resp.Status, got)
		}
		books.none(t, g)
	})
}

// TestRowsOfOtherEndpoints checks the rows of endpoints that do not generate text.
func TestRowsOfOtherEndpoints(t *testing.T) {
	const count = `{"input_tokens":12}`
	for name, c := range map[string]struct {
		path, body, answer string
		usage              llm.Usage
		estimated          bool
	}{
		"embeddings":           {"/v1/embeddings", `{"model":"m","input":"Hi"}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"m","usage":{"prompt_tokens":5,"total_tokens":5}}`, llm.Usage{Input: 5}, false},
		"embeddings, no usage": {"/v1/embeddings", `{"model":"m","input":"Hi"}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"m"}`, llm.Usage{Input: likelyOf(`{"model":"m","input":"Hi"}`)}, true},
		"count_tokens":         {"/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`, count, llm.Usage{}, false},
		"countTokens":          {"/v1beta/models/m:countTokens", `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`, `{"totalTokens":12}`, llm.Usage{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use, ownDialect(c.path))
			g.up.Answer(upstreamtest.JSON(200, c.answer))
			if resp, got, _ := g.post(t, c.path, c.body); resp.StatusCode != http.StatusOK {
				t.Fatal(got)
			}
			row := books.one(t, g)
			if row.Usage != c.usage || row.Estimated != c.estimated || row.Outcome != usage.Answered {
				t.Errorf("%+v", row)
			}
			wantRow(t, row, usage.Answered, costOf(c.usage.Input, 0), "up/m OK charged")
			books.wantSpent(t, costOf(c.usage.Input, 0))
		})
	}
}

// withResponseCache enables the response cache and Idempotency-Key records.
func withResponseCache(t *testing.T, max int) func(*gateway) {
	t.Helper()
	hidden := bytes.Repeat([]byte("s"), 32)
	kept, err := cache.NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	responses, err := cache.New(kept, cache.Options{Secret: hidden, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	once, err := cache.NewOnce(cache.NewRecords(1<<20), cache.OnceOptions{Secret: hidden, Max: max})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		once.Close()
		kept.Close()
	})
	return func(g *gateway) { g.state.Books.Responses, g.state.Books.Once = responses, once }
}

// TestCachedResponseIsFree checks that a cached response costs nothing and that its row
// has the outcome "cached".
func TestCachedResponseIsFree(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		script upstreamtest.Script
	}{
		"whole":    {`{"model":"real-chat","temperature":0,"messages":[]}`, upstreamtest.JSON(200, plainResponse)},
		"streamed": {`{"model":"real-chat","temperature":0,"stream":true,"messages":[]}`, upstreamtest.Stream(textChunk + stopChunk + tokensChunk + sentinel)},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use, withResponseCache(t, 0))
			g.up.Answer(c.script)
			_, first, _ := g.post(t, chatPath, c.body)
			eventually(t, "the response is cached", func() bool { return len(books.all(t)) == 1 && books.spool.Snapshot().Open == 0 })
			var second string
			var resp *http.Response
			eventually(t, "the cached response is served", func() bool {
				resp, second, _ = g.post(t, chatPath, c.body)
				return resp.Header.Get("Isogloss-Cache") == "hit"
			})
			asked := len(g.up.Requests())
			rows := books.all(t)
			last := rows[len(rows)-1]
			if second != first || len(rows) != asked+1 || last.Outcome != usage.Cached || last.Cost == nil || *last.Cost != 0 || (last.Usage != llm.Usage{}) ||
				last.Estimated || last.Target != "" || len(last.Attempts) != 0 || last.Status != 200 || last.Model != "real-chat" {
				t.Errorf("%s\n%+v", second, rows)
			}
			books.wantSpent(t, costOf(3, 2)*usage.Money(asked))
			books.wantNothingHeld(t)
		})
	}
}

// TestCachedResponseHasItsMode checks that requests with different fidelity modes do not
// share a cached response.
func TestCachedResponseHasItsMode(t *testing.T) {
	g := newGateway(t, newLedger(t, quota.Limit{Budget: usage.Dollar}).use, withResponseCache(t, 0))
	g.up.Answer(upstreamtest.JSON(200, plainResponse))
	for _, mode := range []string{"loose", "strict"} {
		resp, _, err := g.post(t, chatPath, `{"model":"real-chat","temperature":0,"messages":[]}`, "Isogloss-Fidelity-Mode", mode)
		if err != nil || resp.Header.Get("Isogloss-Cache") != "miss" {
			t.Errorf("%s: %v %s", mode, err, resp.Header.Get("Isogloss-Cache"))
		}
		g.line(t) // wait for the end of the exchange, which writes the cache
	}
}

// TestFilteredResponseIsNotCached checks that a response with the finish reason
// content_filter is not cached.
func TestFilteredResponseIsNotCached(t *testing.T) {
	const ask = `{"model":"real-chat","temperature":0,"messages":[]}`
	again := func(t *testing.T, g *gateway) int {
		t.Helper()
		for range 2 {
			if resp, _, err := g.post(t, chatPath, ask); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(err)
			}
			g.line(t) // wait for the end of the exchange, which writes the cache
		}
		return len(g.up.Requests())
	}
	t.Run("filtered", func(t *testing.T) {
		g := newGateway(t, newLedger(t, quota.Limit{Budget: usage.Dollar}).use, withResponseCache(t, 0))
		g.up.Answer(upstreamtest.JSON(200, strings.Replace(plainResponse, `"stop"`, `"content_filter"`, 1)))
		if asked := again(t, g); asked != 2 {
			t.Errorf("the upstream got %d requests, want 2", asked)
		}
	})
}

// TestIdempotencyKeyIsChargedOnce checks that requests with the same Idempotency-Key
// cause one upstream request and one charge.
func TestIdempotencyKeyIsChargedOnce(t *testing.T) {
	const header = "Idempotency-Key"
	open := func(t *testing.T, max int) (*gateway, *ledger) {
		books := newLedger(t, quota.Limit{Budget: usage.Dollar})
		return newGateway(t, books.use, withResponseCache(t, max)), books
	}
	t.Run("replay", func(t *testing.T) {
		g, books := open(t, 0)
		g.up.Answer(upstreamtest.JSON(200, plainResponse))
		_, first, _ := g.post(t, chatPath, plainRequest, header, "a")
		g.line(t)
		for range 3 {
			if resp, again, _ := g.post(t, chatPath, plainRequest, header, "a"); again != first || resp.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s %s", resp.Status, again)
			}
		}
		if rows := books.all(t); len(rows) != 1 || len(g.up.Requests()) != 1 {
			t.Errorf("%d rows, %d requests", len(rows), len(g.up.Requests()))
		}
		books.wantSpent(t, costOf(3, 2))
		resp, got, _ := g.post(t, chatPath, streamRequest, header, "a")
		if code, _ := readError(t, got); resp.StatusCode != http.StatusUnprocessableEntity || code != "idempotency_mismatch" {
			t.Errorf("another request: %s %s", resp.Status, got)
		}
		if rows := books.all(t); len(rows) != 1 {
			t.Errorf("%d rows", len(rows))
		}
	})
	t.Run("running", func(t *testing.T) {
		g, books := open(t, 0)
		begun, end := make(chan bool), make(chan bool)
		g.up.Answer(func(c *upstreamtest.Conn) {
			begun <- true
			<-end
			c.Whole(200, "application/json", plainResponse)
		})
		answered := make(chan string)
		go func() {
			_, got, _ := g.post(t, chatPath, plainRequest, header, "a")
			answered <- got
		}()
		<-begun
		resp, got, _ := g.post(t, chatPath, plainRequest, header, "a")
		if code, _ := readError(t, got); resp.StatusCode != http.StatusConflict || code != "idempotency_running" || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s", resp.Status, got)
		}
		end <- true
		if got := <-answered; got != plainResponse {
			t.Error(got)
		}
		eventually(t, "no row is open", func() bool { return books.spool.Snapshot().Open == 0 })
		if rows := books.all(t); len(rows) != 1 {
			t.Errorf("%d rows", len(rows))
		}
		books.wantSpent(t, costOf(3, 2))
	})
	t.Run("spent", func(t *testing.T) { // the client disconnects in mid-stream, so no complete response exists
		g, books := open(t, 0)
		g.up.Answer(silence(func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(canaryChunk) }))
		c, r := g.dial(t)
		_, _ = c.Write([]byte(strings.Replace(rawPost(chatPath, streamRequest, len(streamRequest)), "Host:", header+": a\r\nHost:", 1)))
		readUntil(t, r, "canary")
		disconnect(c, true)
		g.line(t)
		resp, got, _ := g.post(t, chatPath, streamRequest, header, "a")
		if code, _ := readError(t, got); resp.StatusCode != http.StatusConflict || code != "idempotency_spent" {
			t.Errorf("%s %s", resp.Status, got)
		}
		if rows := books.all(t); len(rows) != 1 || rows[0].Outcome != usage.Left {
			t.Errorf("%+v", rows)
		}
	})
	t.Run("released", func(t *testing.T) { // no upstream request was sent, so the key can be used again
		g, books := open(t, 0)
		books.caller.Accounts[0].Limit.Budget = 1
		if _, got, _ := g.post(t, chatPath, plainRequest, header, "a"); !strings.Contains(got, "budget_exceeded") {
			t.Error(got)
		}
		g.line(t)
		books.caller.Accounts[0].Limit.Budget = usage.Dollar
		g.up.Answer(upstreamtest.JSON(200, plainResponse))
		if _, got, _ := g.post(t, chatPath, plainRequest, header, "a"); got != plainResponse {
			t.Error(got)
		}
	})
	t.Run("invalid", func(t *testing.T) {
		g, books := open(t, 0)
		if resp, got, _ := g.post(t, chatPath, plainRequest, header, strings.Repeat("x", cache.MaxKey+1)); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s", resp.Status, got)
		}
		books.none(t, g)
	})
}
