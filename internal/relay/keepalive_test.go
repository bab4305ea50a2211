package relay

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
)

const comment = ": keep-alive\n"

func keepAlive(every time.Duration) func(*gateway) {
	return func(g *gateway) { g.state.KeepAlive = every }
}

// withoutComments takes the keep-alives out of an answer and wants each to stand
// between events, SSE-10.
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

// Time is exact in a bubble: a comment comes each time that nothing was sent for as
// long as the setting says.
func TestKeepAliveRhythm(t *testing.T) {
	g := newGateway(t, within(never, never, time.Hour), keepAlive(15*time.Second))
	inBubble(t, g, func(c net.Conn) {
		time.Sleep(40 * time.Second) // before the headers: at 15 s and 30 s
		_, _ = io.WriteString(c, beginPiped)
		time.Sleep(20 * time.Second) // the headers bring nothing for the client: at 45 s and 60 s
		_, _ = io.WriteString(c, textChunk[:30])
		time.Sleep(20 * time.Second) // nor does half an event: at 75 s
		_, _ = io.WriteString(c, textChunk[30:])
		for range 10 {
			time.Sleep(14 * time.Second) // never idle for long enough
			_, _ = io.WriteString(c, textChunk)
		}
		time.Sleep(31 * time.Second) // twice more
		_, _ = io.WriteString(c, stopChunk+sentinel)
	}, func(t *testing.T, c net.Conn, r *bufio.Reader) {
		start := time.Now()
		resp := request(t, c, r, rawPost(chatPath, streamAsk, len(streamAsk)))
		if took := time.Since(start); took != 15*time.Second || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("the answer began after %v: %v", took, resp.Header)
		}
		body, err := io.ReadAll(resp.Body)
		want := strings.Repeat(comment, 5) + strings.Repeat(textChunk, 11) + strings.Repeat(comment, 2) + stopChunk + sentinel
		if err != nil || string(body) != want {
			t.Errorf("%v\n got %q\nwant %q", err, body, want)
		}
	})
	g.wantSuccess(t)
}

// Many streams with keep-alives that come as often as events do.
func TestKeepAliveIsOrderly(t *testing.T) {
	g := newGateway(t, keepAlive(200*time.Microsecond))
	stream := strings.Repeat(textChunk, 50) + stopChunk + sentinel
	g.up.Answer(func(c *upstreamtest.Conn) {
		time.Sleep(2 * time.Millisecond)
		upstreamtest.StreamRandom(stream, uint64(len(g.up.Requests())))(c)
	})
	total := 0
	for range 20 {
		_, body, err := g.post(t, chatPath, streamAsk)
		rest, n := withoutComments(t, body)
		if total += n; err != nil || rest != stream {
			t.Fatalf("%v: %q", err, rest)
		}
	}
	if total == 0 {
		t.Error("no comment was sent")
	}
}

func TestKeepAliveIsOffByDefaultAndForStreamsOnly(t *testing.T) {
	slow := func(answer upstreamtest.Script) upstreamtest.Script {
		return func(c *upstreamtest.Conn) {
			time.Sleep(20 * time.Millisecond)
			answer(c)
		}
	}
	g := newGateway(t)
	g.up.Answer(slow(upstreamtest.Stream(textChunk + sentinel)))
	if _, body, _ := g.post(t, chatPath, streamAsk); body != textChunk+sentinel {
		t.Errorf("%q", body)
	}
	g = newGateway(t, keepAlive(time.Millisecond))
	g.up.Answer(slow(upstreamtest.JSON(http.StatusOK, plainAnswer)))
	if _, body, _ := g.post(t, chatPath, plainAsk); body != plainAnswer {
		t.Errorf("%q", body)
	}
}

// Once a comment has sent the status, a failure can only be told in the stream.
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
			resp := g.open(t, chatPath, streamAsk) // returns with the first comment
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

// A whole answer after a comment is still written as a stream, where that can be.
func TestWholeAnswerAfterKeepAlive(t *testing.T) {
	for path, want := range map[string]string{chatPath: sentinel, "/v1/completions": `"upstream_invalid_response"`} {
		g := newGateway(t, keepAlive(2*time.Millisecond))
		begun := make(chan bool)
		g.up.Answer(func(c *upstreamtest.Conn) {
			<-begun
			c.Whole(http.StatusOK, "application/json", plainAnswer)
		})
		resp := g.open(t, path, streamAsk)
		begun <- true
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if rest, _ := withoutComments(t, string(body)); err != nil || !strings.Contains(rest, want) || !strings.HasPrefix(rest, "data: {") {
			t.Errorf("%s: %v: %q", path, err, rest)
		}
	}
}

// Upstream connections are used again, also where the end of a stream comes a
// little after its last event.
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
		"streams":           {streamAsk, listSpeech, upstreamtest.Stream(stream)},
		"streams byte-wise": {streamAsk, listSpeech, upstreamtest.StreamCut(stream, 1)},
		"late ends":         {streamAsk, listSpeech, late},
		"collected":         {plainAsk, always, late},
		"whole":             {plainAsk, listSpeech, upstreamtest.JSON(http.StatusOK, plainAnswer)},
		"taken apart":       {streamAsk, listSpeech, upstreamtest.JSON(http.StatusOK, plainAnswer)},
		"errors":            {plainAsk, listSpeech, upstreamtest.JSON(http.StatusTooManyRequests, `{"error":{}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, c.change)
			g.up.Answer(c.script)
			for range 100 {
				if _, _, err := g.post(t, chatPath, c.ask); err != nil {
					t.Fatal(err)
				}
			}
			if n := g.up.Opened(); n > 3 {
				t.Errorf("%d connections for 100 requests", n)
			}
		})
	}
}
