package relay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
)

// within sets the limits of a gateway's upstream.
func within(first, idle, total time.Duration) func(*gateway) {
	return func(g *gateway) {
		g.provider.Timeouts = provider.Timeouts{Connect: 5 * time.Second, FirstByte: first, Idle: idle, Total: total}
	}
}

const (
	soon  = 300 * time.Millisecond
	never = time.Minute
)

// drip sends a text again and again, far more often than the limits ask for.
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
		sent   string // what comes before the error in a stream
	}{
		{"nothing", firstByte, nil, streamAsk, begin(""), "timeout_first_byte", ""},
		{"nothing, whole", firstByte, nil, plainAsk, begin(""), "timeout_first_byte", ""},
		{"half a status line", firstByte, nil, streamAsk, begin("HTTP/1.1 2"), "timeout_first_byte", ""},
		{"half a header", firstByte, nil, plainAsk, begin(whole + "Conte"), "timeout_first_byte", ""},
		{"nothing after the headers", idle, nil, streamAsk, stream(""), "timeout_idle", ""},
		{"half an event", idle, nil, streamAsk, stream("data: {"), "timeout_idle", ""},
		{"nothing after an event", idle, nil, streamAsk, stream(textChunk), "timeout_idle", textChunk},
		{"nothing after a comment", idle, nil, streamAsk, stream(":\n\n"), "timeout_idle", ":\n\n"},
		{"nothing of a whole answer", idle, nil, plainAsk, begin(whole + "Content-Length: 9\r\n\r\n"), "timeout_idle", ""},
		{"half a whole answer", idle, nil, plainAsk, begin(whole + "Content-Length: 9\r\n\r\n{"), "timeout_idle", ""},
		{"half a whole answer for a stream", idle, nil, streamAsk, begin(whole + "Content-Length: 9\r\n\r\n{"), "timeout_idle", ""},
		{"half an error", idle, nil, plainAsk, begin("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{"), "timeout_idle", ""},
		{"half a gzip header", idle, nil, plainAsk, begin(whole + "Content-Encoding: gzip\r\n\r\n\x1f"), "timeout_idle", ""},
		{"while collecting", idle, always, plainAsk, stream(textChunk), "timeout_idle", ""},
		{"total: nothing", total, nil, streamAsk, begin(""), "timeout_total", ""},
		{"total: endless comments", total, nil, streamAsk, stream(":\n\n"), "timeout_total", ":\n\n"},
		{"total: endless line", total, nil, streamAsk, stream("data: ", drip("x")), "timeout_total", ""},
		{"total: endless whole answer", total, nil, plainAsk, dripWhole, "timeout_total", ""},
		{"total: endless answer that is collected", total, always, plainAsk, stream("", drip(textChunk)), "timeout_total", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			changes := []func(*gateway){c.limit}
			if c.mode != nil {
				changes = append(changes, c.mode)
			}
			g := newGateway(t, changes...)
			gone := make(chan bool, 1)
			g.up.Answer(func(conn *upstreamtest.Conn) {
				c.script(conn)
				gone <- conn.Gone(5 * time.Second)
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
	}
}

// An endless stream is a healthy one until the whole exchange has taken too long.
func TestEndlessStream(t *testing.T) {
	g := newGateway(t, within(never, never, soon))
	g.up.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream()
		drip(textChunk)(c)
	})
	_, body, err := g.post(t, chatPath, streamAsk)
	n := strings.Count(body, textChunk)
	code, _ := readErrorEvent(t, body, strings.Repeat(textChunk, n))
	if err != nil || n == 0 || code != "timeout_total" {
		t.Errorf("%d events, then %s, %v", n, code, err)
	}
	g.wantFailure(t, "timeout")
}

// A forwarded answer has no place for an error: the client must see it break.
func TestTimeoutsOfForwardedAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		limit  func(*gateway)
		script func(*upstreamtest.Conn)
		code   string
	}{
		"idle":  {within(never, soon, never), func(*upstreamtest.Conn) {}, "timeout_idle"},
		"total": {within(never, never, soon), drip("x"), "timeout_total"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, c.limit, listSpeech)
			g.up.Answer(func(conn *upstreamtest.Conn) {
				conn.BeginStream()
				conn.Chunk("half")
				c.script(conn)
				conn.Gone(5 * time.Second)
			})
			_, body, err := g.post(t, speechPath, "x")
			if err == nil || !strings.HasPrefix(body, "half") {
				t.Errorf("the client saw a whole answer: %q", body)
			}
			g.wantLine(t, c.code)
			g.wantFailure(t, "timeout")
		})
	}
}

// Silence after the proof of the end is no failure.
func TestSilenceAfterFinish(t *testing.T) {
	g := newGateway(t, within(never, soon, never))
	g.up.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream()
		c.Chunk(textChunk + stopChunk)
		c.Gone(5 * time.Second)
	})
	if _, body, err := g.post(t, chatPath, streamAsk); err != nil || body != textChunk+stopChunk {
		t.Errorf("%v: %q", err, body)
	}
	g.wantSuccess(t)
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
	wantCut(t, g, streamAsk, "", "upstream_unreachable")
	g.wantFailure(t, "upstream")
}

func TestConnectTimeout(t *testing.T) {
	g := newGateway(t, within(never, never, never), func(g *gateway) {
		g.provider.Timeouts.Connect = soon
		g.provider.BaseURL.Host = deafListener(t)
	})
	resp, body, err := g.post(t, chatPath, streamAsk)
	if err != nil || resp.StatusCode != http.StatusGatewayTimeout {
		t.Fatalf("%d %v %s", resp.StatusCode, err, body)
	}
	if code, _ := readError(t, body); code != "timeout_connect" {
		t.Error(code)
	}
	g.wantFailure(t, "timeout")
}

// deafListener is the address of a socket whose queue is full, so that the system
// leaves further calls unanswered.
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

// endless sends a text until a number of bytes or the peer's patience is reached.
// It counts what it could send.
func endless(c *upstreamtest.Conn, text string, most int64, sent *atomic.Int64) {
	piece := strings.Repeat(text, 64<<10/len(text))
	for sent.Load() < most && c.Send(piece) {
		sent.Add(int64(len(piece)))
	}
}

// peakHeap runs f and returns by how much the heap grew at most.
func peakHeap(f func()) int64 {
	base := heapInUse()
	var peak atomic.Int64
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), int64(m.HeapInuse)))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return peak.Load() - base
}

// Whatever the upstream sends without end costs the gateway what the limits say
// and a little more, and ends in an error.
func TestGigabyteFromTheUpstream(t *testing.T) {
	const gigabyte, inSockets = 1 << 30, 24 << 20
	stream := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
	whole := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
	large := strings.Replace(textChunk, `"a"`, `"`+strings.Repeat("a", 10<<10)+`"`, 1)
	cases := []struct {
		name, ask  string
		limits     Limits
		head, text string
		sent, code string
		most, peak int64
	}{
		{"a line", streamAsk, Limits{Event: 16 << 20}, stream + "data: ", "x", "", "upstream_event_too_large", 16 << 20, 96 << 20},
		{"a line after output", streamAsk, Limits{Event: 1 << 20}, stream + textChunk + "data: ", "x", textChunk, "upstream_event_too_large", 1 << 20, 24 << 20},
		{"an event of many lines", streamAsk, Limits{Event: 1 << 20}, stream, "data: x\n", "", "upstream_event_too_large", 1 << 20, 24 << 20},
		{"a comment", streamAsk, Limits{Event: 1 << 20}, stream + ":", "x", "", "upstream_event_too_large", 1 << 20, 24 << 20},
		{"a line that is collected", plainAsk, Limits{Event: 1 << 20, Answer: 1 << 20}, stream + "data: ", "x", "", "upstream_event_too_large", 1 << 20, 24 << 20},
		{"events that are collected", plainAsk, Limits{Event: 1 << 20, Answer: 1 << 20}, stream, large, "", "upstream_invalid_response", 2 << 20, 48 << 20},
		{"a whole answer", plainAsk, Limits{Answer: 64 << 20}, whole + `{"x":"`, "x", "", "upstream_too_large", 64 << 20, 400 << 20},
		{"a whole answer for a stream", streamAsk, Limits{Answer: 1 << 20}, whole + `{"x":"`, "x", "", "upstream_too_large", 1 << 20, 24 << 20},
		{"headers", streamAsk, Limits{}, "HTTP/1.1 200 OK\r\n", "X-A: " + strings.Repeat("a", 1000) + "\r\n", "", "upstream_no_answer", 256 << 10, 16 << 20},
		{"one header", plainAsk, Limits{}, "HTTP/1.1 200 OK\r\nX-A: ", "a", "", "upstream_no_answer", 256 << 10, 16 << 20},
		{"early hints", plainAsk, Limits{}, "", "HTTP/1.1 103 Early Hints\r\n\r\n", "", "upstream_no_answer", 256 << 10, 16 << 20},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.limits.Body = 1 << 20
			g := newGateway(t, func(g *gateway) { g.state.Limits = c.limits })
			var sent atomic.Int64
			g.up.Answer(func(conn *upstreamtest.Conn) {
				conn.Send(c.head)
				endless(conn, c.text, gigabyte, &sent)
			})
			peak := peakHeap(func() { wantCut(t, g, c.ask, c.sent, c.code) })
			g.wantFailure(t, "upstream")
			eventually(t, "the upstream is let go", func() bool { return g.up.Open() == 0 })
			if got := sent.Load(); got > c.most+inSockets {
				t.Errorf("the upstream could send %d MiB", got>>20)
			}
			if peak > c.peak {
				t.Errorf("the heap grew by %d MiB", peak>>20)
			}
		})
	}
}

// An event as large as the limit passes, and so does a stream that is larger.
func TestEventAtTheLimit(t *testing.T) {
	big := strings.Replace(textChunk, `"a"`, `"`+strings.Repeat("a", 300<<10)+`"`, 1)
	body := strings.Repeat(big, 8) + stopChunk + sentinel
	for name, limit := range map[string]int64{"at": int64(len(big)), "below": int64(len(big)) - 1} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, func(g *gateway) { g.state.Limits.Event = limit })
			g.up.Answer(upstreamtest.Stream(body))
			if name == "below" {
				wantCut(t, g, streamAsk, "", "upstream_event_too_large")
				return
			}
			if _, got, err := g.post(t, chatPath, streamAsk); err != nil || got != body {
				t.Errorf("%d of %d bytes, %v", len(got), len(body), err)
			}
		})
	}
}

func TestAnswerAtTheLimit(t *testing.T) {
	for name, limit := range map[string]int{"at": len(plainAnswer), "below": len(plainAnswer) - 1} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, func(g *gateway) { g.state.Limits.Answer = int64(limit) })
			g.up.Answer(upstreamtest.JSON(http.StatusOK, plainAnswer))
			if name == "below" {
				wantCut(t, g, plainAsk, "", "upstream_too_large")
				return
			}
			if _, got, err := g.post(t, chatPath, plainAsk); err != nil || got != plainAnswer {
				t.Errorf("%v: %s", err, got)
			}
		})
	}
}

// squeeze compresses a text, flushed after each of its parts.
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

// The limits are about what an answer unfolds to.
func TestCompressedBomb(t *testing.T) {
	zeros := strings.Repeat(strings.Join(squeeze(strings.Repeat("0", 1<<20)), ""), 64) // members follow each other
	for name, c := range map[string]struct{ ask, media, code string }{
		"whole": {plainAsk, "application/json", "upstream_too_large"},
		"line":  {streamAsk, "text/event-stream", "upstream_event_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, func(g *gateway) { g.state.Limits = Limits{Body: 1 << 20, Event: 1 << 20, Answer: 1 << 20} })
			g.up.Answer(func(conn *upstreamtest.Conn) {
				conn.Whole(http.StatusOK, c.media, zeros, "Content-Encoding", "gzip")
			})
			if peak := peakHeap(func() { wantCut(t, g, c.ask, "", c.code) }); peak > 12<<20 {
				t.Errorf("the heap grew by %d MiB", peak>>20)
			}
		})
	}
}

func TestRequestBodyLimits(t *testing.T) {
	const limit = 4096
	fit := plainAsk + strings.Repeat(" ", limit-len(plainAsk))
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
				g.up.Answer(upstreamtest.JSON(http.StatusOK, plainAnswer))
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

// A client that stops in the middle of its body is not taken for a silent upstream.
func TestStalledUpload(t *testing.T) {
	g := newGateway(t, within(soon, never, never), listSpeech)
	conn, r := g.dial(t)
	_, _ = io.WriteString(conn, rawPost(speechPath, "half", 5000))
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Fatalf("%v %v", resp, err)
	}
	g.wantLine(t, `"error_code":"request_timeout"`)
}
