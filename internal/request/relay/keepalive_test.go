package relay

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

const comment = ": keep-alive\n"

func keepAlive(every time.Duration) func(*gateway) {
	return func(g *gateway) { g.state.KeepAlive = every }
}

// withoutComments removes the keep-alive comments from a stream and checks that each is
// between two events (SSE-10).
func withoutComments(t testing.TB, body string) (rest string, comments int) {
	t.Helper()
	for {
		i := strings.Index(body, comment)
		if i < 0 {
			return rest + body, comments
		}
		rest += body[:i]
		if rest != "" && !strings.HasSuffix(rest, "\n\n") {
			t.Fatalf("a comment inside an event: %q", rest)
		}
		body = body[i+len(comment):]
		comments++
	}
}

// TestKeepAliveRhythm checks, with a fake clock, that a comment is sent whenever the
// client has received nothing for the configured interval.
func TestKeepAliveRhythm(t *testing.T) {
	inBubble(t, func(t bubble) {
		g := newGateway(t, within(never, never, time.Hour), keepAlive(15*time.Second))
		g.up.Answer(func(c *upstreamtest.Conn) {
			time.Sleep(40 * time.Second) // before the headers: at 15 s and 30 s
			c.Send(streamHead)
			time.Sleep(20 * time.Second) // headers alone send nothing to the client: at 45 s and 60 s
			c.Send(textChunk[:30])
			time.Sleep(20 * time.Second) // half an event is not sent either: at 75 s
			c.Send(textChunk[30:])
			for range 10 {
				time.Sleep(14 * time.Second) // shorter than the interval
				c.Send(textChunk)
			}
			time.Sleep(31 * time.Second) // two more comments
			c.Send(stopChunk + sentinel)
		})
		start := time.Now()
		resp := g.open(t, chatPath, streamRequest)
		defer resp.Body.Close()
		if took := time.Since(start); took != 15*time.Second || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("the response began after %v: %v", took, resp.Header)
		}
		body, err := io.ReadAll(resp.Body)
		want := strings.Repeat(comment, 5) + strings.Repeat(textChunk, 11) + strings.Repeat(comment, 2) + stopChunk + sentinel
		if err != nil || string(body) != want {
			t.Errorf("%v\n got %q\nwant %q", err, body, want)
		}
		g.wantSuccess(t)
	})
}

// TestKeepAliveBesideEvents checks that comments that are as frequent as events do not
// break the events (SSE-10).
func TestKeepAliveBesideEvents(t *testing.T) {
	g := newGateway(t, keepAlive(200*time.Microsecond))
	stream := strings.Repeat(textChunk, 50) + stopChunk + sentinel
	for seed := range uint64(20) {
		begun := make(chan bool)
		g.up.Answer(func(c *upstreamtest.Conn) {
			<-begun
			upstreamtest.StreamRandom(stream, seed)(c)
		})
		resp := g.open(t, chatPath, streamRequest) // returns with the first comment
		begun <- true
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if rest, comments := withoutComments(t, string(body)); err != nil || rest != stream || comments == 0 {
			t.Fatalf("%v: %d comments, %q", err, comments, rest)
		}
	}
}

func TestKeepAliveIsOffByDefaultAndForStreamsOnly(t *testing.T) {
	slow := func(answer upstreamtest.Script) upstreamtest.Script {
		return func(c *upstreamtest.Conn) {
			time.Sleep(20 * time.Second)
			answer(c)
		}
	}
	inBubble(t, func(t bubble) {
		g := newGateway(t)
		g.up.Answer(slow(upstreamtest.Stream(textChunk + sentinel)))
		if _, body, _ := g.post(t, chatPath, streamRequest); body != textChunk+sentinel {
			t.Errorf("%q", body)
		}
		g = newGateway(t, keepAlive(time.Second))
		g.up.Answer(slow(upstreamtest.JSON(http.StatusOK, plainResponse)))
		if _, body, _ := g.post(t, chatPath, plainRequest); body != plainResponse {
			t.Errorf("%q", body)
		}
	})
}

// TestFailureAfterKeepAlive checks that an error after a keep-alive comment, which has
// sent the status, is an event of the stream.
func TestFailureAfterKeepAlive(t *testing.T) {
	for name, c := range map[string]struct {
		answer upstreamtest.Script
		code   string
		kind   string
	}{
		"no answer":             {func(*upstreamtest.Conn) {}, "upstream_no_answer", "upstream"},
		"an error":              {upstreamtest.JSON(429, `{"error":{"message":"slow down","type":"x","code":"busy"}}`), "busy", "rate_limit"},
		"an error with our key": {upstreamtest.JSON(500, `{"error":{"message":"`+upstreamKey+`","code":"`+upstreamKey+`"}}`), "***", "upstream"},
		"an odd error":          {upstreamtest.JSON(503, `{"detail":"x"}`), "overloaded", "overloaded"},
		"a page":                {func(c *upstreamtest.Conn) { c.Whole(502, "text/html", "<html>") }, "upstream_error", "upstream"},
		"our credential":        {upstreamtest.JSON(401, `{}`), "upstream_auth", "upstream_auth"},
		"elsewhere":             {upstreamtest.JSON(302, ``), "upstream_redirect", "upstream"},
		"half an error":         {func(c *upstreamtest.Conn) { c.Send("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{") }, "upstream_truncated", "upstream"},
		"an error event":        {upstreamtest.Stream(`data: {"error":{"message":"m","type":"t","param":null,"code":"c"}}` + "\n\n"), "c", "upstream"},
		"an empty stream":       {upstreamtest.Stream(""), "upstream_truncated", "upstream"},
		"an error object":       {upstreamtest.JSON(200, `{"error":{"message":"m","code":"c"}}`), "c", "upstream"},
		"a broken answer":       {upstreamtest.JSON(200, `{"id`), "upstream_invalid_response", "upstream"},
		"an unread encoding":    {upstreamtest.JSON(200, `x`, "Content-Encoding", "br"), "upstream_invalid_response", "upstream"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, keepAlive(2*time.Millisecond))
			begun := make(chan bool)
			g.up.Answer(func(conn *upstreamtest.Conn) {
				<-begun
				c.answer(conn)
			})
			resp := g.open(t, chatPath, streamRequest) // returns with the first comment
			defer resp.Body.Close()
			begun <- true
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%d, %v", resp.StatusCode, err)
			}
			rest, n := withoutComments(t, string(body))
			if code, _ := readErrorEvent(t, rest, ""); code != c.code || n == 0 {
				t.Errorf("code %s after %d comments, want %s", code, n, c.code)
			}
			if strings.Contains(string(body)+g.line(t), upstreamKey) {
				t.Error("the gateway's key got out")
			}
			g.wantFailure(t, c.kind)
		})
	}
}

// TestNonStreamingResponseAfterKeepAlive checks that a non-streaming upstream response is
// converted to a stream after a keep-alive comment, if that is possible.
func TestNonStreamingResponseAfterKeepAlive(t *testing.T) {
	for path, want := range map[string]string{chatPath: sentinel, "/v1/completions": `"upstream_invalid_response"`} {
		g := newGateway(t, keepAlive(2*time.Millisecond))
		begun := make(chan bool)
		g.up.Answer(func(c *upstreamtest.Conn) {
			<-begun
			c.Whole(http.StatusOK, "application/json", plainResponse)
		})
		resp := g.open(t, path, streamRequest)
		begun <- true
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if rest, _ := withoutComments(t, string(body)); err != nil || !strings.Contains(rest, want) || !strings.HasPrefix(rest, "data: {") {
			t.Errorf("%s: %v: %q", path, err, rest)
		}
	}
}

// TestConnectionsAreReused checks that upstream connections are reused, even if the end
// of the body arrives a little after the last event.
func TestConnectionsAreReused(t *testing.T) {
	stream := strings.Repeat(textChunk, 3) + stopChunk + tokensChunk + sentinel
	late := func(c *upstreamtest.Conn) {
		c.BeginStream()
		c.Chunk(stream)
		time.Sleep(time.Millisecond)
		c.EndStream()
		c.KeepAlive()
	}
	for name, c := range map[string]struct {
		ask    string
		change func(*gateway)
		script upstreamtest.Script
	}{
		"streams":           {streamRequest, listSpeech, upstreamtest.Stream(stream)},
		"streams byte-wise": {streamRequest, listSpeech, upstreamtest.StreamCut(stream, 1)},
		"late ends":         {streamRequest, listSpeech, late},
		"collected":         {plainRequest, always, late},
		"whole":             {plainRequest, listSpeech, upstreamtest.JSON(http.StatusOK, plainResponse)},
		"taken apart":       {streamRequest, listSpeech, upstreamtest.JSON(http.StatusOK, plainResponse)},
		"errors":            {plainRequest, listSpeech, upstreamtest.JSON(http.StatusTooManyRequests, `{"error":{}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				g := newGateway(t, c.change)
				g.up.Answer(c.script)
				for range 100 {
					if _, _, err := g.post(t, chatPath, c.ask); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Millisecond) // until the connection is idle
				}
				if n := g.up.Opened(); n != 1 {
					t.Errorf("%d connections for 100 requests, want 1", n)
				}
			})
		})
	}
}

// TestErrorBesideKeepAlive writes an error response and a keep-alive comment from
// different goroutines, for the race detector.
func TestErrorBesideKeepAlive(t *testing.T) {
	g := newGateway(t, keepAlive(100*time.Microsecond))
	g.up.Answer(upstreamtest.JSON(http.StatusTooManyRequests, `{"error":{"message":"slow down","type":"x","code":"busy"}}`))
	statuses := map[int]bool{}
	for range 300 {
		resp, body, err := g.post(t, chatPath, streamRequest)
		if err != nil || !strings.Contains(body, "busy") {
			t.Fatalf("%v %q", err, body)
		}
		statuses[resp.StatusCode] = true
		if rest, _ := withoutComments(t, body); (resp.StatusCode == http.StatusOK) != strings.HasPrefix(rest, "data: ") {
			t.Fatalf("status %d with %q", resp.StatusCode, body)
		}
	}
	for status := range statuses {
		if status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Errorf("status %d", status)
		}
	}
}

// TestOpenConnectionAfterDone checks that an upstream that keeps the connection open
// after the last event delays neither the end of the response nor the release of the
// concurrency slot.
func TestOpenConnectionAfterDone(t *testing.T) {
	for name, path := range map[string]string{"verbatim": chatPath, "translated": "/v1/messages"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				g := newGateway(t)
				g.up.Answer(func(c *upstreamtest.Conn) {
					c.BeginStream()
					c.Chunk(textChunk + stopChunk + sentinel)
					c.Gone(never)
				})
				start := time.Now()
				if _, _, err := g.post(t, path, `{"model":"real-chat","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("the response ended after %v", took)
				}
			})
		})
	}
}

// TestPings checks, with a fake clock, that a translated Messages stream has a ping in each gap of
// 15 seconds after its beginning, and none before it or after its end. Clients of other dialects
// get none.
func TestPings(t *testing.T) {
	const ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	for _, client := range []protocol.Name{anthropicDialect, chatDialect, responsesDialect, geminiDialect} {
		for _, every := range []time.Duration{0, 10 * time.Second} {
			inBubble(t, func(t bubble) {
				upstream := chatDialect
				if client == chatDialect {
					upstream = anthropicDialect
				}
				events := strings.SplitAfter(sharedCase(t, "text").stream(upstream), "\n\n")
				g := newGateway(t, within(never, never, time.Hour), keepAlive(every), speaking(upstream))
				g.up.Answer(func(c *upstreamtest.Conn) {
					time.Sleep(25 * time.Second)
					c.Send(streamHead)
					for i, e := range events {
						c.Send(e)
						if i == len(events)/2 { // within the text
							time.Sleep(39 * time.Second)
						}
					}
				})
				path, ask := simpleRequest(client, true)
				start := time.Now()
				resp := g.open(t, path, ask)
				defer resp.Body.Close()
				began := time.Since(start)
				raw, err := io.ReadAll(resp.Body)
				body := string(raw)
				pings, comments := strings.Count(body, ping), strings.Count(body, comment)
				wantPings, wantComments, wantBegan := 0, 0, 25*time.Second
				if every > 0 && client != geminiDialect {
					wantComments, wantBegan = 2+3, 10*time.Second
				}
				if client == anthropicDialect {
					wantPings = 2
					if every > 0 {
						wantPings, wantComments = 3, 2
					}
				}
				if err != nil || began != wantBegan || pings != wantPings || comments != wantComments {
					t.Errorf("%s, every %v: %v: began after %v; %d pings, %d comments\n%s", client, every, err, began, pings, comments, body)
				}
				if at := strings.Index(body, ping); at >= 0 && (at < strings.Index(body, "message_start") || !strings.Contains(body[at:], "message_stop") || !strings.HasSuffix(body[:at], "\n\n")) {
					t.Errorf("a ping in the wrong place: %s", body)
				}
			})
		}
	}
}
