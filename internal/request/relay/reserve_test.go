package relay

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestReservation checks that the maximum cost of a request is reserved before the
// upstream request and that the unused part is refunded afterwards.
func TestReservation(t *testing.T) {
	const gem = "/v1beta/models/m:generateContent"
	for name, c := range map[string]struct {
		path, body string
		tokens     int64 // reserved output tokens
		context    int64 // the model's context window
	}{
		"chat, no bound":           {chatPath, `{"model":"m","messages":[]}`, 4096, 0},
		"chat, max_tokens":         {chatPath, `{"model":"m","max_tokens":7,"messages":[]}`, 7, 0},
		"chat, max_completion_":    {chatPath, `{"model":"m","max_completion_tokens":8,"messages":[]}`, 8, 0},
		"chat, both":               {chatPath, `{"model":"m","max_completion_tokens":8,"max_tokens":9,"messages":[]}`, 9, 0},
		"chat, choices":            {chatPath, `{"model":"m","n":3,"max_tokens":7,"messages":[]}`, 21, 0},
		"chat, choices, no bound":  {chatPath, `{"model":"m","n":3,"messages":[]}`, 3 * 4096, 0},
		"chat, no number":          {chatPath, `{"model":"m","max_tokens":"7","messages":[]}`, 4096, 0},
		"chat, text":               {chatPath, `{"model":"m","max_tokens":"100000","messages":[]}`, 100000, 0},
		"chat, exponent":           {chatPath, `{"model":"m","max_tokens":1e5,"messages":[]}`, 100000, 0},
		"chat, choices as a float": {chatPath, `{"model":"m","n":128.0,"max_tokens":7,"messages":[]}`, 128 * 7, 0},
		"chat, choices as text":    {chatPath, `{"model":"m","n":"3","max_tokens":7,"messages":[]}`, 21, 0},
		"chat, below zero":         {chatPath, `{"model":"m","max_tokens":-7,"messages":[]}`, 4096, 0},
		"chat, null":               {chatPath, `{"model":"m","max_tokens":null,"messages":[]}`, 4096, 0},
		"chat, a large prompt":     {chatPath, `{"model":"m","max_tokens":7,"messages":[],"user":"` + strings.Repeat("x", 1000) + `"}`, 7, 0},
		"chat, a full window":      {chatPath, `{"model":"m","max_tokens":7,"messages":[],"user":"` + strings.Repeat("x", 1000) + `"}`, 7, 100},
		"messages":                 {"/v1/messages", `{"model":"m","max_tokens":7,"messages":[]}`, 7, 0},
		"responses":                {"/v1/responses", `{"model":"m","max_output_tokens":7,"input":"Hi"}`, 7, 0},
		"responses, no bound":      {"/v1/responses", `{"model":"m","max_tokens":7,"input":"Hi"}`, 4096, 0},
		"chat, a limit below the smallest one on a Responses upstream": {chatPath, `{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"Hi"}]}`, 16, 0},
		"chat, a limit above the smallest one on a Responses upstream": {chatPath, `{"model":"m","max_tokens":17,"messages":[{"role":"user","content":"Hi"}]}`, 17, 0},
		"gemini":                     {gem, `{"contents":[],"generationConfig":{"maxOutputTokens":7}}`, 7, 0},
		"gemini, choices":            {gem, `{"contents":[],"generationConfig":{"candidateCount":3,"maxOutputTokens":7}}`, 21, 0},
		"gemini, no bound":           {gem, `{"contents":[],"generationConfig":{}}`, 4096, 0},
		"gemini, choices, no bound":  {gem, `{"contents":[],"generationConfig":{"candidateCount":2}}`, 2 * 4096, 0},
		"gemini, snake case":         {gem, `{"contents":[],"generation_config":{"candidate_count":3,"max_output_tokens":7}}`, 21, 0},
		"gemini, both":               {gem, `{"contents":[],"generationConfig":{"maxOutputTokens":7},"generation_config":{"maxOutputTokens":9,"candidateCount":2}}`, 18, 0},
		"gemini, odd":                {gem, `{"contents":[],"generationConfig":7}`, 4096, 0},
		"completions":                {"/v1/completions", `{"model":"m","max_tokens":7,"prompt":"Hi"}`, 7, 0},
		"completions, best of":       {"/v1/completions", `{"model":"m","max_tokens":7,"best_of":4,"prompt":"Hi"}`, 28, 0},
		"completions, two prompts":   {"/v1/completions", `{"model":"m","max_tokens":7,"prompt":["Hi","Ho"]}`, 14, 0},
		"completions, tokens":        {"/v1/completions", `{"model":"m","max_tokens":7,"prompt":[1,2,3]}`, 7, 0},
		"embeddings":                 {"/v1/embeddings", `{"model":"m","max_tokens":7,"input":"Hi"}`, 0, 0},
		"counting tokens costs zero": {"/v1/messages/count_tokens", `{"model":"m","messages":[]}`, -1, 0},
		"gemini, counting":           {"/v1beta/models/m:countTokens", `{"contents":[]}`, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t, quota.Limit{Budget: 10 * usage.Dollar})
			up := ownDialect(c.path)
			if strings.HasSuffix(name, "on a Responses upstream") {
				up = speaking(responsesDialect)
			}
			g := newGateway(t, books.use, up)
			if c.context > 0 {
				book, err := usage.NewBook(usage.BookOptions{Rules: map[string]usage.Tariff{"up/*": {Input: "1", Output: "10", Context: c.context}}})
				if err != nil {
					t.Fatal(err)
				}
				s := *g.state
				s.Books.Prices = book
				g.relay.Use(&s)
			}
			go1 := make(chan bool)
			g.up.Answer(func(conn *upstreamtest.Conn) {
				go1 <- true
				<-go1
				conn.Whole(500, "application/json", busy)
			})
			answered := make(chan bool)
			go func() {
				defer close(answered)
				resp := g.open(t, c.path, c.body)
				_ = resp.Body.Close()
			}()
			<-go1
			prompt := promptOf(c.body)
			if c.context > 0 {
				prompt = c.context
			}
			want := costOf(prompt, c.tokens)
			if c.tokens < 0 {
				want = 0
			}
			books.wantSpent(t, want)
			go1 <- true
			<-answered
			books.one(t, g)
			books.wantSpent(t, 0)
		})
	}
}

// ownDialect sets the upstream's dialect to that of a path.
func ownDialect(path string) func(*gateway) {
	switch {
	case strings.HasPrefix(path, "/v1/messages"):
		return speaking(anthropicDialect)
	case strings.HasPrefix(path, "/v1/responses"):
		return speaking(responsesDialect)
	case strings.HasPrefix(path, "/v1beta"):
		return speaking(geminiDialect)
	}
	return speaking(chatDialect)
}

// TestReservationDoesNotOverflow checks that a huge output limit cannot bypass a budget
// by integer overflow.
func TestReservationDoesNotOverflow(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","max_tokens":9223372036854775807,"messages":[]}`:       "budget_exceeded",
		`{"model":"m","n":9223372036854775807,"messages":[]}`:                "invalid_type",
		`{"model":"m","n":4611686018427387904,"max_tokens":4,"messages":[]}`: "invalid_type",
		`{"model":"m","n":2147483648,"max_tokens":4294967296,"messages":[]}`: "budget_exceeded",
	} {
		books := newLedger(t, quota.Limit{Budget: usage.Dollar})
		g := newGateway(t, books.use, speaking(chatDialect))
		g.up.Answer(upstreamtest.JSON(200, plainResponse))
		resp, got, _ := g.post(t, chatPath, body)
		if code, _ := readError(t, got); code != want || len(g.up.Requests()) != 0 {
			t.Errorf("%s: %s %s", body, resp.Status, got)
		}
		books.none(t, g)
	}
}

// TestStreamEndsWithItsBudget checks that a stream without an output limit reserves 4,096
// tokens at a time and ends with an error in the client's dialect when the budget is
// exhausted. The target stays healthy.
func TestStreamEndsWithItsBudget(t *testing.T) {
	eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
		path, body := unboundedRequest(client)
		prompt := promptOf(body)
		budget := costOf(prompt, 2*outputStep) + 100 // less than the price of one more token
		books := newLedger(t, quota.Limit{Budget: budget})
		g := newGateway(t, books.use, speaking(upstream))
		begin, piece := flow(t, upstream)
		gone := make(chan bool, 1)
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.BeginStream()
			c.Chunk(begin)
			for n := 5; c.Chunk(strings.Replace(piece, `"sequence_number":5`, fmt.Sprintf(`"sequence_number":%d`, n), 1)); {
				n++
			}
			gone <- true
		})
		_, got, err := g.post(t, path, body)
		if err != nil {
			t.Fatal(err)
		}
		wantFailed(t, client, got)
		if !strings.Contains(got, "budget") {
			t.Errorf("the client got %s", got[max(0, len(got)-500):])
		}
		<-gone
		row := books.one(t, g)
		if row.Outcome != usage.Failed || !row.Estimated || row.Usage.Input != likelyOf(body) || row.Status != http.StatusOK ||
			row.Usage.Output <= 2*outputStep || row.Usage.Output > 2*outputStep+64<<10/bytesPerToken {
			t.Errorf("%+v", row)
		}
		if a := row.Attempts[0]; a.Fault != "budget_exceeded" || !a.Charged {
			t.Errorf("%+v", a)
		}
		match, _ := g.relay.state.Load().Routes.Find("m")
		if s := match.Targets[0].Live.State(); !s.Ready {
			t.Errorf("the target is taken out: %+v", s)
		}
	})
}

// unboundedRequest returns a streaming request without an output limit.
func unboundedRequest(dialect protocol.Name) (path, body string) {
	path, body = simpleRequest(dialect, true)
	for _, bound := range []string{`"max_tokens":100,`, `"max_completion_tokens":100,`, `"max_output_tokens":100,`, `,"generationConfig":{"maxOutputTokens":100}`} {
		body = strings.Replace(body, bound, "", 1)
	}
	return path, body
}

// TestLongStreamIsOneRequest checks that the further reservations of a long stream count
// neither as requests nor as concurrent requests nor against the token rate.
func TestLongStreamIsOneRequest(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: 10 * usage.Dollar, Requests: 1, Concurrency: 1, Tokens: 6000})
	g := newGateway(t, books.use)
	_, piece := flow(t, chatDialect)
	stream := strings.Repeat(piece, 60) + stopChunk + tokensChunk + sentinel
	g.up.Answer(upstreamtest.StreamCut(stream, len(piece)))
	if _, got, err := g.post(t, chatPath, streamRequest); err != nil || !strings.HasSuffix(got, sentinel) || strings.Contains(got, `"error"`) {
		t.Errorf("%v: %s", err, got[max(0, len(got)-500):])
	}
	wantRow(t, books.one(t, g), usage.Answered, costOf(3, 2), "up/real-chat OK charged")
	books.wantSpent(t, costOf(3, 2))
}

// TestLastPieceBeyondTheBudget checks that a stream whose last read exceeds the
// reservation and also completes the response ends without an error and without another
// reservation.
func TestLastPieceBeyondTheBudget(t *testing.T) {
	for name, path := range map[string]string{"verbatim": chatPath, "translated": "/v1/responses"} {
		t.Run(name, func(t *testing.T) {
			body := map[string]string{chatPath: streamRequest, "/v1/responses": `{"model":"real-chat","stream":true,"input":"Hi"}`}[path]
			books := newLedger(t, quota.Limit{Budget: costOf(promptOf(body), outputStep)})
			g := newGateway(t, books.use)
			_, piece := flow(t, chatDialect)
			stream := strings.Repeat(piece, 20) + stopChunk + tokensChunk + sentinel // arrives in one read
			g.up.Answer(func(c *upstreamtest.Conn) {
				c.Whole(200, "text/event-stream", stream)
			})
			_, got, err := g.post(t, path, body)
			if err != nil || strings.Contains(got, "budget") {
				t.Errorf("%v: %s", err, got[max(0, len(got)-500):])
			}
			wantRow(t, books.one(t, g), usage.Answered, costOf(3, 2), "up/real-chat OK charged")
		})
	}
}

// TestNonStreamingResponseBeyondTheReservation checks that a non-streaming response that
// exceeds its reservation is delivered and charged in full, and that the next request is
// rejected.
func TestNonStreamingResponseBeyondTheReservation(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: costOf(promptOf(plainRequest), outputStep)})
	g := newGateway(t, books.use)
	g.up.Answer(upstreamtest.JSON(200, strings.Replace(plainResponse, `"completion_tokens":2`, `"completion_tokens":9000`, 1)))
	if resp, got, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusOK {
		t.Fatal(got)
	}
	wantRow(t, books.one(t, g), usage.Answered, costOf(3, 9000), "up/real-chat OK charged")
	resp, got, _ := g.post(t, chatPath, plainRequest)
	if code, _ := readError(t, got); code != "budget_exceeded" || resp.Header.Get("Retry-After") != "" {
		t.Errorf("%s %s", resp.Status, got)
	}
	if rows := books.all(t); len(rows) != 1 || len(g.up.Requests()) != 1 {
		t.Errorf("%d rows, %d requests", len(rows), len(g.up.Requests()))
	}
}

// TestDisconnectReleasesTheReservation checks that a client's disconnect refunds the
// unused reservation at once, even if the upstream stays silent.
func TestDisconnectReleasesTheReservation(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: usage.Dollar, Concurrency: 1})
	g := newGateway(t, books.use)
	g.up.Answer(silence(func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(canaryChunk) }))
	c, r := g.dial(t)
	_, _ = io.WriteString(c, rawPost(chatPath, streamRequest, len(streamRequest)))
	readUntil(t, r, "canary")
	books.wantSpent(t, costOf(promptOf(streamRequest), outputStep))
	if resp, got, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(got, "rate_limit_concurrency") {
		t.Errorf("beside it: %s %s", resp.Status, got)
	}
	disconnect(c, true)
	eventually(t, "nothing is held", func() bool { return books.quotas.Snapshot().Open == 0 })
	books.wantSpent(t, costOf(likelyOf(streamRequest), 1))
	g.up.Answer(upstreamtest.JSON(200, plainResponse))
	if resp, got, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusOK {
		t.Errorf("after it: %s %s", resp.Status, got)
	}
}
