package relay

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// numberedStream returns a stream with a tool call. All streams have the same ids; the
// pieces contain n.
func numberedStream(t testing.TB, dialect protocol.Name, n int) string {
	events := []llm.Event{
		llm.Start{ID: "same", Model: "m", Created: 7},
		llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: fmt.Sprintf("for %d", n)}, llm.BlockEnd{},
		llm.BlockStart{Index: 1, Block: &llm.ToolCall{CallID: "call_same", Kind: llm.FunctionTool, Name: "f"}},
	}
	events = append(events, llm.Delta{Index: 1, Text: `{"a":[`})
	for i := range 8 {
		events = append(events, llm.Delta{Index: 1, Text: fmt.Sprintf("%d.%d,", n, i)})
	}
	events = append(events, llm.Delta{Index: 1, Text: "0]}"}, llm.BlockEnd{Index: 1},
		llm.UsageUpdate{Usage: llm.Usage{Input: int64(n), Output: 9}}, llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.ToolUse}}, llm.End{})
	return string(protocoltest.WriteStream(codecOf(t, dialect), &llm.Request{Stream: true, IncludeUsage: true}, events))
}

// TestTranslatedStreamsShareNothing checks that concurrent streams with equal ids do not
// affect each other (LIF-18).
func TestTranslatedStreamsShareNothing(t *testing.T) {
	const streams = 60 // one for each size of the pieces
	for client, upstream := range map[protocol.Name]protocol.Name{
		chatDialect: anthropicDialect, responsesDialect: chatDialect, anthropicDialect: geminiDialect, geminiDialect: responsesDialect,
	} {
		t.Run(fmt.Sprintf("%s on %s", client, upstream), func(t *testing.T) {
			g := newGateway(t, speaking(upstream))
			g.up.Answer(func(c *upstreamtest.Conn) {
				_, rest, _ := strings.Cut(string(c.Request.Body), "number ")
				var n int
				_, _ = fmt.Sscan(rest, &n)
				upstreamtest.StreamCut(numberedStream(t, upstream, n), 1+n%60)(c)
			})
			ask := func(n int) string {
				path, body := simpleRequest(client, true)
				_, got, err := g.post(t, path, strings.Replace(body, "Hi", fmt.Sprintf("number %d !", n), 1))
				if err != nil {
					t.Error(err)
				}
				return readStream(t, client, got)
			}
			var serial, concurrent [streams]string
			for n := range serial {
				serial[n] = ask(n)
			}
			var wg sync.WaitGroup
			for n := range concurrent {
				wg.Go(func() { concurrent[n] = ask(n) })
			}
			wg.Wait()
			for n := range serial {
				if !strings.HasPrefix(serial[n], fmt.Sprintf("text \"for %d\"\ncall function f {\"a\":[%d.0,", n, n)) || serial[n] != concurrent[n] {
					t.Errorf("stream %d\nserial     %q\nconcurrent %q", n, serial[n], concurrent[n])
				}
			}
			g.wantIdle(t)
		})
	}
}

// TestTranslatedCancel checks that a client's disconnect closes the upstream connection
// (LIF-01, LIF-02).
func TestTranslatedCancel(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for phase, answer := range map[string]struct {
			stream bool
			script func(*upstreamtest.Conn)
			read   int
		}{
			"before the headers": {true, nil, 0},
			"in the prelude":     {true, func(u *upstreamtest.Conn) { u.BeginStream(); u.Chunk(": hello\n\n" + prelude(c, upstream)) }, 0},
			"in the stream":      {true, func(u *upstreamtest.Conn) { u.BeginStream(); u.Chunk(beginning(c, upstream)) }, 200},
			"while collecting":   {false, func(u *upstreamtest.Conn) { u.BeginStream(); u.Chunk(beginning(c, upstream)) }, 0},
		} {
			t.Run(phase, func(t *testing.T) {
				path, ask := simpleRequest(client, answer.stream)
				wantPromptCancel(t, speaking(upstream), rawPost(path, ask, len(ask)), answer.script, answer.read)
			})
		}
	})
}

// flowText is the length of the text in a piece of flow.
const flowText = 1000

// flow returns the first events of an upstream's stream and an event that can be
// repeated.
func flow(t testing.TB, dialect protocol.Name) (begin, piece string) {
	t.Helper()
	events := []llm.Event{llm.Start{ID: "a", Model: "m", Created: 7}, llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: "a"}}
	text := strings.Repeat("z", flowText)
	begin = string(protocoltest.WriteStream(codecOf(t, dialect), &llm.Request{Stream: true}, events))
	long := string(protocoltest.WriteStream(codecOf(t, dialect), &llm.Request{Stream: true}, append(events, llm.Delta{Text: text})))
	return begin, strings.TrimPrefix(long, begin)
}

// TestTranslatedMemory checks that a client that does not read stops the upstream, and
// that a stream's memory does not grow with its length (LIF-16).
func TestTranslatedMemory(t *testing.T) {
	const buffered, held = 256 << 10, 2 << 20
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		if client == responsesDialect {
			return // its last event repeats the response: see TestTranslatedResponsesIsBounded
		}
		begin, piece := flow(t, upstream)
		inBubble(t, func(t bubble) {
			g := newGateway(t, speaking(upstream))
			var sent atomic.Int64
			g.up.Answer(func(c *upstreamtest.Conn) {
				c.Send(streamHead + begin)
				endless(c, piece, 1<<30, &sent)
			})
			path, ask := simpleRequest(client, true)
			conn, _ := g.dial(t)
			_, _ = io.WriteString(conn, rawPost(path, ask, len(ask)))
			var heap, read int64 // read counts the text alone: the dialects differ in the rest
			for i, size := range []int64{1 << 20, 1 << 20, 8 << 20} {
				text := textCounter{}
				if _, err := io.CopyN(&text, conn, size); err != nil {
					t.Fatal(err)
				}
				read += text.n
				synctest.Wait() // all are blocked: the client reads nothing
				if ahead := sent.Load()/int64(len(piece))*flowText - read; ahead > buffered {
					t.Errorf("the upstream could send %d KiB more than the client has read", ahead>>10)
				}
				grown := heapInUse() - heap
				if heap += grown; i > 0 && grown > held {
					t.Errorf("%d KiB are held after the client has read %d MiB more", grown>>10, size>>20)
				}
			}
		})
	})
}

// textCounter counts the text of flow in a stream.
type textCounter struct{ n int64 }

func (c *textCounter) Write(p []byte) (int, error) {
	c.n += int64(bytes.Count(p, []byte("z")))
	return len(p), nil
}

// TestTranslatedResponsesIsBounded checks that the text of a Responses stream, which its
// last event repeats, is held only up to limits.answer.
func TestTranslatedResponsesIsBounded(t *testing.T) {
	for _, upstream := range []protocol.Name{chatDialect, anthropicDialect, geminiDialect} {
		begin, piece := flow(t, upstream)
		g := newGateway(t, speaking(upstream), func(g *gateway) { g.state.Limits.Answer = 1 << 20 })
		var sent atomic.Int64
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + begin)
			endless(c, piece, 1<<30, &sent)
		})
		path, ask := simpleRequest(responsesDialect, true)
		_, body, err := g.post(t, path, ask)
		if err != nil || !strings.Contains(body, "limits.answer") {
			t.Errorf("%s: %v: %d bytes", upstream, err, len(body))
		}
		wantFailed(t, responsesDialect, body)
	}
}

// TestGeminiArray checks that a Gemini client without alt=sse gets one JSON array
// (GEM-20).
func TestGeminiArray(t *testing.T) {
	c := sharedCase(t, "tools")
	const path = "/v1beta/models/m:streamGenerateContent"
	for _, upstream := range textDialects {
		t.Run(string(upstream), func(t *testing.T) {
			want := readWhole(t, upstream, c.whole(upstream))
			_, ask := c.ask(geminiDialect, true)
			for form, answer := range map[string]upstreamtest.Script{
				"stream": upstreamtest.StreamRandom(c.stream(upstream), 3),
				"whole":  upstreamtest.JSON(200, c.whole(upstream)),
			} {
				g := newGateway(t, speaking(upstream))
				g.up.Answer(answer)
				resp, body, err := g.post(t, path, ask)
				if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
					t.Fatalf("%s: %v %s %v", form, err, resp.Status, resp.Header)
				}
				if got := readStream(t, geminiDialect, asEvents(t, body)); got != want {
					t.Errorf("%s: the client reads\n%swant\n%s%s", form, got, want, body)
				}
				wantUpstreamRequest(t, g, upstream, true)
			}
			g := newGateway(t, speaking(upstream))
			g.up.Answer(upstreamtest.Break(beginning(c, upstream)))
			_, body, err := g.post(t, path, ask)
			if err != nil {
				t.Fatal(err)
			}
			wantFailed(t, geminiDialect, asEvents(t, body))
		})
	}
}

// asEvents converts Gemini's array format to server-sent events.
func asEvents(t testing.TB, body string) string {
	t.Helper()
	var items []jsontext.Value
	if err := json.Unmarshal([]byte(body), &items); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	var b strings.Builder
	for _, item := range items {
		if err := item.Compact(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "data: %s\n\n", item)
	}
	return b.String()
}

// TestTranslatedKeepAlive checks that keep-alive comments are sent before the headers and
// in the stream, except to Google's clients, which cannot parse them (LIF-06). Messages clients
// get a ping in the stream.
func TestTranslatedKeepAlive(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		want := readWhole(t, upstream, c.whole(upstream))
		for form, comments := range map[string]int{"stream": 2, "whole": 1} {
			inBubble(t, func(t bubble) {
				g := newGateway(t, speaking(upstream), keepAlive(15*time.Second))
				g.up.Answer(func(u *upstreamtest.Conn) {
					time.Sleep(20 * time.Second)
					if form == "whole" {
						u.Whole(200, "application/json", c.whole(upstream))
						return
					}
					u.BeginStream()
					u.Chunk(beginning(c, upstream))
					time.Sleep(20 * time.Second)
					u.Chunk(strings.TrimPrefix(c.stream(upstream), beginning(c, upstream)))
					u.EndStream()
				})
				path, ask := c.ask(client, true)
				resp, body, err := g.post(t, path, ask)
				if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
					t.Fatalf("%v %s %v", err, resp.Status, resp.Header)
				}
				rest, got := withoutComments(t, body)
				if client == anthropicDialect {
					got += strings.Count(body, "event: ping\n")
				}
				if client == geminiDialect && got != 0 || client != geminiDialect && got != comments {
					t.Errorf("%s: %d comments, want %d", form, got, comments)
				}
				if got := readStream(t, client, rest); got != want {
					t.Errorf("%s: the client reads\n%swant\n%s%s", form, got, want, body)
				}
				g.wantSuccess(t)
			})
		}
	})
}

// TestTranslatedFailureAfterKeepAlive checks that an error after a keep-alive comment,
// which has sent the status, is an event of the stream.
func TestTranslatedFailureAfterKeepAlive(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		if client == geminiDialect {
			return
		}
		for name, answer := range map[string]func(*upstreamtest.Conn){
			"no answer":         func(*upstreamtest.Conn) {},
			"a status":          upstreamtest.JSON(429, errorBody(upstream, "x", "busy", "slow down")),
			"a refused key":     upstreamtest.JSON(401, errorBody(upstream, "x", "busy", upstreamKey)),
			"an error with 200": upstreamtest.JSON(200, errorBody(upstream, "x", "busy", "slow down")),
			"an event":          upstreamtest.Stream(errorEvent(upstream, "x", "busy", "slow down")),
			"the prelude":       upstreamtest.Stream(prelude(c, upstream)),
		} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t bubble) {
					g := newGateway(t, speaking(upstream), keepAlive(15*time.Second))
					g.up.Answer(func(u *upstreamtest.Conn) {
						time.Sleep(20 * time.Second)
						answer(u)
					})
					path, ask := simpleRequest(client, true)
					resp, body, err := g.post(t, path, ask)
					rest, comments := withoutComments(t, body)
					if err != nil || resp.StatusCode != http.StatusOK || comments != 1 || strings.Contains(body, upstreamKey) {
						t.Errorf("%v %s %q", err, resp.Status, body)
					}
					wantFailed(t, client, rest)
					g.wantIdle(t)
				})
			})
		}
	})
}

// TestTranslatedLastEventWithoutBlankLine checks that the end of the body terminates the
// last event (SSE-17).
func TestTranslatedLastEventWithoutBlankLine(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		want := readWhole(t, upstream, c.whole(upstream))
		g := newGateway(t, speaking(upstream))
		g.up.Answer(upstreamtest.Stream(strings.TrimRight(strings.TrimSuffix(c.stream(upstream), sentinel), "\n")))
		path, ask := c.ask(client, true)
		_, body, err := g.post(t, path, ask)
		if got := readStream(t, client, body); err != nil || got != want {
			t.Errorf("%v: the client reads\n%swant\n%s", err, got, want)
		}
	})
}

// TestTranslatedSlowReader checks that a slow client does not cause an upstream idle
// timeout.
func TestTranslatedSlowReader(t *testing.T) {
	begin, piece := flow(t, anthropicDialect)
	inBubble(t, func(t bubble) {
		const idle = 5 * time.Second
		g := newGateway(t, speaking(anthropicDialect), within(never, idle, 24*time.Hour))
		var sent atomic.Int64
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.Send(streamHead + begin)
			endless(c, piece, 1<<30, &sent)
		})
		conn, _ := g.dial(t)
		path, ask := simpleRequest(chatDialect, true)
		_, _ = io.WriteString(conn, rawPost(path, ask, len(ask)))
		for range 10 {
			time.Sleep(3 * idle)
			if _, err := io.CopyN(io.Discard, conn, 1<<20); err != nil {
				t.Fatalf("the stream was cut: %v: %s", err, g.log)
			}
		}
	})
}

// TestTranslatedBadBytes checks that invalid UTF-8 is replaced in the same way in
// streaming and non-streaming responses of every dialect (SSE-28).
func TestTranslatedBadBytes(t *testing.T) {
	c := sharedCase(t, "text")
	bad := func(s string) string { return strings.ReplaceAll(s, "é", "\xff") }
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		want := strings.ReplaceAll(readWhole(t, upstream, c.whole(upstream)), "é", "\uFFFD")
		if !strings.Contains(want, "\uFFFD") {
			t.Fatalf("the case has no é: %s", want)
		}
		for _, stream := range []bool{true, false} {
			g := newGateway(t, speaking(upstream))
			g.up.Answer(upstreamtest.JSON(200, bad(c.whole(upstream))))
			read := readWhole
			if stream {
				g.up.Answer(upstreamtest.Stream(bad(c.stream(upstream))))
				read = readStream
			}
			path, ask := c.ask(client, stream)
			_, body, err := g.post(t, path, ask)
			if got := read(t, client, body); err != nil || got != want {
				t.Errorf("stream %t: %v: the client reads\n%swant\n%s", stream, err, got, want)
			}
		}
	})
}

// TestTranslatedLimits checks that a stream that exceeds a limit ends with an error in
// the client's dialect.
func TestTranslatedLimits(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		silent := func(text string) upstreamtest.Script {
			return func(u *upstreamtest.Conn) {
				u.BeginStream()
				u.Chunk(text)
				u.Gone(never)
			}
		}
		for name, l := range map[string]struct {
			change func(*gateway)
			answer upstreamtest.Script
			code   string
			status int
		}{
			"silence":             {within(never, soon, never), silent(beginning(c, upstream)), "timeout_idle", 200},
			"silence at first":    {within(never, soon, never), silent(": hello\n\n"), "timeout_idle", 504},
			"too long altogether": {within(never, never, soon), silent(beginning(c, upstream)), "timeout_total", 200},
			"a large event": {func(g *gateway) { g.state.Limits.Event = 4 << 10 },
				upstreamtest.Stream(beginning(c, upstream) + "data: " + strings.Repeat("x", 8<<10)), "upstream_event_too_large", 200},
		} {
			inBubble(t, func(t bubble) {
				g := newGateway(t, speaking(upstream), l.change)
				g.up.Answer(l.answer)
				path, ask := simpleRequest(client, true)
				resp, body, err := g.post(t, path, ask)
				if err != nil || resp.StatusCode != l.status {
					t.Errorf("%s: %v %s %s", name, err, resp.Status, body)
				}
				if l.status == http.StatusOK {
					wantFailed(t, client, body)
				} else {
					readFault(t, client, body)
				}
				g.wantLine(t, `"error_code":"`+l.code+`"`)

				path, ask = simpleRequest(client, false) // a non-streaming response is an error
				resp, body, _ = g.post(t, path, ask)
				if f := readFault(t, client, body); resp.StatusCode < 500 || f.code != l.code {
					t.Errorf("%s, collected: %s %s", name, resp.Status, body)
				}
			})
		}
	})
}

// BenchmarkTranslateStream200 translates a stream of 200 Chat Completions events for a
// Messages client per operation.
func BenchmarkTranslateStream200(b *testing.B) {
	stream := strings.Repeat(textChunk, 200) + stopChunk + sentinel
	g := newGateway(b, speaking(chatDialect))
	g.up.Answer(upstreamtest.Stream(stream))
	path, ask := simpleRequest(anthropicDialect, true)
	b.ReportAllocs()
	for b.Loop() {
		if _, got, err := g.post(b, path, ask); err != nil || !strings.HasSuffix(got, "\"message_stop\"}\n\n") {
			b.Fatal(err, got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200, "ns/event")
}
