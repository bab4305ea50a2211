package relay

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

func TestSlow(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	t.Run("reader", testSlowReader)
	t.Run("stream", testSlowStream)
	t.Run("server with timeouts", testServerTimeouts)
}

// LIF-16: what a slow client does not take, the upstream cannot send. Between them
// are the sockets' buffers, and next to nothing of ours, however long the answer.
func testSlowReader(t *testing.T) {
	t.Parallel()
	const answer, inSockets, ours = 200 << 20, 32 << 20, 4 << 20
	g := newGateway(t, within(never, time.Second, never)) // the client's slowness is not the upstream's silence
	var sent atomic.Int64
	g.up.Answer(func(c *upstreamtest.Conn) {
		c.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
		endless(c, textChunk, answer, &sent)
	})
	c := dialSmall(t, g)
	_, _ = io.WriteString(c, rawPost(chatPath, streamAsk, len(streamAsk)))
	piece := make([]byte, 1<<10)
	heap := heapInUse()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 10 {
		if _, err := io.ReadFull(c, piece); err != nil {
			t.Fatalf("a slow client was cut off: %v", err)
		}
		<-tick.C
	}
	if grown := heapInUse() - heap; grown > ours {
		t.Errorf("%d KiB are held for a slow client", grown>>10)
	}
	if n := sent.Load(); n > inSockets {
		t.Errorf("the upstream could send %d MiB", n>>20)
	}
	before := strings.Count(g.log.String(), `"msg":"exchange"`)
	if n, err := io.ReadFull(c, piece); err != nil || before != 0 {
		t.Errorf("the stream is over: %d bytes, %v", n, err)
	}
	c.Close()
	g.wantCancelled(t)
}

// dialSmall opens a socket that takes little before its owner reads.
func dialSmall(t testing.TB, g *gateway) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
		})
	}}
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// trickle sends an event every 50 ms for as long as it is told, then the end.
func trickle(how int) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		c.BeginStream()
		for range how {
			c.Chunk(textChunk)
			time.Sleep(50 * time.Millisecond)
		}
		c.Chunk(stopChunk + sentinel)
		c.EndStream()
		c.KeepAlive()
	}
}

func testSlowStream(t *testing.T) {
	t.Parallel()
	g := newGateway(t, within(time.Second, time.Second, never))
	g.up.Answer(trickle(60))
	if _, body, err := g.post(t, chatPath, streamAsk); err != nil || body != strings.Repeat(textChunk, 60)+stopChunk+sentinel {
		t.Errorf("%v: %q", err, body)
	}
	g.wantSuccess(t)
}

// LIF-03: a stream outlives three times any timeout that a server may have.
func testServerTimeouts(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	g := newGateway(t)
	srv := httptest.NewUnstartedServer(g.relay)
	srv.Config.ReadTimeout, srv.Config.ReadHeaderTimeout = timeout, timeout
	srv.Config.WriteTimeout, srv.Config.IdleTimeout = timeout, timeout
	srv.Start()
	defer srv.Close()
	g.URL = srv.URL
	g.up.Answer(trickle(30))
	if _, body, err := g.post(t, chatPath, streamAsk); err != nil || body != strings.Repeat(textChunk, 30)+stopChunk+sentinel {
		t.Errorf("%v: %q", err, body)
	}
	g.wantSuccess(t)
}

// pipes serves a gateway's relay over pipes, for tests in a bubble, where time
// costs nothing. The upstream is what it is given.
type pipes struct {
	calls chan net.Conn
	over  context.Context
	end   context.CancelFunc
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.over.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.end(); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// inBubble runs a client against a relay and its upstream, all in one bubble.
func inBubble(t *testing.T, g *gateway, upstream func(net.Conn), client func(*testing.T, net.Conn, *bufio.Reader)) {
	synctest.Test(t, func(t *testing.T) {
		var upstreams sync.WaitGroup
		relay := New(all.Codecs(), g.observer)
		relay.Use(g.state)
		relay.transports.by[g.provider.Timeouts.Connect] = &http.Transport{
			DisableCompression: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				upstreams.Go(func() {
					defer there.Close()
					if req, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
						_, _ = io.Copy(io.Discard, req.Body)
						upstream(there)
					}
				})
				return here, nil
			},
		}
		p := &pipes{calls: make(chan net.Conn)}
		p.over, p.end = context.WithCancel(context.Background())
		srv := &http.Server{Handler: relay}
		go func() { _ = srv.Serve(p) }()
		here, there := net.Pipe()
		p.calls <- there
		client(t, here, bufio.NewReader(here))
		here.Close()
		srv.Close()
		relay.Close()
		upstreams.Wait()
	})
}

const beginPiped = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

// request sends a request and reads the head of its answer.
func request(t testing.TB, c net.Conn, r *bufio.Reader, text string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// The write deadline is about writes, not about the time between them: neither the
// last bytes of an answer nor the next answer on the connection may be lost to it.
func TestSilenceLongerThanTheWriteDeadline(t *testing.T) {
	g := newGateway(t, within(never, time.Hour, time.Hour))
	inBubble(t, g, func(c net.Conn) {
		_, _ = io.WriteString(c, beginPiped+textChunk+stopChunk)
		time.Sleep(2 * writePatience)
	}, func(t *testing.T, c net.Conn, r *bufio.Reader) {
		resp := request(t, c, r, rawPost(chatPath, streamAsk, len(streamAsk)))
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != textChunk+stopChunk {
			t.Fatalf("%v: %q", err, body)
		}
		time.Sleep(2 * writePatience)
		resp = request(t, c, r, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%d, %v", resp.StatusCode, err)
		}
	})
	g.wantSuccess(t)
}

// An event each minute for three hours is a healthy stream.
func TestStreamOfHours(t *testing.T) {
	const minutes = 180
	g := newGateway(t, within(2*time.Minute, 2*time.Minute, 4*time.Hour))
	inBubble(t, g, func(c net.Conn) {
		_, _ = io.WriteString(c, beginPiped)
		for range minutes {
			time.Sleep(time.Minute)
			_, _ = io.WriteString(c, textChunk)
		}
		_, _ = io.WriteString(c, stopChunk)
	}, func(t *testing.T, c net.Conn, r *bufio.Reader) {
		resp := request(t, c, r, rawPost(chatPath, streamAsk, len(streamAsk)))
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != strings.Repeat(textChunk, minutes)+stopChunk {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	})
	g.wantSuccess(t)
}

// A client that takes half a kilobyte a second is slow; an upstream that may not
// send meanwhile is not silent.
func TestReaderOfHours(t *testing.T) {
	const events = 2000
	g := newGateway(t, within(time.Minute, time.Second, 8*time.Hour))
	inBubble(t, g, func(c net.Conn) {
		_, _ = io.WriteString(c, beginPiped+strings.Repeat(textChunk, events)+stopChunk+sentinel)
	}, func(t *testing.T, c net.Conn, r *bufio.Reader) {
		resp := request(t, c, r, rawPost(chatPath, streamAsk, len(streamAsk)))
		piece, got := make([]byte, 1<<10), 0
		for {
			n, err := resp.Body.Read(piece)
			got += n
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("cut after %d bytes: %v", got, err)
			}
			time.Sleep(2 * time.Second)
		}
		if want := events*len(textChunk) + len(stopChunk+sentinel); got != want {
			t.Errorf("%d bytes of %d", got, want)
		}
	})
	g.wantSuccess(t)
}

// One that takes nothing at all has gone away.
func TestClientThatTakesNothing(t *testing.T) {
	g := newGateway(t, within(time.Minute, time.Second, time.Hour))
	inBubble(t, g, func(c net.Conn) {
		_, _ = io.WriteString(c, beginPiped)
		for _, err := io.WriteString(c, textChunk); err == nil; {
			_, err = io.WriteString(c, textChunk)
		}
	}, func(t *testing.T, c net.Conn, r *bufio.Reader) {
		_ = request(t, c, r, rawPost(chatPath, streamAsk, len(streamAsk)))
		time.Sleep(writePatience + 2*rearmAfter)
	})
	g.wantCancelled(t)
}

// A body that stops coming is given up with a status that says so.
func TestStalledRequestBody(t *testing.T) {
	g := newGateway(t)
	inBubble(t, g, nil, func(t *testing.T, c net.Conn, r *bufio.Reader) {
		start := time.Now()
		resp := request(t, c, r, rawPost(chatPath, "{", 5000))
		body, _ := io.ReadAll(resp.Body)
		if code, _ := readError(t, string(body)); resp.StatusCode != http.StatusRequestTimeout || code != "request_timeout" {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		if took := time.Since(start); took < bodyPatience || took > 10*bodyPatience {
			t.Errorf("after %v", took)
		}
	})
	g.wantLine(t, `"status":408`)
}

// A refusal does not wait for a body that never comes.
func TestRefusalWithoutTheBody(t *testing.T) {
	for name, text := range map[string]string{
		"no such path":  rawPost("/v1/none", "", 5000),
		"wrong method":  strings.Replace(rawPost(chatPath, "", 5000), "POST", "PUT", 1),
		"wrong type":    strings.Replace(rawPost(chatPath, "", 5000), "json", "xml", 1),
		"a page's":      strings.Replace(rawPost(speechPath, "", 5000), "Host:", "Origin: https://example.com\r\nHost:", 1),
		"for the list":  rawPost("/v1/models", "", 5000),
		"unknown model": strings.Replace(rawPost("/v1/models/none", "", 5000), "POST", "GET", 1),
	} {
		g := newGateway(t, listSpeech)
		inBubble(t, g, nil, func(t *testing.T, c net.Conn, r *bufio.Reader) {
			start := time.Now()
			resp := request(t, c, r, text)
			body, _ := io.ReadAll(resp.Body)
			readError(t, string(body))
			if took := time.Since(start); took > 2*lastRead {
				t.Errorf("%s: after %v", name, took)
			}
		})
	}
}

// LIF-07: what is slow but not silent goes on, however long it takes.
func TestSlowAndSteady(t *testing.T) {
	const pause = 40 * time.Second
	for name, c := range map[string]struct{ path, ask, media, body string }{
		"events":    {chatPath, streamAsk, "text/event-stream", textChunk + stopChunk + sentinel},
		"comments":  {chatPath, streamAsk, "text/event-stream", ":\n\n:\n\n:\n\n" + sentinel},
		"whole":     {chatPath, plainAsk, "application/json", plainAnswer},
		"forwarded": {speechPath, "x", "audio/mpeg", everyByte},
	} {
		g := newGateway(t, within(time.Minute, time.Minute, 24*time.Hour), listSpeech)
		inBubble(t, g, func(conn net.Conn) {
			_, _ = io.WriteString(conn, strings.Replace(beginPiped, "text/event-stream", c.media, 1))
			for p := range slices.Chunk([]byte(c.body), 3) {
				_, _ = conn.Write(p)
				time.Sleep(pause)
			}
		}, func(t *testing.T, conn net.Conn, r *bufio.Reader) {
			resp := request(t, conn, r, rawPost(c.path, c.ask, len(c.ask)))
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != c.body {
				t.Errorf("%s: %v: %q", name, err, body)
			}
		})
		g.wantSuccess(t)
	}
}

// A client that trickles its body is waited for, and its time is not the
// upstream's.
func TestTricklingRequestBody(t *testing.T) {
	for path, pause := range map[string]time.Duration{chatPath: time.Second, speechPath: 40 * time.Second} {
		g := newGateway(t, within(time.Minute, time.Minute, 24*time.Hour), listSpeech)
		inBubble(t, g, func(conn net.Conn) {
			time.Sleep(50 * time.Second)
			_, _ = io.WriteString(conn, strings.Replace(beginPiped, "text/event-stream", "application/json", 1)+plainAnswer)
		}, func(t *testing.T, conn net.Conn, r *bufio.Reader) {
			_, _ = io.WriteString(conn, rawPost(path, "", len(plainAsk)))
			for i := range plainAsk[1:] {
				_, _ = io.WriteString(conn, plainAsk[i:i+1])
				time.Sleep(pause)
			}
			resp := request(t, conn, r, plainAsk[len(plainAsk)-1:])
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != plainAnswer {
				t.Errorf("%s: %v: %s", path, err, body)
			}
		})
		g.wantSuccess(t)
	}
}
