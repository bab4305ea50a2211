package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The limits of the gateway that hostile upstreams run into.
const (
	hostileLimits   = "limits: { event: 1MiB, answer: 1MiB }"
	hostileTimeouts = "timeouts: { connect: 2s, first_byte: 4s, idle: 4s, total: 12s }"
)

// hostileUpstream is an upstream that sends what no correct server sends.
type hostileUpstream struct {
	name   string
	script testrig.Script
	stream bool // needs a client that streams
	both   bool // is sent to both kinds of clients
	fine   bool // a complete response may reach the client
}

// respondRaw sends bytes and closes the connection.
func respondRaw(text string) testrig.Script {
	return func(c *testrig.Call) bool {
		c.Write(text)
		return false
	}
}

// bodyWith returns a script that sends a complete response with other headers.
func bodyWith(headers ...string) testrig.Script {
	return func(c *testrig.Call) bool {
		r := c.Reply("up")
		if !c.Stream {
			return c.Respond(http.StatusOK, testrig.JSONMedia, r.Body(), headers...)
		}
		return c.StartStream(headers...) && c.Chunks(r.Stream().All()...) && c.End()
	}
}

// pour sends the same bytes until the gateway disconnects, 256 MiB at most.
func pour(c *testrig.Call, block string) bool {
	for n := 0; n < 256<<20; n += len(block) {
		if !c.Write(block) {
			return false
		}
	}
	return c.Hold()
}

// edited sends the response with its text changed.
func edited(edit func(d testrig.Dialect, body string) string) testrig.Script {
	return func(c *testrig.Call) bool {
		r := c.Reply("up")
		if !c.Stream {
			return c.Respond(http.StatusOK, testrig.JSONMedia, edit(c.Dialect, r.Body()))
		}
		return c.StartStream() && c.Chunks(edit(c.Dialect, strings.Join(r.Stream().All(), ""))) && c.End()
	}
}

// hiddenHeaders are headers of an upstream that clients must not see.
func hiddenHeaders() []string {
	return []string{"Set-Cookie", "session=" + spoof, "Server", spoof, "Alt-Svc", `h3="` + spoof + `:443"`, "Strict-Transport-Security", "max-age=1; " + spoof, "Access-Control-Allow-Origin", spoof, "Location", "http://" + spoof, "Refresh", "0; url=" + spoof,
		"Openai-Organization", spoof, "Www-Authenticate", "Basic realm=" + spoof, "Proxy-Authenticate", spoof, "Link", "<" + spoof + ">", "Isogloss-Target", spoof, "Content-Security-Policy", spoof, "Clear-Site-Data", spoof, "Via", spoof, "X-Powered-By", spoof, "Trailer", "X-" + spoof, "Upgrade", spoof}
}

// hostiles returns the upstreams.
func hostiles() []hostileUpstream {
	tail := func(c *testrig.Call, text string) bool { // half of a response, then other bytes
		r := c.Reply("up")
		if !c.Stream {
			b := r.Body()
			c.Head(http.StatusOK, testrig.JSONMedia, len(b))
			c.Write(b[:len(b)/2] + text)
			return false
		}
		s := r.Stream()
		c.StartStream()
		c.Chunks(append(s.Head, s.Words[:3]...)...)
		c.Write(text)
		return false
	}
	all := []hostileUpstream{
		{name: "endless-headers", script: func(c *testrig.Call) bool {
			c.Write("HTTP/1.1 200 OK\r\n")
			return pour(c, strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 60))
		}},
		{name: "endless-header-line", script: func(c *testrig.Call) bool {
			c.Write("HTTP/1.1 200 OK\r\nX-A: ")
			return pour(c, strings.Repeat("a", 64<<10))
		}},
		{name: "endless-informational", script: func(c *testrig.Call) bool {
			return pour(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 100))
		}},
		{name: "endless-body", script: func(c *testrig.Call) bool {
			c.Head(http.StatusOK, testrig.JSONMedia, -1)
			return pour(c, testrig.Chunk(`{"id":"`+strings.Repeat("a", 64<<10)))
		}},
		{name: "endless-error", script: func(c *testrig.Call) bool {
			c.Head(http.StatusBadRequest, testrig.JSONMedia, -1)
			return pour(c, testrig.Chunk(`{"error":"`+strings.Repeat("a", 64<<10)))
		}},
		{name: "endless-event", stream: true, script: func(c *testrig.Call) bool {
			c.StartStream()
			return pour(c, testrig.Chunk("data: "+strings.Repeat("a", 64<<10)))
		}},
		{name: "endless-event-lines", stream: true, script: func(c *testrig.Call) bool {
			c.StartStream()
			return pour(c, testrig.Chunk(strings.Repeat("data: {}\n", 6000)))
		}},
		{name: "endless-comments", stream: true, script: func(c *testrig.Call) bool {
			c.StartStream()
			for c.Chunks(": x\n\n") && c.Wait(50*time.Millisecond) {
			}
			return false
		}},
		{name: "silence", both: true, script: (*testrig.Call).Hold},
		{name: "reset", both: true, script: (*testrig.Call).Reset},
		{name: "empty", both: true, script: respondRaw("")},
		{name: "not-http", both: true, script: respondRaw("SSH-2.0-OpenSSH_9.2\r\n")},
		{name: "http-0.9", both: true, script: respondRaw(`{"id":"x"}`)},
		{name: "http-9", both: true, script: respondRaw("HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n{}")},
		{name: "status-99", both: true, script: respondRaw("HTTP/1.1 99 Odd\r\nContent-Length: 2\r\n\r\n{}")},
		{name: "status-999", both: true, script: respondRaw("HTTP/1.1 999 Odd\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")},
		{name: "status-word", both: true, script: respondRaw("HTTP/1.1 OK 200\r\nContent-Length: 2\r\n\r\n{}")},
		{name: "status-101", both: true, script: respondRaw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nxx")},
		{name: "status-204", both: true, script: respondRaw("HTTP/1.1 204 No Content\r\n\r\n")},
		{name: "status-206", both: true, script: respondRaw("HTTP/1.1 206 Partial Content\r\nContent-Type: application/json\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\n{}")},
		{name: "status-304", both: true, script: respondRaw("HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n")},
		{name: "two-lengths", both: true, script: respondRaw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 30\r\n\r\n{}")},
		{name: "negative-length", both: true, script: respondRaw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n{}")},
		{name: "huge-length", both: true, script: respondRaw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9223372036854775807\r\n\r\n{}")},
		{name: "folded-header", both: true, script: respondRaw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-A: a\r\n Set-Cookie: " + spoof + "\r\nContent-Length: 2\r\n\r\n{}")},
		{name: "nul-in-header", both: true, script: respondRaw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: a\x00b\r\nContent-Length: 2\r\n\r\n{}")},
		{name: "cut-by-length", both: true, script: func(c *testrig.Call) bool { return tail(c, "") }},
		{name: "bad-chunk", stream: true, script: func(c *testrig.Call) bool { return tail(c, "zz\r\ndata: x\r\n") }},
		{name: "negative-chunk", stream: true, script: func(c *testrig.Call) bool { return tail(c, "-5\r\ndata: x\r\n") }},
		{name: "huge-chunk", stream: true, script: func(c *testrig.Call) bool { return tail(c, "ffffffffffffffff\r\ndata: x\r\n") }},
		{name: "end-inside-event", stream: true, script: func(c *testrig.Call) bool { return tail(c, testrig.Chunk("data: {\"id\":")+"0\r\n\r\n") }},
		{name: "nul-events", stream: true, script: func(c *testrig.Call) bool {
			return tail(c, testrig.Chunk("data: \x00\x00\n\n")+"0\r\n\r\n")
		}},
		{name: "html", both: true, script: func(c *testrig.Call) bool {
			return c.Respond(http.StatusOK, "text/html", "<script>alert('"+spoof+"')</script>")
		}},
		{name: "html-as-json", both: true, script: func(c *testrig.Call) bool {
			return c.Respond(http.StatusOK, testrig.JSONMedia, "<html>"+spoof+"</html>")
		}},
		{name: "html-error", both: true, script: func(c *testrig.Call) bool {
			return c.Respond(http.StatusForbidden, "text/html", "<html><script>"+spoof+"</script></html>")
		}},
		{name: "octets", both: true, script: func(c *testrig.Call) bool {
			return c.Respond(http.StatusOK, "application/octet-stream", "\x00\x01\xff")
		}},
		{name: "array", both: true, script: func(c *testrig.Call) bool { return c.Respond(http.StatusOK, testrig.JSONMedia, "[[[]]]") }},
		{name: "null", both: true, script: func(c *testrig.Call) bool { return c.Respond(http.StatusOK, testrig.JSONMedia, "null") }},
		{name: "deep", both: true, script: func(c *testrig.Call) bool {
			return c.Respond(http.StatusOK, testrig.JSONMedia, strings.Repeat(`{"a":[`, 40_000))
		}},
		{name: "invalid-utf8", both: true, script: func(c *testrig.Call) bool {
			return c.Respond(http.StatusOK, testrig.JSONMedia, "{\"id\":\"\xff\xfe\",\"choices\":\"\xc0\xae\"}")
		}},
		{name: "gzip-bomb", both: true, script: func(c *testrig.Call) bool {
			return c.Respond(http.StatusOK, testrig.JSONMedia, bomb(), "Content-Encoding", "gzip")
		}},
		{name: "brotli", both: true, script: func(c *testrig.Call) bool {
			return c.Respond(http.StatusOK, testrig.JSONMedia, "\x8b\x02\x80{}\x03", "Content-Encoding", "br")
		}},
		{name: "headers-to-hide", both: true, fine: true, script: bodyWith(hiddenHeaders()...)},
		{name: "retry-after-huge", both: true, script: testrig.Status(429, "Retry-After", "99999999999999999999")},
		{name: "retry-after-negative", both: true, script: testrig.Status(503, "Retry-After", "-5")},
		{name: "retry-after-text", both: true, script: testrig.Status(503, "Retry-After", "soon")},
		{name: "request-id-long", both: true, fine: true, script: bodyWith("X-Request-Id", strings.Repeat("r", 30<<10), "Request-Id", strings.Repeat("r", 30<<10))},
	}
	for name, usage := range map[string]string{"negative": "-5", "huge": "999999999999", "overflow": "9223372036854775808", "float": "1e300", "fraction": "0.5", "string": `"12"`, "null": "null", "object": "{}"} {
		all = append(all, hostileUpstream{name: "usage-" + name, both: true, fine: true, script: edited(func(_ testrig.Dialect, body string) string {
			return strings.NewReplacer(fmt.Sprintf(":%d", testrig.OutputTokens), ":"+usage, fmt.Sprintf(":%d", testrig.InputTokens), ":"+usage).Replace(body)
		})})
	}
	return all
}

// bomb returns a small body that is 64 MiB when it is unpacked.
var bomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	block := strings.Repeat(" ", 1<<20)
	for range 64 {
		fmt.Fprint(w, block) // a buffer takes everything
	}
	testrig.NoError(w.Close())
	return b.String()
})

// hostilePairs are a client's dialect and an upstream's: every dialect as both, once
// forwarded and once translated.
func hostilePairs() [][2]testrig.Dialect {
	all := dialects()
	var pairs [][2]testrig.Dialect
	for i, d := range all {
		pairs = append(pairs, [2]testrig.Dialect{d, d}, [2]testrig.Dialect{d, all[(i+2)%4]})
	}
	return pairs
}

func upstreamAttacks() (all []attack) {
	for _, h := range hostiles() {
		for _, p := range hostilePairs() {
			for _, stream := range []bool{false, true} {
				if stream != h.stream && !h.both {
					continue
				}
				name := fmt.Sprintf("upstream/%s/%s-%s", h.name, targetName(p[0]), targetName(p[1]))
				if stream {
					name += "-stream"
				}
				all = append(all, attack{name: name, do: callHostile(h, p, stream), holds: []oracle{sane(p[0], stream, h.fine, p[0] == p[1]), hidesSpoof}})
			}
		}
	}
	return all
}

// callHostile sends a request whose upstream is hostile.
func callHostile(h hostileUpstream, p [2]testrig.Dialect, stream bool) func(context.Context, *rig) *evidence {
	return func(ctx context.Context, r *rig) *evidence {
		r.script("hostile-"+h.name, h.script)
		q := testrig.Query{Model: targetName(p[1]) + "/hostile-" + h.name, Prompt: "hi", Stream: stream}
		e := r.send(ctx, request{path: p[0].Path(q.Model, stream), body: p[0].Body(q), key: "full", headers: []string{"Anthropic-Version", "2023-06-01"}})
		e.upstream = nil // attacks of this group run at the same time
		return e
	}
}

// sane returns an oracle: the client gets an error that it can read, in time, or, if the
// upstream's response is whole, a response that is valid in its dialect. Between two sides
// of one dialect the gateway forwards JSON as it is; then the client must see that it is
// no response, and values of a whole response or of an event are the upstream's.
func sane(d testrig.Dialect, stream, fine, same bool) oracle {
	return func(_ *rig, e *evidence) string {
		good := e.status >= 200 && e.status < 300
		if !good && e.status < 400 {
			return fmt.Sprintf("status %d %s", e.status, e.note)
		}
		o := d.Read(testrig.Response{Status: e.status, Header: e.header, Body: []byte(e.body)}, stream)
		if same && stream || same && fine {
			o.Invalid = "" // the upstream's own values
		}
		switch {
		case !good && o.Error == "" && !same:
			return "clients cannot read the error: " + o.Invalid
		case good && !fine && (o.Complete() || stream && o.MayPassForComplete()):
			return "a broken response passes for a complete one: " + o.String()
		case good && fine && o.Error == "" && !o.Complete():
			return "the response is not valid: " + o.String()
		}
		return ""
	}
}

// hostileConfig is a gateway with small limits, so that endless upstreams end soon.
func hostileConfig(r *rig) *config {
	c := tenantStore(r)
	c.top = append(c.top, hostileLimits, hostileTimeouts, "overload: { per_target: 1000 }")
	return c
}
