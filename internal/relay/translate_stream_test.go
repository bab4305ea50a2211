package relay

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// numberedStream answers a request that says its number: with a call whose id is always the same, with
// pieces that say whose they are.
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

// LIF-18: streams share nothing, though their ids are the same.
func TestTranslatedStreamsShareNothing(t *testing.T) {
	const streams = 200
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
				path, body := simpleAsk(client, true)
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

// LIF-01, LIF-02: a client that goes away takes the upstream along.
func TestTranslatedCancel(t *testing.T) {
	const promise, tries = 100 * time.Millisecond, 3
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
				path, ask := simpleAsk(client, answer.stream)
				var took time.Duration
				for range tries {
					if took = cancelOnce(t, speaking(upstream), rawPost(path, ask, len(ask)), answer.script, answer.read, false); took <= promise {
						return
					}
				}
				t.Errorf("the upstream was let go after %v", took)
			})
		}
	})
}

// flow is an endless answer of an upstream, piece by piece.
func flow(t testing.TB, dialect protocol.Name) (begin, piece string) {
	t.Helper()
	events := []llm.Event{llm.Start{ID: "a", Model: "m", Created: 7}, llm.BlockStart{Block: &llm.Text{}}, llm.Delta{Text: "a"}}
	text := strings.Repeat("z", 1000)
	begin = string(protocoltest.WriteStream(codecOf(t, dialect), &llm.Request{Stream: true}, events))
	long := string(protocoltest.WriteStream(codecOf(t, dialect), &llm.Request{Stream: true}, append(events, llm.Delta{Text: text})))
	return begin, strings.TrimPrefix(long, begin)
}

// LIF-16 and constant memory: a reader that takes nothing stops the upstream, and
// an answer without end costs no more than a short one.
func TestTranslatedMemory(t *testing.T) {
	const most, inSockets = 256 << 20, 24 << 20
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		if client == responsesDialect {
			return // its last event repeats the answer: see below
		}
		begin, piece := flow(t, upstream)
		g := newGateway(t, speaking(upstream))
		var sent atomic.Int64
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + begin)
			endless(c, piece, most, &sent)
		})
		path, ask := simpleAsk(client, true)
		conn := dialSmall(t, g)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(conn, rawPost(path, ask, len(ask)))
		peak := peakHeap(func() {
			if _, err := io.CopyN(io.Discard, conn, 1<<20); err != nil {
				t.Fatal(err)
			}
			still := sent.Load()
			eventually(t, "the upstream is held back", func() bool {
				before := still
				still = sent.Load()
				time.Sleep(20 * time.Millisecond)
				return before == still
			})
		})
		if n := sent.Load(); n > inSockets {
			t.Errorf("the upstream could send %d MiB to a client that reads nothing", n>>20)
		}
		read := peakHeap(func() {
			if _, err := io.CopyN(io.Discard, conn, 24<<20); err != nil {
				t.Fatal(err)
			}
		})
		_ = conn.Close()
		if peak > 12<<20 || read > 12<<20 {
			t.Errorf("it took %d KiB while the client waited and %d KiB while it read", peak>>10, read>>10)
		}
	})
}

// The last event of a Responses stream repeats the answer, so it is held, up to
// limits.answer.
func TestTranslatedResponsesIsBounded(t *testing.T) {
	for _, upstream := range []protocol.Name{chatDialect, anthropicDialect, geminiDialect} {
		begin, piece := flow(t, upstream)
		g := newGateway(t, speaking(upstream), func(g *gateway) { g.state.Limits.Answer = 1 << 20 })
		var sent atomic.Int64
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + begin)
			endless(c, piece, 1<<30, &sent)
		})
		path, ask := simpleAsk(responsesDialect, true)
		_, body, err := g.post(t, path, ask)
		if err != nil || !strings.Contains(body, "limits.answer") {
			t.Errorf("%s: %v: %d bytes", upstream, err, len(body))
		}
		wantFailed(t, responsesDialect, body)
	}
}

// GEM-20: without alt=sse the client wants one JSON array.
func TestGeminiArray(t *testing.T) {
	c := sharedCase(t, "tools")
	const path = "/v1beta/models/m:streamGenerateContent"
	for _, upstream := range protocol.Names() {
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
				wantAsked(t, g, upstream, true)
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

// asEvents turns Gemini's array form into its other one.
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

// LIF-06: comments for those who can read them, before the headers and in the
// stream, and nothing for Google's clients.
func TestTranslatedKeepAlive(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		want := readWhole(t, upstream, c.whole(upstream))
		for _, form := range []string{"stream", "whole"} {
			g := newGateway(t, speaking(upstream), keepAlive(2*time.Millisecond))
			g.up.Answer(func(u *upstreamtest.Conn) {
				time.Sleep(20 * time.Millisecond)
				if form == "whole" {
					u.Whole(200, "application/json", c.whole(upstream))
					return
				}
				u.BeginStream()
				u.Chunk(beginning(c, upstream))
				time.Sleep(20 * time.Millisecond)
				u.Chunk(strings.TrimPrefix(c.stream(upstream), beginning(c, upstream)))
				u.EndStream()
			})
			path, ask := c.ask(client, true)
			resp, body, err := g.post(t, path, ask)
			if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("%v %s %v", err, resp.Status, resp.Header)
			}
			rest, comments := withoutComments(t, body)
			if client == geminiDialect && comments > 0 || client != geminiDialect && comments < 2 {
				t.Errorf("%s: %d comments", form, comments)
			}
			if got := readStream(t, client, rest); got != want {
				t.Errorf("%s: the client reads\n%swant\n%s%s", form, got, want, body)
			}
			g.wantSuccess(t)
		}
	})
}

// Once a comment has sent the status, a failure can only be told in the stream.
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
				g := newGateway(t, speaking(upstream), keepAlive(time.Millisecond))
				g.up.Answer(func(u *upstreamtest.Conn) {
					time.Sleep(15 * time.Millisecond)
					answer(u)
				})
				path, ask := simpleAsk(client, true)
				resp, body, err := g.post(t, path, ask)
				rest, comments := withoutComments(t, body)
				if err != nil || resp.StatusCode != http.StatusOK || comments == 0 || strings.Contains(body, upstreamKey) {
					t.Errorf("%v %s %q", err, resp.Status, body)
				}
				wantFailed(t, client, rest)
				g.wantIdle(t)
			})
		}
	})
}

// SSE-17: the last event may lack its blank line.
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

// A slow client is not taken for a silent upstream.
func TestTranslatedSlowReader(t *testing.T) {
	begin, piece := flow(t, anthropicDialect)
	g := newGateway(t, speaking(anthropicDialect), within(time.Minute, 50*time.Millisecond, time.Minute))
	var sent atomic.Int64
	g.up.Answer(func(c *upstreamtest.Conn) {
		c.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + begin)
		endless(c, piece, 1<<30, &sent)
	})
	conn := dialSmall(t, g)
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // a stream that was given up leaves the connection open
	path, ask := simpleAsk(chatDialect, true)
	_, _ = io.WriteString(conn, rawPost(path, ask, len(ask)))
	eventually(t, "the client holds the stream up", func() bool {
		before := sent.Load()
		time.Sleep(150 * time.Millisecond) // three times what the upstream may be silent for
		return before > 0 && before == sent.Load()
	})
	if _, err := io.CopyN(io.Discard, conn, 24<<20); err != nil {
		t.Errorf("the stream was given up: %v: %s", err, g.log)
	}
}

// SSE-28: bytes that are not UTF-8 are replaced, the same in streams and in whole
// answers, from every dialect.
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

// What the upstream may not do ends a stream in the client's own dialect.
func TestTranslatedLimits(t *testing.T) {
	c := sharedCase(t, "text")
	eachForeignCell(t, func(t *testing.T, client, upstream protocol.Name) {
		silent := func(text string) upstreamtest.Script {
			return func(u *upstreamtest.Conn) {
				u.BeginStream()
				u.Chunk(text)
				u.Gone(10 * time.Second)
			}
		}
		for name, l := range map[string]struct {
			change func(*gateway)
			answer upstreamtest.Script
			code   string
			status int
		}{
			"silence":             {within(time.Minute, 30*time.Millisecond, time.Minute), silent(beginning(c, upstream)), "timeout_idle", 200},
			"silence at first":    {within(time.Minute, 30*time.Millisecond, time.Minute), silent(": hello\n\n"), "timeout_idle", 504},
			"too long altogether": {within(time.Minute, time.Minute, 30*time.Millisecond), silent(beginning(c, upstream)), "timeout_total", 200},
			"a large event": {func(g *gateway) { g.state.Limits.Event = 4 << 10 },
				upstreamtest.Stream(beginning(c, upstream) + "data: " + strings.Repeat("x", 8<<10)), "upstream_event_too_large", 200},
		} {
			g := newGateway(t, speaking(upstream), l.change)
			g.up.Answer(l.answer)
			path, ask := simpleAsk(client, true)
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

			path, ask = simpleAsk(client, false) // and a collected answer is none
			resp, body, _ = g.post(t, path, ask)
			if f := readFault(t, client, body); resp.StatusCode < 500 || f.code != l.code {
				t.Errorf("%s, collected: %s %s", name, resp.Status, body)
			}
		}
	})
}

// BenchmarkTranslateStream200 is a client of Messages on an upstream of Chat
// Completions; an operation is a stream of 200 events.
func BenchmarkTranslateStream200(b *testing.B) {
	stream := strings.Repeat(textChunk, 200) + stopChunk + sentinel
	g := newGateway(b, speaking(chatDialect))
	g.up.Answer(upstreamtest.Stream(stream))
	path, ask := simpleAsk(anthropicDialect, true)
	b.ReportAllocs()
	for b.Loop() {
		if _, got, err := g.post(b, path, ask); err != nil || !strings.HasSuffix(got, "\"message_stop\"}\n\n") {
			b.Fatal(err, got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200, "ns/event")
}
