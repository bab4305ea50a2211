package relay

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// lane is a combination of client request and upstream response format.
type lane struct {
	name, path, body string
	change           func(*gateway)
	stream           bool // the client requests a stream
	events           bool // the upstream responds with a stream
	dialect          string
}

func lanes() []lane {
	const chat = `{"model":"real-chat","max_tokens":16,"messages":[{"role":"user","content":"Hi"}]}`
	streamed := strings.Replace(chat, `"max_tokens"`, `"stream":true,"max_tokens"`, 1)
	same := func(*gateway) {}
	return []lane{
		{"verbatim, streamed", chatPath, streamed, same, true, true, "openai-chat"},
		{"verbatim, whole", chatPath, chat, same, false, false, "openai-chat"},
		{"verbatim, collected", chatPath, chat, always, false, true, "openai-chat"},
		{"verbatim, taken apart", chatPath, streamed, same, true, false, "openai-chat"},
		{"translated, streamed", "/v1/messages", streamed, same, true, true, "anthropic"},
		{"translated, whole", "/v1/messages", chat, same, false, false, "anthropic"},
		{"translated, collected", "/v1/messages", chat, always, false, true, "anthropic"},
		{"translated, taken apart", "/v1/messages", streamed, same, true, false, "anthropic"},
	}
}

// upstreamScripts is an upstream's response in both formats. A lane uses one of them.
type upstreamScripts struct{ stream, whole upstreamtest.Script }

func (l lane) script(a upstreamScripts) upstreamtest.Script {
	if l.events {
		return a.stream
	}
	return a.whole
}

const (
	canaryChunk = `data: {"id":"c1","choices":[{"index":0,"delta":{"content":"canary"},"finish_reason":null}]}` + "\n\n"
	failChunk   = `data: {"error":{"message":"broken","type":"server_error","param":null,"code":null}}` + "\n\n"
	silentWhole = `{"id":"c1","object":"chat.completion","created":1,"model":"real-chat","choices":[{"index":0,"message":{"role":"assistant","content":"four words of text"},"finish_reason":"stop"}]}`
)

// silence calls begin and then sends nothing until the connection is closed.
func silence(begin func(*upstreamtest.Conn)) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		begin(c)
		c.Gone(never)
	}
}

// client sends a request and reads some or all of the response. It returns the response's
// status, or 0 if it disconnected before one arrived.
type client func(t testing.TB, g *gateway, l lane) int

func readsAll(t testing.TB, g *gateway, l lane) int {
	resp, _, _ := g.post(t, l.path, l.body)
	return resp.StatusCode
}

// disconnectsAfter returns a client that disconnects when it has read text. Without a
// text it disconnects when the upstream has received the request.
func disconnectsAfter(text string) client {
	return func(t testing.TB, g *gateway, l lane) int {
		c, r := g.dial(t)
		_, _ = io.WriteString(c, rawPost(l.path, l.body, len(l.body)))
		if text == "" {
			eventually(t, "the upstream was asked", func() bool { return len(g.up.Requests()) == 1 })
			disconnect(c, true)
			return 0
		}
		readUntil(t, r, text)
		disconnect(c, true)
		return http.StatusOK
	}
}

// disconnectsOn returns a client that disconnects when read receives a value.
func disconnectsOn(read <-chan struct{}) client {
	return func(t testing.TB, g *gateway, l lane) int {
		c, _ := g.dial(t)
		_, _ = io.WriteString(c, rawPost(l.path, l.body, len(l.body)))
		<-read
		disconnect(c, true)
		return 0
	}
}

// beingRead sends more of a stream than the socket buffers hold, and then signals read:
// the gateway must be reading it.
func beingRead(read chan<- struct{}) func(*upstreamtest.Conn) {
	return func(c *upstreamtest.Conn) {
		c.BeginStream()
		c.Chunk(canaryChunk)
		comment := ": " + strings.Repeat("x", 64<<10) + "\n\n"
		for range 256 {
			c.Chunk(comment)
		}
		read <- struct{}{}
	}
}

func readUntil(t testing.TB, r *bufio.Reader, text string) string {
	t.Helper()
	var got []byte
	for !strings.Contains(string(got), text) {
		b, err := r.ReadByte()
		if err != nil {
			t.Fatalf("%v after %q", err, got)
		}
		got = append(got, b)
	}
	return string(got)
}

// ending describes one way in which an exchange ends, and the row that it must write.
type ending struct {
	name    string
	of      func(lane) bool // nil: all lanes
	scripts upstreamScripts
	change  func(*gateway)
	client  client // nil: reads the whole response
	want    usage.Row
	prompt  bool // the input tokens are estimated from the request body
	more    int64
	fault   string // of the attempt
	status  int    // of the attempt
	free    bool   // the attempt is not charged
	timed   bool   // it depends on time, so it runs in a bubble
}

func endings() []ending {
	streams := func(l lane) bool { return l.stream && l.events }
	whole := func(l lane) bool { return !l.stream }
	events := func(l lane) bool { return l.events }
	text := canaryChunk + canaryChunk
	complete := upstreamScripts{upstreamtest.Stream(text + stopChunk + tokensChunk + sentinel), upstreamtest.JSON(200, plainResponse)}
	begun := upstreamScripts{silence(func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(canaryChunk) }), nil}
	read := make(chan struct{})
	silent := upstreamScripts{silence(func(*upstreamtest.Conn) {}), silence(func(*upstreamtest.Conn) {})}
	refused := upstreamtest.JSON(500, `{"error":{"message":"no","type":"server_error","param":null,"code":null}}`)
	left := usage.Row{Outcome: usage.Left, Estimated: true}
	failed, broken := usage.Row{Outcome: usage.Failed}, usage.Row{Outcome: usage.Failed, Estimated: true, Usage: llm.Usage{Output: 1}}
	return []ending{
		{name: "answered", scripts: complete, want: usage.Row{Outcome: usage.Answered, Usage: llm.Usage{Input: 3, Output: 2}}, status: 200},
		{name: "answered, no usage reported", scripts: upstreamScripts{upstreamtest.Stream(text + stopChunk + sentinel), upstreamtest.JSON(200, silentWhole)},
			want: usage.Row{Outcome: usage.Answered, Estimated: true, Usage: llm.Usage{Output: 2}}, prompt: true, more: int64(len(silentWhole)) / bytesPerToken, status: 200},
		{name: "the client disconnects at once", scripts: silent, client: disconnectsAfter(""), want: left, prompt: true, fault: "cancelled"},
		{name: "the client disconnects while it is collected", of: func(l lane) bool { return l.events && !l.stream }, scripts: upstreamScripts{silence(beingRead(read)), nil},
			client: disconnectsOn(read), want: left, prompt: true, fault: "cancelled", status: 200},
		{name: "the client disconnects in mid-stream", of: streams, scripts: begun, client: disconnectsAfter("canary"),
			want: usage.Row{Outcome: usage.Left, Estimated: true, Usage: llm.Usage{Output: 1}}, prompt: true, fault: "cancelled", status: 200},
		{name: "the client disconnects after the last event", of: streams, client: disconnectsAfterTheEnd,
			scripts: upstreamScripts{silence(func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(text + stopChunk + tokensChunk + sentinel) }), nil},
			want:    usage.Row{Outcome: usage.Answered, Usage: llm.Usage{Input: 3, Output: 2}}, status: 200},
		{name: "refused by the upstream", scripts: upstreamScripts{refused, refused}, want: failed, fault: "500", status: 500, free: true},
		{name: "cut in mid-stream", of: streams, scripts: upstreamScripts{upstreamtest.Break(canaryChunk), nil}, want: broken, prompt: true, fault: "upstream_truncated", status: 200},
		{name: "cut while it is collected", of: func(l lane) bool { return events(l) && whole(l) }, scripts: upstreamScripts{upstreamtest.Break(canaryChunk), nil},
			want: failed, fault: "upstream_truncated", status: 200, free: true},
		{name: "ended too early", of: streams, scripts: upstreamScripts{upstreamtest.Stream(canaryChunk), nil}, want: broken, prompt: true, fault: "upstream_truncated", status: 200},
		{name: "ended in an event", of: streams, scripts: upstreamScripts{upstreamtest.Stream(strings.TrimSpace(canaryChunk)), nil}, want: broken, prompt: true, fault: "upstream_truncated", status: 200},
		{name: "an error in its own piece", of: streams, scripts: upstreamScripts{inPieces(canaryChunk, failChunk), nil}, want: broken, prompt: true, status: 200, fault: "?", timed: true},
		{name: "an error in the same piece", of: streams, scripts: upstreamScripts{upstreamtest.Stream(canaryChunk + failChunk), nil}, want: broken, prompt: true, status: 200, fault: "?"},
		{name: "an error before anything", of: events, scripts: upstreamScripts{upstreamtest.Stream(failChunk), nil}, want: failed, status: 200, fault: "?", free: true},
		{name: "silent from the start", scripts: silent, change: within(soon, never, never), want: failed, fault: "timeout_first_byte", free: true, timed: true},
		{name: "silent in mid-stream", of: streams, scripts: begun, change: within(never, soon, never), want: broken, prompt: true, fault: "timeout_idle", status: 200, timed: true},
		{name: "not there", change: func(g *gateway) { g.provider.BaseURL.Host = "127.0.0.1:1" }, want: failed, fault: "upstream_unreachable", free: true},
	}
}

// inPieces sends each part of a stream after the gateway has handled the one before it.
// Use it in a bubble.
func inPieces(parts ...string) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		c.BeginStream()
		for _, p := range parts {
			c.Chunk(p)
			time.Sleep(time.Millisecond)
		}
		c.EndStream()
	}
}

func disconnectsAfterTheEnd(t testing.TB, g *gateway, l lane) int {
	return disconnectsAfter(lastEventOf(l.dialect))(t, g, l)
}

// lastEventOf returns the beginning of the last event of a dialect's stream.
func lastEventOf(dialect string) string {
	return map[string]string{"openai-chat": "data: [DONE]", "anthropic": `"message_stop"`, "openai-responses": `"type":"response.completed"`, "gemini": `"finishReason"`}[dialect]
}

// TestEveryEndHasOneRow checks that every exchange writes one row with the correct
// outcome, usage and cost, and that the budget is charged exactly that cost.
func TestEveryEndHasOneRow(t *testing.T) {
	for _, l := range lanes() {
		for _, e := range endings() { // called per lane, because the cases run in parallel and share channels
			if e.of != nil && !e.of(l) {
				continue
			}
			t.Run(e.name+"/"+l.name, func(t *testing.T) {
				t.Parallel()
				if e.timed {
					inBubble(t, func(t bubble) { testEnding(t, e, l) })
					return
				}
				testEnding(t, e, l)
			})
		}
	}
}

func testEnding(t testing.TB, e ending, l lane) {
	books := newLedger(t, quota.Limit{Budget: 10 * usage.Dollar})
	changes := []func(*gateway){books.use, l.change}
	if e.change != nil {
		changes = append(changes, e.change)
	}
	g := newGateway(t, changes...)
	g.up.Answer(l.script(e.scripts))
	if e.client == nil {
		e.client = readsAll
	}
	status := e.client(t, g, l)
	row := books.one(t, g)

	want := e.want
	if e.prompt {
		want.Usage.Input = likelyOf(l.body)
	}
	if row.Outcome != want.Outcome || row.Status != status || row.Estimated != want.Estimated {
		t.Errorf("outcome %s, status %d, estimated %t; want %s, %d, %t", row.Outcome, row.Status, row.Estimated, want.Outcome, status, want.Estimated)
	}
	if over := row.Usage.Output - want.Usage.Output; over >= 0 && over <= max(e.more, 1) && want.Outcome == usage.Answered && want.Estimated {
		want.Usage.Output = row.Usage.Output // an estimate may count the final event, or a non-streaming body's envelope
	}
	if row.Usage != want.Usage {
		t.Errorf("usage %+v, want %+v", row.Usage, want.Usage)
	}
	cost := costOf(want.Usage.Input, want.Usage.Output)
	if row.Cost == nil || *row.Cost != cost {
		t.Errorf("cost %v, want %v", row.Cost, cost)
	}
	books.wantSpent(t, cost)
	endpoint := map[string]string{chatPath: "chat_completions", "/v1/messages": "messages"}[l.path]
	if row.Endpoint != endpoint || row.Dialect != l.dialect || row.Model != "real-chat" || row.Target != "up/real-chat" || row.Stream != l.stream {
		t.Errorf("%+v", row)
	}
	wantAttempt(t, e, row)
}

func wantAttempt(t testing.TB, e ending, row usage.Row) {
	t.Helper()
	if len(row.Attempts) != 1 {
		t.Fatalf("attempts %+v", row.Attempts)
	}
	a := row.Attempts[0]
	if e.fault == "?" && a.Fault != "" { // the upstream's own error code
		a.Fault = "?"
	}
	if a.Target != "up/real-chat" || a.Fault != e.fault || a.Status != e.status || a.Charged == e.free || a.Began.IsZero() {
		t.Errorf("attempt %+v, want fault %q, status %d, charged %t", a, e.fault, e.status, !e.free)
	}
	if a.Usage != row.Usage || a.Cost == nil || *a.Cost != *row.Cost {
		t.Errorf("the attempt has %+v and %v, the row %+v and %v", a.Usage, a.Cost, row.Usage, *row.Cost)
	}
}
