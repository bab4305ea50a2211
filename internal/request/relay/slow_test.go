package relay

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestSlowReader checks that a client that does not read stops the upstream, however long
// the response is (LIF-16). Only the buffers of the sockets fill up.
func TestSlowReader(t *testing.T) {
	const response, inSockets, held = 200 << 20, 32 << 20, 4 << 20
	g := newGateway(t)
	var sent atomic.Int64
	g.up.Answer(func(c *upstreamtest.Conn) {
		c.Send(streamHead)
		endless(c, textChunk, response, &sent)
	})
	c := dialSmall(t, g)
	heap := heapInUse()
	_, _ = io.WriteString(c, rawPost(chatPath, streamRequest, len(streamRequest)))
	piece := make([]byte, 1<<10)
	for range 10 {
		if _, err := io.ReadFull(c, piece); err != nil {
			t.Fatal(err)
		}
		waitUntilBlocked(t, &sent)
	}
	if grown := heapInUse() - heap; grown > held {
		t.Errorf("%d KiB are held for a slow client", grown>>10)
	}
	if n := sent.Load(); n > inSockets {
		t.Errorf("the upstream could send %d MiB", n>>20)
	}
	if strings.Contains(g.log.String(), `"msg":"exchange"`) {
		t.Errorf("the exchange has ended: %s", g.log)
	}
	c.Close()
	g.wantCancelled(t)
}

// waitUntilBlocked waits until an upstream sends nothing more, because nobody reads. A
// busy machine can make it return early, which makes a test less strict, not fail.
func waitUntilBlocked(t testing.TB, sent *atomic.Int64) {
	t.Helper()
	last, since := int64(-1), time.Now()
	eventually(t, "the upstream is blocked", func() bool { // only the absence of writes shows it
		if now := sent.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= 20*time.Millisecond
	})
}

// dialSmall opens a connection with a small receive buffer.
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

// trickle sends a number of events, one each 50 ms of the bubble's time, then the end.
func trickle(events int) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		c.BeginStream()
		for range events {
			c.Chunk(textChunk)
			time.Sleep(50 * time.Millisecond)
		}
		c.Chunk(stopChunk + sentinel)
		c.EndStream()
		c.KeepAlive()
	}
}

// TestSlowStream checks that a stream that takes longer than the idle timeout is complete.
func TestSlowStream(t *testing.T) {
	inBubble(t, func(t bubble) {
		g := newGateway(t, within(time.Second, time.Second, never))
		g.up.Answer(trickle(60))
		if _, body, err := g.post(t, chatPath, streamRequest); err != nil || body != strings.Repeat(textChunk, 60)+stopChunk+sentinel {
			t.Errorf("%v: %q", err, body)
		}
		g.wantSuccess(t)
	})
}

// TestServerTimeouts checks that a stream outlives the server's timeouts (LIF-03).
func TestServerTimeouts(t *testing.T) {
	inBubble(t, func(t bubble) {
		const timeout = 500 * time.Millisecond
		g := newGateway(t)
		g.URL = g.serveHTTP(t, &http.Server{Handler: g.relay, ReadTimeout: timeout, ReadHeaderTimeout: timeout, WriteTimeout: timeout, IdleTimeout: timeout})
		g.up.Answer(trickle(30))
		if _, body, err := g.post(t, chatPath, streamRequest); err != nil || body != strings.Repeat(textChunk, 30)+stopChunk+sentinel {
			t.Errorf("%v: %q", err, body)
		}
		g.wantSuccess(t)
	})
}

// Limits of exchange.ClientWriter.
const (
	writeTimeout   = 20 * time.Second
	deadlineSlack  = time.Second
	discardTimeout = 5 * time.Second
	bodyPatience   = 30 * time.Second
	bodyRate       = 64 << 10
)

// streamHead begins an event stream that ends with its connection.
const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

// sendRaw sends a request as text and reads the header of its response.
func sendRaw(t testing.TB, c net.Conn, r *bufio.Reader, text string) *http.Response {
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

// TestSilenceLongerThanTheWriteDeadline checks that a pause longer than the write
// deadline breaks neither the rest of the response nor the next response on the
// connection.
func TestSilenceLongerThanTheWriteDeadline(t *testing.T) {
	inBubble(t, func(t bubble) {
		g := newGateway(t, within(never, time.Hour, time.Hour))
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.Send(streamHead + textChunk + stopChunk)
			time.Sleep(2 * writeTimeout)
		})
		c, r := g.dial(t)
		resp := sendRaw(t, c, r, rawPost(chatPath, streamRequest, len(streamRequest)))
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != textChunk+stopChunk {
			t.Fatalf("%v: %q", err, body)
		}
		time.Sleep(2 * writeTimeout)
		resp = sendRaw(t, c, r, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%d, %v", resp.StatusCode, err)
		}
		g.wantSuccess(t)
	})
}

// TestStreamOfHours checks that a stream with one event a minute lasts three hours.
func TestStreamOfHours(t *testing.T) {
	const minutes = 180
	inBubble(t, func(t bubble) {
		g := newGateway(t, within(2*time.Minute, 2*time.Minute, 4*time.Hour))
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.Send(streamHead)
			for range minutes {
				time.Sleep(time.Minute)
				c.Send(textChunk)
			}
			c.Send(stopChunk)
		})
		_, body, err := g.post(t, chatPath, streamRequest)
		if err != nil || body != strings.Repeat(textChunk, minutes)+stopChunk {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		g.wantSuccess(t)
	})
}

// TestReaderOfHours checks that a client that reads half a kilobyte a second causes
// neither a write timeout nor an upstream idle timeout.
func TestReaderOfHours(t *testing.T) {
	const events = 2000
	inBubble(t, func(t bubble) {
		g := newGateway(t, within(never, time.Second, 8*time.Hour))
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.Send(streamHead + strings.Repeat(textChunk, events) + stopChunk + sentinel)
		})
		c, r := g.dial(t)
		resp := sendRaw(t, c, r, rawPost(chatPath, streamRequest, len(streamRequest)))
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
		g.wantSuccess(t)
	})
}

// TestClientThatReadsNothing checks that a client that does not read at all is
// disconnected after the write timeout: of one event, or of the two parts of a full buffer.
func TestClientThatReadsNothing(t *testing.T) {
	for name, sends := range map[string]struct {
		piece string
		parts time.Duration
	}{
		"small": {textChunk, 1},
		"large": {strings.Repeat(textChunk, 1000), 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				g := newGateway(t, within(never, time.Second, time.Hour))
				g.up.Answer(func(c *upstreamtest.Conn) {
					c.Send(streamHead)
					for c.Send(sends.piece) {
					}
				})
				c, r := g.dial(t)
				_ = sendRaw(t, c, r, rawPost(chatPath, streamRequest, len(streamRequest)))
				time.Sleep(sends.parts*writeTimeout + 2*deadlineSlack)
				g.wantCancelled(t)
			})
		})
	}
}

// TestStalledRequestBody checks that a request whose body stops arriving is rejected with
// a timeout status.
func TestStalledRequestBody(t *testing.T) {
	inBubble(t, func(t bubble) {
		g := newGateway(t)
		c, r := g.dial(t)
		start := time.Now()
		resp := sendRaw(t, c, r, rawPost(chatPath, "{", 5000))
		body, _ := io.ReadAll(resp.Body)
		if code, _ := readError(t, string(body)); resp.StatusCode != http.StatusRequestTimeout || code != "request_timeout" {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		if took := time.Since(start); took < bodyPatience || took > bodyPatience+discardTimeout {
			t.Errorf("after %v", took)
		}
		g.wantLine(t, `"status":408`)
	})
}

// TestRefusalWithoutTheBody checks that the gateway rejects a request without waiting for
// the rest of its body.
func TestRefusalWithoutTheBody(t *testing.T) {
	for name, text := range map[string]string{
		"no such path":  rawPost("/v1/none", "", 5000),
		"wrong method":  strings.Replace(rawPost(chatPath, "", 5000), "POST", "PUT", 1),
		"wrong type":    strings.Replace(rawPost(chatPath, "", 5000), "json", "xml", 1),
		"a page's":      strings.Replace(rawPost(speechPath, "", 5000), "Host:", "Origin: https://example.com\r\nHost:", 1),
		"for the list":  rawPost("/v1/models", "", 5000),
		"unknown model": strings.Replace(rawPost("/v1/models/none", "", 5000), "POST", "GET", 1),
	} {
		inBubble(t, func(t bubble) {
			g := newGateway(t, listSpeech)
			c, r := g.dial(t)
			start := time.Now()
			resp := sendRaw(t, c, r, text)
			body, _ := io.ReadAll(resp.Body)
			readError(t, string(body))
			if took := time.Since(start); took > 2*discardTimeout {
				t.Errorf("%s: after %v", name, took)
			}
		})
	}
}

// TestSlowAndSteady checks that a slow but active upstream never times out (LIF-07).
func TestSlowAndSteady(t *testing.T) {
	const pause = 40 * time.Second
	for name, c := range map[string]struct{ path, ask, media, body string }{
		"events":    {chatPath, streamRequest, "text/event-stream", textChunk + stopChunk + sentinel},
		"comments":  {chatPath, streamRequest, "text/event-stream", ":\n\n:\n\n:\n\n" + sentinel},
		"whole":     {chatPath, plainRequest, "application/json", plainResponse},
		"forwarded": {speechPath, "x", "audio/mpeg", everyByte},
	} {
		inBubble(t, func(t bubble) {
			g := newGateway(t, within(never, never, 24*time.Hour), listSpeech)
			g.up.Answer(func(conn *upstreamtest.Conn) {
				conn.Send(strings.Replace(streamHead, "text/event-stream", c.media, 1))
				for p := range slices.Chunk([]byte(c.body), 3) {
					conn.Send(string(p))
					time.Sleep(pause)
				}
			})
			if _, body, err := g.post(t, c.path, c.ask); err != nil || body != c.body {
				t.Errorf("%s: %v: %q", name, err, body)
			}
			g.wantSuccess(t)
		})
	}
}

// TestUploadRate checks that a body may take half a minute, and a second more for each 64
// KiB that have arrived, whatever its Content-Length announces.
func TestUploadRate(t *testing.T) {
	const size = 8 << 20
	request := strings.Replace(plainRequest, "{", "{"+strings.Repeat(" ", size-len(plainRequest)), 1)
	for _, path := range []string{speechPath, chatPath} {
		for rate, want := range map[int]int{bodyRate: http.StatusOK, bodyRate / 2: http.StatusRequestTimeout} {
			inBubble(t, func(t bubble) {
				g := newGateway(t, within(never, never, time.Hour), listSpeech)
				g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
				c, r := g.dial(t)
				start := time.Now()
				var sending sync.WaitGroup
				defer sending.Wait()
				defer c.Close()
				sending.Go(func() {
					_, _ = io.WriteString(c, rawPost(path, "", size))
					for piece := range slices.Chunk([]byte(request), rate) {
						if _, err := c.Write(piece); err != nil {
							return // the gateway has closed the connection
						}
						time.Sleep(time.Second)
					}
				})
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != want {
					t.Errorf("%s, %d bytes a second: %d", path, rate, resp.StatusCode)
				}
				if took := time.Since(start); want != http.StatusOK && took > 2*bodyPatience+discardTimeout+time.Second {
					t.Errorf("%s, %d bytes a second: after %v", path, rate, took)
				}
				time.Sleep(time.Second) // net/http waits before it closes a connection with an unread body
			})
		}
	}
}

// TestUpstreamThatDoesNotRead checks that a client is not blamed for an upstream that
// accepts its upload late.
func TestUpstreamThatDoesNotRead(t *testing.T) {
	upload := strings.Repeat("x", 8<<20)
	inBubble(t, func(t bubble) {
		g := newGateway(t, within(4*bodyPatience, never, time.Hour), listSpeech)
		slow := listen(t)
		g.provider.BaseURL.Host = slow.Addr().String()
		var serving sync.WaitGroup
		defer serving.Wait()
		serving.Go(func() {
			c, err := slow.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(3 * bodyPatience)
			n, err := io.Copy(io.Discard, req.Body)
			if n != int64(len(upload)) {
				t.Errorf("%d bytes, %v", n, err)
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		})
		if resp, body, err := g.post(t, speechPath, upload); err != nil || body != "ok" {
			t.Errorf("%v: %v %s", err, resp, body)
		}
		g.wantSuccess(t)
	})
}

// TestTricklingRequestBody checks that a slow upload is accepted and does not count
// towards the upstream's timeouts.
func TestTricklingRequestBody(t *testing.T) {
	const pause = bodyPatience / time.Duration(len(plainRequest))
	for _, path := range []string{chatPath, speechPath} {
		inBubble(t, func(t bubble) {
			g := newGateway(t, within(never, never, 24*time.Hour), listSpeech)
			g.up.Answer(func(c *upstreamtest.Conn) {
				time.Sleep(50 * time.Second)
				c.Whole(http.StatusOK, "application/json", plainResponse)
			})
			c, r := g.dial(t)
			_, _ = io.WriteString(c, rawPost(path, "", len(plainRequest)))
			for i := range plainRequest[1:] {
				_, _ = io.WriteString(c, plainRequest[i:i+1])
				time.Sleep(pause)
			}
			resp := sendRaw(t, c, r, plainRequest[len(plainRequest)-1:])
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != plainResponse {
				t.Errorf("%s: %v: %s", path, err, body)
			}
			g.wantSuccess(t)
		})
	}
}
