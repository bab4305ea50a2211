package relay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// within sets the timeouts of a gateway's upstream.
func within(first, idle, total time.Duration) func(*gateway) {
	return func(g *gateway) {
		g.provider.Timeouts = provider.Timeouts{Connect: never, FirstByte: first, Idle: idle, Total: total}
	}
}

// Timeouts of the tests. A test that expects a timeout runs in a bubble, where soon costs
// no time. No test waits for never, unless it fails.
const (
	soon  = 300 * time.Millisecond
	never = time.Minute
)

// drip sends a text every 5 ms of the bubble's time until the connection is closed.
func drip(text string) func(*upstreamtest.Conn) {
	return func(c *upstreamtest.Conn) {
		for c.Chunk(text) {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestTimeouts(t *testing.T) {
	firstByte, idle, total := within(soon, never, never), within(never, soon, never), within(never, never, soon)
	const whole = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	begin := func(text string) func(*upstreamtest.Conn) {
		return func(c *upstreamtest.Conn) { c.Send(text) }
	}
	stream := func(text string, then ...func(*upstreamtest.Conn)) func(*upstreamtest.Conn) {
		return func(c *upstreamtest.Conn) {
			c.BeginStream()
			if text != "" {
				c.Chunk(text)
			}
			for _, f := range then {
				f(c)
			}
		}
	}
	dripWhole := func(c *upstreamtest.Conn) {
		c.Send(whole + "Transfer-Encoding: chunked\r\n\r\n")
		drip(" ")(c)
	}
	cases := []struct {
		name   string
		limit  func(*gateway)
		mode   func(*gateway)
		ask    string
		script func(*upstreamtest.Conn)
		code   string
		sent   string // bytes of the stream before the error
	}{
		{"nothing", firstByte, nil, streamRequest, begin(""), "timeout_first_byte", ""},
		{"nothing, whole", firstByte, nil, plainRequest, begin(""), "timeout_first_byte", ""},
		{"half a status line", firstByte, nil, streamRequest, begin("HTTP/1.1 2"), "timeout_first_byte", ""},
		{"half a header", firstByte, nil, plainRequest, begin(whole + "Conte"), "timeout_first_byte", ""},
		{"nothing after the headers", idle, nil, streamRequest, stream(""), "timeout_idle", ""},
		{"half an event", idle, nil, streamRequest, stream("data: {"), "timeout_idle", ""},
		{"nothing after an event", idle, nil, streamRequest, stream(textChunk), "timeout_idle", textChunk},
		{"nothing after a comment", idle, nil, streamRequest, stream(":\n\n"), "timeout_idle", ":\n\n"},
		{"nothing of a whole answer", idle, nil, plainRequest, begin(whole + "Content-Length: 9\r\n\r\n"), "timeout_idle", ""},
		{"half a whole answer", idle, nil, plainRequest, begin(whole + "Content-Length: 9\r\n\r\n{"), "timeout_idle", ""},
		{"half a whole answer for a stream", idle, nil, streamRequest, begin(whole + "Content-Length: 9\r\n\r\n{"), "timeout_idle", ""},
		{"half an error", idle, nil, plainRequest, begin("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{"), "timeout_idle", ""},
		{"half a gzip header", idle, nil, plainRequest, begin(whole + "Content-Encoding: gzip\r\n\r\n\x1f"), "timeout_idle", ""},
		{"while collecting", idle, always, plainRequest, stream(textChunk), "timeout_idle", ""},
		{"total: nothing", total, nil, streamRequest, begin(""), "timeout_total", ""},
		{"total: endless comments", total, nil, streamRequest, stream(":\n\n"), "timeout_total", ":\n\n"},
		{"total: endless line", total, nil, streamRequest, stream("data: ", drip("x")), "timeout_total", ""},
		{"total: endless whole answer", total, nil, plainRequest, dripWhole, "timeout_total", ""},
		{"total: endless answer that is collected", total, always, plainRequest, stream("", drip(textChunk)), "timeout_total", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				changes := []func(*gateway){c.limit}
				if c.mode != nil {
					changes = append(changes, c.mode)
				}
				g := newGateway(t, changes...)
				gone := make(chan bool, 1)
				g.up.Answer(func(conn *upstreamtest.Conn) {
					c.script(conn)
					gone <- conn.Gone(never)
				})
				resp, body, err := g.post(t, chatPath, c.ask)
				if err != nil {
					t.Fatal(err)
				}
				status, read := http.StatusGatewayTimeout, readError
				if c.sent != "" {
					status, read = http.StatusOK, func(t testing.TB, body string) (string, string) { return readErrorEvent(t, body, c.sent) }
				}
				if code, _ := read(t, body); resp.StatusCode != status || code != c.code {
					t.Errorf("status %d, code %s, want %d, %s", resp.StatusCode, code, status, c.code)
				}
				if !<-gone {
					t.Error("the upstream's connection is still held")
				}
				g.wantFailure(t, "timeout")
			})
		})
	}
}

// TestEndlessStream checks that an active stream ends only when the total timeout
// expires.
func TestEndlessStream(t *testing.T) {
	inBubble(t, func(t bubble) {
		g := newGateway(t, within(never, never, soon))
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.BeginStream()
			drip(textChunk)(c)
		})
		_, body, err := g.post(t, chatPath, streamRequest)
		n := strings.Count(body, textChunk)
		code, _ := readErrorEvent(t, body, strings.Repeat(textChunk, n))
		if err != nil || n == 0 || code != "timeout_total" {
			t.Errorf("%d events, then %s, %v", n, code, err)
		}
		g.wantFailure(t, "timeout")
	})
}

// TestTimeoutsOfForwardedResponses checks that a timeout breaks the client's connection:
// a forwarded response that has started cannot carry an error.
func TestTimeoutsOfForwardedResponses(t *testing.T) {
	for name, c := range map[string]struct {
		limit  func(*gateway)
		script func(*upstreamtest.Conn)
		code   string
	}{
		"idle":  {within(never, soon, never), func(*upstreamtest.Conn) {}, "timeout_idle"},
		"total": {within(never, never, soon), drip("x"), "timeout_total"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				g := newGateway(t, c.limit, listSpeech)
				g.up.Answer(func(conn *upstreamtest.Conn) {
					conn.BeginStream()
					conn.Chunk("half")
					c.script(conn)
					conn.Gone(never)
				})
				_, body, err := g.post(t, speechPath, "x")
				if err == nil || !strings.HasPrefix(body, "half") {
					t.Errorf("the client saw a complete response: %q", body)
				}
				g.wantLine(t, c.code)
				g.wantFailure(t, "timeout")
			})
		})
	}
}

// TestSilenceAfterFinish checks that a timeout after the stream's final event is not a
// failure.
func TestSilenceAfterFinish(t *testing.T) {
	inBubble(t, func(t bubble) {
		g := newGateway(t, within(never, soon, never))
		g.up.Answer(func(c *upstreamtest.Conn) {
			c.BeginStream()
			c.Chunk(textChunk + stopChunk)
			c.Gone(never)
		})
		if _, body, err := g.post(t, chatPath, streamRequest); err != nil || body != textChunk+stopChunk {
			t.Errorf("%v: %q", err, body)
		}
		g.wantSuccess(t)
	})
}

func TestUnreachable(t *testing.T) {
	g := newGateway(t, func(g *gateway) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		g.provider.BaseURL.Host = l.Addr().String()
		l.Close()
	})
	wantTruncated(t, g, streamRequest, "", "upstream_unreachable")
	g.wantFailure(t, "upstream")
}

func TestConnectTimeout(t *testing.T) {
	g := newGateway(t, within(never, never, never), func(g *gateway) {
		g.provider.Timeouts.Connect = soon
		g.provider.BaseURL.Host = deafListener(t)
	})
	resp, body, err := g.post(t, chatPath, streamRequest)
	if err != nil || resp.StatusCode != http.StatusGatewayTimeout {
		t.Fatalf("%d %v %s", resp.StatusCode, err, body)
	}
	if code, _ := readError(t, body); code != "timeout_connect" {
		t.Error(code)
	}
	g.wantFailure(t, "timeout")
}

// deafListener returns the address of a socket whose accept queue is full, so that
// connection attempts get no response.
func deafListener(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 8 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Skip("this system takes calls beyond a listener's queue")
	return ""
}

// endless sends a text until a number of bytes is reached or the connection is closed.
// It counts the bytes sent.
func endless(c *upstreamtest.Conn, text string, most int64, sent *atomic.Int64) {
	piece := strings.Repeat(text, 64<<10/len(text))
	for sent.Load() < most && c.Send(piece) {
		sent.Add(int64(len(piece)))
	}
}

// heapPeak measures by how much the heap has grown at most. Use it in a bubble.
type heapPeak struct{ base, grown int64 }

func newHeapPeak() *heapPeak { return &heapPeak{base: heapInUse()} }

// measure waits until every other goroutine of the bubble waits, so that the heap
// contains only what is held.
func (p *heapPeak) measure() {
	synctest.Wait()
	p.grown = max(p.grown, heapInUse()-p.base)
}

// TestGigabyteFromTheUpstream checks that an endless upstream response ends with an error
// and uses little more memory than the configured limits.
func TestGigabyteFromTheUpstream(t *testing.T) {
	const gigabyte, buffered = 1 << 30, 128 << 10
	whole := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
	large := strings.Replace(textChunk, `"a"`, `"`+strings.Repeat("a", 10<<10)+`"`, 1)
	cases := []struct {
		name, ask  string
		limits     exchange.Limits
		head, text string
		sent, code string
		most       int64
	}{
		{"a line", streamRequest, exchange.Limits{Event: 16 << 20}, streamHead + "data: ", "x", "", "upstream_event_too_large", 16 << 20},
		{"a line after output", streamRequest, exchange.Limits{Event: 1 << 20}, streamHead + textChunk + "data: ", "x", textChunk, "upstream_event_too_large", 1 << 20},
		{"an event of many lines", streamRequest, exchange.Limits{Event: 1 << 20}, streamHead, "data: x\n", "", "upstream_event_too_large", 1 << 20},
		{"a comment", streamRequest, exchange.Limits{Event: 1 << 20}, streamHead + ":", "x", "", "upstream_event_too_large", 1 << 20},
		{"a line that is collected", plainRequest, exchange.Limits{Event: 1 << 20, Answer: 1 << 20}, streamHead + "data: ", "x", "", "upstream_event_too_large", 1 << 20},
		{"events that are collected", plainRequest, exchange.Limits{Event: 1 << 20, Answer: 1 << 20}, streamHead, large, "", "upstream_invalid_response", 2 << 20},
		{"a whole answer", plainRequest, exchange.Limits{Answer: 64 << 20}, whole + `{"x":"`, "x", "", "upstream_too_large", 64 << 20},
		{"a whole answer for a stream", streamRequest, exchange.Limits{Answer: 1 << 20}, whole + `{"x":"`, "x", "", "upstream_too_large", 1 << 20},
		{"headers", streamRequest, exchange.Limits{}, "HTTP/1.1 200 OK\r\n", "X-A: " + strings.Repeat("a", 1000) + "\r\n", "", "upstream_no_answer", 256 << 10},
		{"one header", plainRequest, exchange.Limits{}, "HTTP/1.1 200 OK\r\nX-A: ", "a", "", "upstream_no_answer", 256 << 10},
		{"early hints", plainRequest, exchange.Limits{}, "", "HTTP/1.1 103 Early Hints\r\n\r\n", "", "upstream_no_answer", 256 << 10},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				c.limits.Body = 1 << 20
				g := newGateway(t, func(g *gateway) { g.state.Limits = c.limits })
				heap, sent := newHeapPeak(), int64(0)
				closed := make(chan bool, 1)
				g.up.Answer(func(conn *upstreamtest.Conn) {
					conn.Send(c.head)
					piece := strings.Repeat(c.text, 64<<10/len(c.text))
					for measured := int64(0); sent < gigabyte && conn.Send(piece); {
						if sent += int64(len(piece)); sent-measured >= c.most/8 {
							measured = sent
							heap.measure()
						}
					}
					closed <- conn.Gone(never)
				})
				wantTruncated(t, g, c.ask, c.sent, c.code)
				g.wantFailure(t, "upstream")
				if !<-closed {
					t.Error("the upstream's connection is still open")
				}
				if sent > c.most+buffered {
					t.Errorf("the upstream could send %d KiB", sent>>10)
				}
				if heap.grown > 2*c.most+1<<20 {
					t.Errorf("the heap grew by %d KiB", heap.grown>>10)
				}
			})
		})
	}
}

// TestEventAtTheLimit checks that an event of exactly the maximum size passes, and so
// does a stream larger than that size.
func TestEventAtTheLimit(t *testing.T) {
	big := strings.Replace(textChunk, `"a"`, `"`+strings.Repeat("a", 300<<10)+`"`, 1)
	body := strings.Repeat(big, 8) + stopChunk + sentinel
	for name, limit := range map[string]int64{"at": int64(len(big)), "below": int64(len(big)) - 1} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, func(g *gateway) { g.state.Limits.Event = limit })
			g.up.Answer(upstreamtest.Stream(body))
			if name == "below" {
				wantTruncated(t, g, streamRequest, "", "upstream_event_too_large")
				return
			}
			if _, got, err := g.post(t, chatPath, streamRequest); err != nil || got != body {
				t.Errorf("%d of %d bytes, %v", len(got), len(body), err)
			}
		})
	}
}

func TestResponseAtTheLimit(t *testing.T) {
	for name, limit := range map[string]int{"at": len(plainResponse), "below": len(plainResponse) - 1} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, func(g *gateway) { g.state.Limits.Answer = int64(limit) })
			g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
			if name == "below" {
				wantTruncated(t, g, plainRequest, "", "upstream_too_large")
				return
			}
			if _, got, err := g.post(t, chatPath, plainRequest); err != nil || got != plainResponse {
				t.Errorf("%v: %s", err, got)
			}
		})
	}
}

// squeeze compresses the parts as one gzip stream, flushed after each part.
func squeeze(parts ...string) []string {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	var out []string
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
		_ = w.Flush()
		out = append(out, buf.String())
		buf.Reset()
	}
	_ = w.Close()
	return append(out, buf.String())
}

// TestCompressedBomb checks that the size limits apply to the decompressed response.
func TestCompressedBomb(t *testing.T) {
	const members = 64
	zeros := strings.Join(squeeze(strings.Repeat("0", 1<<20)), "") // members follow each other
	for name, c := range map[string]struct{ ask, media, code string }{
		"whole": {plainRequest, "application/json", "upstream_too_large"},
		"line":  {streamRequest, "text/event-stream", "upstream_event_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				g := newGateway(t, func(g *gateway) { g.state.Limits = exchange.Limits{Body: 1 << 20, Event: 1 << 20, Answer: 1 << 20} })
				heap := newHeapPeak()
				g.up.Answer(func(conn *upstreamtest.Conn) {
					conn.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", c.media, members*len(zeros)))
					for range members {
						if !conn.Send(zeros) {
							break
						}
						heap.measure()
					}
				})
				wantTruncated(t, g, c.ask, "", c.code)
				if heap.grown > 3<<20 {
					t.Errorf("the heap grew by %d KiB", heap.grown>>10)
				}
			})
		})
	}
}

func TestRequestBodyLimits(t *testing.T) {
	const limit = 4096
	fit := plainRequest + strings.Repeat(" ", limit-len(plainRequest))
	chunked := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", path, len(body), body)
	}
	for _, path := range []string{chatPath, speechPath} {
		for _, c := range []struct {
			name, request string
			status        int
		}{
			{"at the limit", rawPost(path, fit, len(fit)), 200},
			{"at the limit, chunked", chunked(path, fit), 200},
			{"over it", rawPost(path, fit+" ", len(fit)+1), 413},
			{"over it, and never sent", rawPost(path, "", 1<<40), 413},
			{"over it, chunked", chunked(path, fit+" "), 413},
		} {
			t.Run(path+" "+c.name, func(t *testing.T) {
				t.Parallel()
				g := newGateway(t, listSpeech, func(g *gateway) { g.state.Limits.Body = limit })
				g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
				conn, r := g.dial(t)
				_, _ = io.WriteString(conn, c.request)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != c.status {
					t.Fatalf("%d, %v, %s", resp.StatusCode, err, body)
				}
				if c.status == http.StatusOK {
					g.wantSuccess(t)
					return
				}
				if code, _ := readError(t, string(body)); code != "request_too_large" {
					t.Error(code)
				}
				g.wantLine(t, `"outcome":"client_error"`)
				g.wantIdle(t)
				if len(g.up.Requests()) > 0 {
					t.Error("the upstream got it")
				}
			})
		}
	}
}

// TestStalledUpload checks that a client that stops sending its body is not reported as
// an upstream timeout.
func TestStalledUpload(t *testing.T) {
	inBubble(t, func(t bubble) {
		g := newGateway(t, within(soon, never, never), listSpeech)
		conn, r := g.dial(t)
		resp := sendRaw(t, conn, r, rawPost(speechPath, "half", 5000))
		if resp.StatusCode != http.StatusRequestTimeout {
			t.Fatal(resp.Status)
		}
		g.wantLine(t, `"error_code":"request_timeout"`)
	})
}
