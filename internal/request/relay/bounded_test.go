package relay

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// unlimitedRequest returns a non-streaming request without an output limit.
func unlimitedRequest(dialect protocol.Name) (path, body string) {
	switch dialect {
	case converseDialect:
		return "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}`
	case geminiDialect:
		return requestPath(dialect, false), geminiRequest
	}
	path, body = unboundedRequest(dialect)
	return path, withStream(body, false)
}

// longAnswers are the responses of longAnswer, which take a while to write.
var longAnswers sync.Map

// longAnswer returns a response of a number of words, each a token, in both forms of a dialect.
func longAnswer(t testing.TB, dialect protocol.Name, words int) (whole, stream string) {
	t.Helper()
	key := fmt.Sprint(dialect, words)
	if known, ok := longAnswers.Load(key); ok {
		both := known.([2]string)
		return both[0], both[1]
	}
	events := []llm.Event{llm.Start{ID: "a", Model: "m", Created: 7}, llm.BlockStart{Block: &llm.Text{}}}
	for range words {
		events = append(events, llm.Delta{Text: "word"})
	}
	events = append(events, llm.BlockEnd{}, llm.UsageUpdate{Usage: llm.Usage{Input: 3, Output: int64(words)}}, llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}, llm.End{})
	resp, err := protocoltest.Collect(events)
	if err != nil {
		t.Fatal(err)
	}
	codec := codecOf(t, dialect)
	whole = string(codec.EncodeResponse(resp, &llm.Request{}, &llm.Report{}))
	stream = string(protocoltest.WriteStream(codec, &llm.Request{Stream: true, IncludeUsage: true}, events))
	longAnswers.Store(key, [2]string{whole, stream})
	return whole, stream
}

// asRequested responds in the form that the request asks for.
func asRequested(dialect protocol.Name, whole, stream string) upstreamtest.Script {
	if dialect == converseDialect {
		return upstreamtest.Converse(whole, stream, 4<<10)
	}
	return func(c *upstreamtest.Conn) {
		script := upstreamtest.JSON(http.StatusOK, whole)
		if requestsStream(c.Request) {
			script = upstreamtest.StreamCut(stream, 4<<10)
		}
		script(c)
	}
}

// cheap sets the prices of the upstream: $1 and $2 per million tokens.
func cheap(t testing.TB, g *gateway) {
	t.Helper()
	book, err := usage.NewBook(usage.BookOptions{Rules: map[string]usage.Tariff{"up/*": {Input: "1", Output: "2"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := *g.state
	s.Books.Prices = book
	g.relay.Use(&s)
}

func eachOfFive(t *testing.T, f func(t *testing.T, client, upstream protocol.Name)) {
	t.Helper()
	for _, client := range fiveDialects {
		for _, upstream := range fiveDialects {
			t.Run(fmt.Sprintf("%s on %s", client, upstream), func(t *testing.T) { f(t, client, upstream) })
		}
	}
}

// TestBudgetEndsNonStreamingResponse checks that a key with $0.01 does not get a response worth
// $0.06: the gateway requests a stream, reserves 4,096 tokens at a time, and ends the request with
// an error in the client's dialect. The client pays for what was generated until then.
func TestBudgetEndsNonStreamingResponse(t *testing.T) {
	const cent = usage.Dollar / 100
	eachOfFive(t, func(t *testing.T, client, upstream protocol.Name) {
		books := newLedger(t, quota.Limit{Budget: cent})
		g := newGateway(t, books.use, speaking(upstream))
		cheap(t, g)
		whole, stream := longAnswer(t, upstream, 30_000)
		g.up.Answer(asRequested(upstream, whole, stream))
		path, body := unlimitedRequest(client)
		resp, got, err := g.post(t, path, body)
		status := http.StatusTooManyRequests
		if client == converseDialect {
			status = http.StatusBadRequest // of its ServiceQuotaExceededException
		}
		if err != nil || resp.StatusCode != status || !strings.Contains(got, "does not cover the rest of this response") {
			t.Fatalf("%v %s %s", err, resp.Status, got[:min(len(got), 500)])
		}
		if client != converseDialect {
			readFault(t, client, got)
		} else if !strings.Contains(got, `"ServiceQuotaExceededException"`) {
			t.Errorf("no exception: %s", got)
		}
		if after := resp.Header.Get("Retry-After"); after != "" {
			t.Errorf("Retry-After: %s", after)
		}
		if !requestsStream(g.up.Last(t)) {
			t.Error("the upstream was not asked for a stream")
		}
		row := books.one(t, g)
		if row.Outcome != usage.Failed || row.Status != status || !row.Estimated || row.Usage.Output <= outputStep || row.Usage.Output > outputStep+64<<10/bytesPerToken || *row.Cost > 4*cent {
			t.Errorf("%+v, cost %v", row, row.Cost)
		}
		if len(row.Attempts) != 1 || row.Attempts[0].Fault != "budget_exceeded" || !row.Attempts[0].Charged {
			t.Errorf("%+v", row.Attempts)
		}
		books.wantSpent(t, min(*row.Cost, cent))
		match, _ := g.relay.state.Load().Routes.Find("m")
		if s := match.Targets[0].Live.State(); !s.Ready {
			t.Errorf("the target is ejected: %+v", s)
		}
		if resp, got, _ := g.post(t, path, body); resp.StatusCode != status || len(g.up.Requests()) != 1 {
			t.Errorf("the same request again: %s %s", resp.Status, got)
		}
	})
}

// TestNonStreamingResponseWithinTheBudget checks that a long response is assembled for a caller
// whose budget covers it, and charged as the upstream reports.
func TestNonStreamingResponseWithinTheBudget(t *testing.T) {
	const words = 2*outputStep + 100
	eachOfFive(t, func(t *testing.T, client, upstream protocol.Name) {
		books := newLedger(t, quota.Limit{Budget: usage.Dollar, Requests: 1, Concurrency: 1})
		g := newGateway(t, books.use, speaking(upstream))
		whole, stream := longAnswer(t, upstream, words)
		g.up.Answer(asRequested(upstream, whole, stream))
		path, body := unlimitedRequest(client)
		resp, got, err := g.post(t, path, body)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%v %s %v %s", err, resp.Status, resp.Header, got[:min(len(got), 500)])
		}
		if readWhole(t, client, got) != readWhole(t, upstream, whole) {
			t.Errorf("the client got %s", got[:min(len(got), 500)])
		}
		if !requestsStream(g.up.Last(t)) {
			t.Error("the upstream was not asked for a stream")
		}
		wantRow(t, books.one(t, g), usage.Answered, costOf(3, words), "up/m OK charged")
		books.wantSpent(t, costOf(3, words))
	})
}

// TestNoBudgetKeepsBytes checks that a caller without a budget, and one whose request has an output
// limit, get the upstream's bytes, and the upstream gets theirs.
func TestNoBudgetKeepsBytes(t *testing.T) {
	for _, dialect := range fiveDialects {
		for name, c := range map[string]struct {
			limit   quota.Limit
			request func(protocol.Name) (path, body string)
		}{
			"no budget": {quota.Limit{Requests: 100, Tokens: 1 << 40, Concurrency: 5}, unlimitedRequest},
			"a limit":   {quota.Limit{Budget: usage.Dollar}, limitedRequest},
		} {
			t.Run(string(dialect)+", "+name, func(t *testing.T) {
				books := newLedger(t, c.limit)
				g := newGateway(t, books.use, speaking(dialect))
				whole, stream := longAnswer(t, dialect, 10)
				whole = strings.Replace(whole, "{", "{ ", 1) // bytes that no encoder writes
				g.up.Answer(asRequested(dialect, whole, stream))
				path, body := c.request(dialect)
				body = strings.Replace(body, ":", " : ", 1)
				resp, got, err := g.post(t, path, body)
				if err != nil || resp.StatusCode != http.StatusOK || got != whole {
					t.Errorf("%v %s, the client got\n%s\nwant\n%s", err, resp.Status, got, whole)
				}
				if sent := g.up.Last(t); string(sent.Body) != body || requestsStream(sent) {
					t.Errorf("the upstream got %s at %s", sent.Body, sent.Path)
				}
				wantRow(t, books.one(t, g), usage.Answered, costOf(3, 10), "up/m OK charged")
			})
		}
	}
}

// TestRequestsThatCannotStream checks that a request whose response cannot be a stream is sent as
// it is.
func TestRequestsThatCannotStream(t *testing.T) {
	for name, c := range map[string]struct{ path, body string }{
		"background": {"/v1/responses", `{"model":"m","background":true,"input":"Hi"}`},
		"compact":    {"/v1/responses/compact", `{"model":"m","input":"Hi"}`},
		"audio":      {chatPath, `{"model":"m","modalities":["text","audio"],"audio":{"format":"mp3","voice":"a"},"messages":[{"role":"user","content":"Hi"}]}`},
		"candidates": {"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"candidateCount":2}}`},
		"completion": {"/v1/completions", `{"model":"m","prompt":"Hi"}`},
		"embedding":  {"/v1/embeddings", `{"model":"m","input":"Hi"}`},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use, ownDialect(c.path))
			g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
			if _, _, err := g.post(t, c.path, c.body); err != nil {
				t.Fatal(err)
			}
			if sent := g.up.Last(t); string(sent.Body) != c.body || requestsStream(sent) {
				t.Errorf("the upstream got %s at %s", sent.Body, sent.Path)
			}
		})
	}
}

// TestUpstreamRefusesStreams checks that a non-streaming request is sent again as it is if the
// upstream does not stream its response. The response then passes unchanged.
func TestUpstreamRefusesStreams(t *testing.T) {
	const denied = `{"message":"User is not authorized to perform: bedrock:InvokeModelWithResponseStream on resource: x"}`
	for _, c := range []struct {
		dialect protocol.Name
		status  int
		refusal string
	}{
		{chatDialect, 400, `{"error":{"message":"Your organization must be verified.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}`},
		{chatDialect, 422, `{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error","param":null,"code":null}}`},
		{responsesDialect, 400, `{"error":{"message":"Streaming is not supported with this model.","type":"invalid_request_error","param":null,"code":null}}`},
		{anthropicDialect, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"stream: this model does not stream"}}`},
		{geminiDialect, 404, `{"error":{"code":404,"message":"models/m is not supported for streamGenerateContent.","status":"NOT_FOUND"}}`},
		{converseDialect, 403, denied},
		{converseDialect, 400, `{"message":"This model doesn't support tool use in streaming mode."}`},
	} {
		t.Run(fmt.Sprint(c.dialect, c.status), func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: usage.Dollar})
			g := newGateway(t, books.use, speaking(c.dialect), func(g *gateway) { g.state.Retries.Attempts = 1 })
			whole, _ := longAnswer(t, c.dialect, 10)
			g.up.Answer(func(conn *upstreamtest.Conn) {
				script := upstreamtest.JSON(http.StatusOK, whole)
				if requestsStream(conn.Request) {
					script = upstreamtest.JSON(c.status, c.refusal, "x-amzn-ErrorType", "ValidationException")
				}
				script(conn)
			})
			path, body := unlimitedRequest(c.dialect)
			resp, got, err := g.post(t, path, body)
			if err != nil || resp.StatusCode != http.StatusOK || got != whole || !strings.HasPrefix(resp.Header.Get("Isogloss-Attempts"), "2;failed=") {
				t.Errorf("%v %s %v\n%s", err, resp.Status, resp.Header, got)
			}
			if sent := g.up.Last(t); string(sent.Body) != body || len(g.up.Requests()) != 2 {
				t.Errorf("%d requests, the last is %s", len(g.up.Requests()), sent.Body)
			}
			wantRow(t, books.one(t, g), usage.Answered, costOf(3, 10), "up/m "+http.StatusText(c.status)+" "+fmt.Sprint(c.status), "up/m OK charged")
			g.wantIdle(t)
		})
	}
}

// TestOtherErrorsAreNotRepeated checks that an error that does not name streams is not sent again.
func TestOtherErrorsAreNotRepeated(t *testing.T) {
	for _, message := range []string{"the upstream is unhappy", "max_tokens is required"} {
		books := newLedger(t, quota.Limit{Budget: usage.Dollar})
		g := newGateway(t, books.use)
		g.up.Answer(upstreamtest.JSON(400, fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":null}}`, message)))
		if resp, got, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusBadRequest || len(g.up.Requests()) != 1 {
			t.Errorf("%s: %s %s, %d requests", message, resp.Status, got, len(g.up.Requests()))
		}
	}
}

// TestFailedPartDoesNotCount checks that the reservation of a response does not have to cover the
// tokens of a failed attempt, which the client does not pay for.
func TestFailedPartDoesNotCount(t *testing.T) {
	p, books := newCounted(t)
	books.caller.Accounts[0].Limit.Budget = 2 * costOf(promptOf(pairPlain), outputStep+1) // at "two", which costs twice as much
	part := strings.Repeat(chunkOf("word"), 3000)
	p.up.Answer(upstreamtest.Break(part))
	p.two.Answer(upstreamtest.Stream(part + stopChunk + tokensChunk + sentinel))
	resp, got, err := p.post(t, chatPath, pairPlain)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %s %s", err, resp.Status, got[:min(len(got), 500)])
	}
	wantRow(t, books.one(t, p.gateway), usage.Answered, 2*costOf(3, 2), "up/x OK upstream_truncated", "two/x OK charged")
}
