package relay

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	reasonedChunk = `data: {"id":"c1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5002,"total_tokens":5009,"completion_tokens_details":{"reasoning_tokens":5000}}}` + "\n\n"
	eventFrames   = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\nConnection: close\r\n\r\n"
)

// finished is a stream whose client disconnects when it has read the finish reason.
type finished struct {
	name       string
	change     func(*gateway)
	path, body string
	head       string // up to the finish reason
	until      string // what the client reads
	usage      string // comes after the finish reason; empty: it comes with it
	end        string
	frames     bool // of Amazon's event stream
	want       llm.Usage
}

func finishedStreams() []finished {
	chat := finished{change: speaking(chatDialect), head: textChunk + stopChunk, until: `"finish_reason":"stop"`, usage: reasonedChunk, end: sentinel, want: llm.Usage{Input: 7, Output: 2, Reasoning: 5000}}
	chat.path, chat.body = simpleRequest(chatDialect, true)
	as := func(name string, change func(*finished)) finished {
		f := chat
		f.name = name
		change(&f)
		return f
	}
	const (
		geminiHead  = `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"canary"}]},"finishReason":"STOP","index":0}],"modelVersion":"m","responseId":"r"}` + "\r\n\r\n"
		geminiUsage = `data: {"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"thoughtsTokenCount":5000,"totalTokenCount":5009},"modelVersion":"m","responseId":"r"}` + "\r\n\r\n"
		claudeHead  = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":1}}}` + "\n\n" +
			"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"canary"}}` + "\n\n" +
			"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
			"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5002}}` + "\n\n"
		converseHead  = `data: {"messageStart":{"role":"assistant"}}` + "\n\n" + `data: {"contentBlockDelta":{"contentBlockIndex":0,"delta":{"text":"canary"}}}` + "\n\n" + `data: {"contentBlockStop":{"contentBlockIndex":0}}` + "\n\n" + `data: {"messageStop":{"stopReason":"end_turn"}}` + "\n\n"
		converseUsage = `data: {"metadata":{"usage":{"inputTokens":7,"outputTokens":5002,"totalTokens":5009},"metrics":{"latencyMs":1}}}` + "\n\n"
	)
	whole := llm.Usage{Input: 7, Output: 5002}
	return []finished{
		as("chat", func(*finished) {}),
		as("chat with usage", func(f *finished) {
			f.body = strings.Replace(f.body, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
		}),
		as("two choices", func(f *finished) {
			f.body = strings.Replace(f.body, `"stream":true`, `"stream":true,"n":2`, 1)
			f.head += strings.ReplaceAll(textChunk+stopChunk, `"index":0`, `"index":1`)
			f.until = `"index":1,"delta":{},"finish_reason":"stop"`
		}),
		as("text completion", func(f *finished) {
			f.path, f.body = "/v1/completions", `{"model":"real-chat","stream":true,"max_tokens":9,"prompt":"Hi"}`
			f.head = `data: {"id":"c1","choices":[{"index":0,"text":"canary","finish_reason":"stop"}]}` + "\n\n"
		}),
		as("gemini", func(f *finished) {
			f.path, f.body = simpleRequest(geminiDialect, true)
			f.change, f.head, f.until, f.usage, f.end = speaking(geminiDialect), geminiHead, `"finishReason":"STOP"`, geminiUsage, ""
		}),
		as("anthropic", func(f *finished) {
			f.path, f.body = simpleRequest(anthropicDialect, true)
			f.change, f.head, f.until, f.usage, f.end, f.want = speaking(anthropicDialect), claudeHead, `"stop_reason":"end_turn"`, "", "", whole
		}),
		as("converse", func(f *finished) {
			f.path, f.body = "/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}`
			f.change, f.head, f.until, f.usage, f.end, f.frames, f.want = speaking(converseDialect), converseHead, `"stopReason":"end_turn"`, converseUsage, "", true, whole
		}),
		as("chat on converse", func(f *finished) {
			f.change, f.head, f.usage, f.end, f.frames, f.want = speaking(converseDialect), converseHead, converseUsage, "", true, whole
		}),
	}
}

// script sends the stream up to the finish reason, and calls then when the client has had time to
// disconnect.
func (f finished) script(then func(c *upstreamtest.Conn, chunk func(string) bool)) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		chunk := c.Chunk
		if f.frames {
			chunk = func(text string) bool { return c.Send(upstreamtest.Frames(text)) }
			c.Send(eventFrames)
		} else {
			c.BeginStream()
		}
		chunk(f.head)
		then(c, chunk)
	}
}

// leave sends the request and disconnects after the finish reason.
func (f finished) leave(t testing.TB, g *gateway) time.Time {
	c, r := g.dial(t)
	_, _ = io.WriteString(c, rawPost(f.path, f.body, len(f.body)))
	readUntil(t, r, f.until)
	disconnect(c, true)
	return time.Now()
}

// TestLeavingAtTheFinishReason checks that a client that disconnects at the finish reason pays for the
// usage that comes after it.
func TestLeavingAtTheFinishReason(t *testing.T) {
	for _, f := range finishedStreams() {
		t.Run(f.name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				books := newLedger(t, quota.Limit{Budget: usage.Dollar})
				g := newGateway(t, books.use, f.change)
				g.up.Answer(f.script(func(c *upstreamtest.Conn, chunk func(string) bool) {
					if gone := c.Gone(time.Second); gone != (f.usage == "") {
						t.Errorf("the upstream request was cancelled: %t", gone)
					}
					chunk(f.usage)
					c.Gone(never / 2) // and no end
				}))
				f.leave(t, g)
				g.line(t)
				rows := books.all(t)
				if len(rows) != 1 {
					t.Fatalf("there are %d rows", len(rows))
				}
				row := rows[0]
				if row.Outcome != usage.Answered || row.Estimated || row.Usage != f.want || row.Status != 200 {
					t.Errorf("the row is %s, estimated %t, with status %d and %+v", row.Outcome, row.Estimated, row.Status, row.Usage)
				}
			})
		})
	}
}

// TestReadingOnIsLimited checks that the upstream request ends when the usage does not come, and at
// once when nobody needs it.
func TestReadingOnIsLimited(t *testing.T) {
	flood := func(_ *upstreamtest.Conn, chunk func(string) bool) {
		for text := ": " + strings.Repeat("x", 8<<10) + "\n\n"; chunk(text); {
		}
	}
	for _, f := range finishedStreams() {
		if f.name != "chat" && f.name != "chat on converse" {
			continue
		}
		for _, c := range []struct {
			name        string
			then        func(c *upstreamtest.Conn, chunk func(string) bool)
			books       bool
			least, most time.Duration
		}{
			{"silence", func(*upstreamtest.Conn, func(string) bool) {}, true, 2 * time.Second, 2100 * time.Millisecond},
			{"no end of comments", flood, true, 0, 100 * time.Millisecond},
			{"no ledger", func(*upstreamtest.Conn, func(string) bool) {}, false, 0, 100 * time.Millisecond},
			{"after the usage", func(_ *upstreamtest.Conn, chunk func(string) bool) { chunk(f.usage) }, true, 0, 100 * time.Millisecond},
		} {
			if f.frames && c.name == "no end of comments" {
				continue // frames have none
			}
			t.Run(f.name+", "+c.name, func(t *testing.T) {
				inBubble(t, func(t bubble) {
					var books *ledger
					g := newGateway(t, f.change, func(g *gateway) {
						if c.books {
							books = newLedger(t, quota.Limit{Budget: usage.Dollar})
							books.use(g)
						}
					})
					gone := make(chan time.Time, 1)
					g.up.Answer(f.script(func(conn *upstreamtest.Conn, chunk func(string) bool) {
						c.then(conn, chunk)
						if !conn.Gone(never / 2) {
							t.Error("the upstream's connection was kept")
						}
						gone <- time.Now()
					}))
					left := f.leave(t, g)
					if took := (<-gone).Sub(left); took < c.least || took > c.most {
						t.Errorf("the upstream request was cancelled after %v", took)
					}
					g.line(t)
					if c.books {
						if rows := books.all(t); len(rows) != 1 || rows[0].Outcome != usage.Answered {
							t.Errorf("the rows are %+v", rows)
						}
					}
					g.wantIdle(t)
				})
			})
		}
	}
}
