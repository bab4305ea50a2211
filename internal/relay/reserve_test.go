package relay

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Before anybody is asked, the most that the request can cost is taken from its
// budget; afterwards what it did not use is given back.
func TestReservation(t *testing.T) {
	const gem = "/v1beta/models/m:generateContent"
	for name, c := range map[string]struct {
		path, body string
		tokens     int64 // of the answer
		context    int64 // of the model
	}{
		"chat, no bound":             {chatPath, `{"model":"m","messages":[]}`, 4096, 0},
		"chat, max_tokens":           {chatPath, `{"model":"m","max_tokens":7,"messages":[]}`, 7, 0},
		"chat, max_completion_":      {chatPath, `{"model":"m","max_completion_tokens":8,"messages":[]}`, 8, 0},
		"chat, both":                 {chatPath, `{"model":"m","max_completion_tokens":8,"max_tokens":9,"messages":[]}`, 9, 0},
		"chat, choices":              {chatPath, `{"model":"m","n":3,"max_tokens":7,"messages":[]}`, 21, 0},
		"chat, choices, no bound":    {chatPath, `{"model":"m","n":3,"messages":[]}`, 3 * 4096, 0},
		"chat, no number":            {chatPath, `{"model":"m","max_tokens":"7","messages":[]}`, 4096, 0},
		"chat, below zero":           {chatPath, `{"model":"m","max_tokens":-7,"messages":[]}`, 4096, 0},
		"chat, null":                 {chatPath, `{"model":"m","max_tokens":null,"messages":[]}`, 4096, 0},
		"chat, a large prompt":       {chatPath, `{"model":"m","max_tokens":7,"messages":[],"user":"` + strings.Repeat("x", 1000) + `"}`, 7, 0},
		"chat, a full window":        {chatPath, `{"model":"m","max_tokens":7,"messages":[],"user":"` + strings.Repeat("x", 1000) + `"}`, 7, 100},
		"messages":                   {"/v1/messages", `{"model":"m","max_tokens":7,"messages":[]}`, 7, 0},
		"responses":                  {"/v1/responses", `{"model":"m","max_output_tokens":7,"input":"Hi"}`, 7, 0},
		"responses, no bound":        {"/v1/responses", `{"model":"m","max_tokens":7,"input":"Hi"}`, 4096, 0},
		"gemini":                     {gem, `{"contents":[],"generationConfig":{"maxOutputTokens":7}}`, 7, 0},
		"gemini, choices":            {gem, `{"contents":[],"generationConfig":{"candidateCount":3,"maxOutputTokens":7}}`, 21, 0},
		"gemini, no bound":           {gem, `{"contents":[],"generationConfig":{}}`, 4096, 0},
		"gemini, choices, no bound":  {gem, `{"contents":[],"generationConfig":{"candidateCount":2}}`, 2 * 4096, 0},
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
			g := newGateway(t, books.use, ownDialect(c.path))
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

// ownDialect makes the upstream speak what a path is of.
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

// A silly number is not a way around a budget.
func TestReservationDoesNotOverflow(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","max_tokens":9223372036854775807,"messages":[]}`,
		`{"model":"m","n":9223372036854775807,"messages":[]}`,
		`{"model":"m","n":4611686018427387904,"max_tokens":4,"messages":[]}`,
		`{"model":"m","n":2147483648,"max_tokens":4294967296,"messages":[]}`,
	} {
		books := newLedger(t, quota.Limit{Budget: usage.Dollar})
		g := newGateway(t, books.use, speaking(chatDialect))
		g.up.Answer(upstreamtest.JSON(200, plainAnswer))
		resp, got, _ := g.post(t, chatPath, body)
		if code, _ := readError(t, got); code != "budget_exceeded" || len(g.up.Requests()) != 0 {
			t.Errorf("%s: %s %s", body, resp.Status, got)
		}
		books.none(t, g)
	}
}

// A stream that names no bound is paid for 4,096 tokens at a time, and ended in its
// client's own words when nobody pays for more. The target is not to blame.
func TestStreamEndsWithItsBudget(t *testing.T) {
	eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
		path, body := unboundedAsk(client)
		prompt := promptOf(body)
		budget := costOf(prompt, 2*unboundedMost) + 100 // less than one token more
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
			t.Errorf("the client was told %s", got[max(0, len(got)-500):])
		}
		<-gone
		row := books.one(t, g)
		if row.Outcome != usage.Failed || !row.Estimated || row.Usage.Input != likelyOf(body) || row.Status != http.StatusOK ||
			row.Usage.Output <= 2*unboundedMost || row.Usage.Output > 2*unboundedMost+64<<10/bytesPerToken {
			t.Errorf("%+v", row)
		}
		if a := row.Attempts[0]; a.Fault != "budget_exceeded" || !a.Charged {
			t.Errorf("%+v", a)
		}
		match, _ := g.state.Routes.Find("m")
		if s := match.Targets[0].Live.State(); !s.Ready {
			t.Errorf("the target is taken out: %+v", s)
		}
	})
}

// unboundedAsk is a stream that names no bound.
func unboundedAsk(dialect protocol.Name) (path, body string) {
	path, body = simpleAsk(dialect, true)
	for _, bound := range []string{`"max_tokens":100,`, `"max_completion_tokens":100,`, `"max_output_tokens":100,`, `,"generationConfig":{"maxOutputTokens":100}`} {
		body = strings.Replace(body, bound, "", 1)
	}
	return path, body
}

// What a stream is paid for by is its budget alone: it has its place, and it is one
// request.
func TestLongStreamIsOneRequest(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: 10 * usage.Dollar, Requests: 1, Concurrency: 1, Tokens: 6000})
	g := newGateway(t, books.use)
	_, piece := flow(t, chatDialect)
	stream := strings.Repeat(piece, 60) + stopChunk + tokensChunk + sentinel
	g.up.Answer(upstreamtest.StreamCut(stream, len(piece)))
	if _, got, err := g.post(t, chatPath, streamAsk); err != nil || !strings.HasSuffix(got, sentinel) || strings.Contains(got, `"error"`) {
		t.Errorf("%v: %s", err, got[max(0, len(got)-500):])
	}
	wantRow(t, books.one(t, g), usage.Answered, costOf(3, 2), "up/real-chat OK charged")
	books.wantSpent(t, costOf(3, 2))
}

// An answer that is over is not ended once more because its last piece went beyond
// what was reserved, and nothing is reserved for it any more.
func TestLastPieceBeyondTheBudget(t *testing.T) {
	for name, path := range map[string]string{"verbatim": chatPath, "translated": "/v1/responses"} {
		t.Run(name, func(t *testing.T) {
			body := map[string]string{chatPath: streamAsk, "/v1/responses": `{"model":"real-chat","stream":true,"input":"Hi"}`}[path]
			books := newLedger(t, quota.Limit{Budget: costOf(promptOf(body), unboundedMost)})
			g := newGateway(t, books.use)
			_, piece := flow(t, chatDialect)
			stream := strings.Repeat(piece, 20) + stopChunk + tokensChunk + sentinel // in one read
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

// What is not streamed cannot be ended: it is charged for all of it, and the next
// request is refused.
func TestWholeAnswerBeyondTheReservation(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: costOf(promptOf(plainAsk), unboundedMost)})
	g := newGateway(t, books.use)
	g.up.Answer(upstreamtest.JSON(200, strings.Replace(plainAnswer, `"completion_tokens":2`, `"completion_tokens":9000`, 1)))
	if resp, got, _ := g.post(t, chatPath, plainAsk); resp.StatusCode != http.StatusOK {
		t.Fatal(got)
	}
	wantRow(t, books.one(t, g), usage.Answered, costOf(3, 9000), "up/real-chat OK charged")
	resp, got, _ := g.post(t, chatPath, plainAsk)
	if code, _ := readError(t, got); code != "budget_exceeded" || resp.Header.Get("Retry-After") != "" {
		t.Errorf("%s %s", resp.Status, got)
	}
	if rows := books.all(t); len(rows) != 1 || len(g.up.Requests()) != 1 {
		t.Errorf("%d rows, %d requests", len(rows), len(g.up.Requests()))
	}
}

// A client that leaves has its reservation back, but for what it had, before the
// upstream has said another word.
func TestLeavingFreesTheReservation(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: usage.Dollar, Concurrency: 1})
	g := newGateway(t, books.use)
	g.up.Answer(silence(func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(canaryChunk) }))
	c, r := g.dial(t)
	_, _ = io.WriteString(c, rawPost(chatPath, streamAsk, len(streamAsk)))
	readUntil(t, r, "canary")
	books.wantSpent(t, costOf(promptOf(streamAsk), unboundedMost))
	if resp, got, _ := g.post(t, chatPath, plainAsk); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(got, "rate_limit_concurrency") {
		t.Errorf("beside it: %s %s", resp.Status, got)
	}
	leave(c, true)
	eventually(t, "nothing is held", func() bool { return books.quotas.Snapshot().Open == 0 })
	books.wantSpent(t, costOf(likelyOf(streamAsk), 1))
	g.up.Answer(upstreamtest.JSON(200, plainAnswer))
	if resp, got, _ := g.post(t, chatPath, plainAsk); resp.StatusCode != http.StatusOK {
		t.Errorf("after it: %s %s", resp.Status, got)
	}
}

// What was said is counted in tokens without being read.
func TestSpokenTokens(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []int
		want   int64
	}{
		{"nothing", nil, 0},
		{"an event", []int{200}, 1},
		{"events of a token", []int{200, 203, 199, 205}, 4},
		{"a long one after short ones", []int{200, 200, 600}, 3 + 100},
		{"a long one first", []int{600, 200, 200}, 3},
		{"as long as a token can be", []int{200, 200 + tokenBytes}, 2},
		{"longer than that", []int{200, 200 + tokenBytes + 4}, 2 + 4},
		{"no bytes", []int{0, 0}, 2},
	} {
		var s spokenTokens
		for _, size := range c.events {
			s.event(size)
		}
		if s.n != c.want {
			t.Errorf("%s: %d tokens, want %d", c.name, s.n, c.want)
		}
	}
}

func FuzzSpokenTokens(f *testing.F) {
	f.Add([]byte{1, 2, 200})
	f.Add([]byte{255, 0, 13})
	f.Fuzz(func(t *testing.T, sizes []byte) {
		var byEvent, byText spokenTokens
		bytes := int64(0)
		for i, size := range sizes {
			before, text := byEvent.n, byText.n
			n := int(size)*3 + 1 // an event of no bytes has nothing in it
			byEvent.event(n)
			byText.text(n)
			bytes += int64(n)
			if byEvent.n <= before || byText.n <= text {
				t.Fatalf("event %d of %d bytes counts for nothing", i, n)
			}
			if byEvent.n > bytes || byText.n > bytes {
				t.Fatalf("%d and %d tokens in %d bytes", byEvent.n, byText.n, bytes)
			}
		}
		if s := fmt.Sprint(byEvent.n, byText.n); byEvent.n > byText.n {
			t.Fatal("wrapping counts as text: " + s)
		}
	})
}
