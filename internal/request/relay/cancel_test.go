package relay

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const speechPath = "/v1/audio/speech"

// listSpeech configures a forwarded path.
func listSpeech(g *gateway) {
	g.state.Paths = map[provider.Path]*provider.Provider{{Method: http.MethodPost, Path: speechPath}: g.provider}
}

func always(g *gateway) { g.provider.UpstreamStream = provider.Always }

// rawPost returns a request as text. A length greater than the body's leaves the body
// unfinished.
func rawPost(path, body string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
}

// disconnect closes a client's connection, with a TCP reset if reset is set.
func disconnect(c net.Conn, reset bool) {
	if tcp, ok := c.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0) // without it Close would end the stream in order
	}
	_ = c.Close()
}

// flood sends events until a write fails.
func flood(c *upstreamtest.Conn) {
	for text := strings.Repeat(textChunk, 100); c.Chunk(text); {
	}
}

// TestCancelReachesTheUpstream checks that the upstream connection is closed after the
// client's disconnect, in every phase of an exchange: over sockets that it is closed, in a
// bubble that it is closed in time.
func TestCancelReachesTheUpstream(t *testing.T) {
	part := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"
	cases := []struct {
		name    string
		change  func(*gateway)
		request string
		answer  func(*upstreamtest.Conn)
		read    int // bytes that the client reads before it disconnects
	}{
		{"waiting for headers", nil, rawPost(chatPath, streamRequest, len(streamRequest)), nil, 0},
		{"waiting for headers with keep-alives", func(g *gateway) { g.state.KeepAlive = time.Millisecond }, rawPost(chatPath, streamRequest, len(streamRequest)), nil, 600},
		{"waiting for headers of a whole answer", nil, rawPost(chatPath, plainRequest, len(plainRequest)), nil, 0},
		{"silent stream", nil, rawPost(chatPath, streamRequest, len(streamRequest)), func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(textChunk) }, 300},
		{"stream without an event yet", nil, rawPost(chatPath, streamRequest, len(streamRequest)), func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk("data: {") }, 0},
		{"busy stream", nil, rawPost(chatPath, streamRequest, len(streamRequest)), func(c *upstreamtest.Conn) { c.BeginStream(); flood(c) }, 1 << 20},
		{"busy stream that is not read", nil, rawPost(chatPath, streamRequest, len(streamRequest)), func(c *upstreamtest.Conn) { c.BeginStream(); flood(c) }, 300},
		{"collecting", always, rawPost(chatPath, plainRequest, len(plainRequest)), func(c *upstreamtest.Conn) { c.BeginStream(); c.Chunk(textChunk) }, 0},
		{"reading a whole answer", nil, rawPost(chatPath, plainRequest, len(plainRequest)), func(c *upstreamtest.Conn) { c.Send(part) }, 0},
		{"reading a whole answer for a stream", nil, rawPost(chatPath, streamRequest, len(streamRequest)), func(c *upstreamtest.Conn) { c.Send(part) }, 0},
		{"reading an error", nil, rawPost(chatPath, plainRequest, len(plainRequest)), func(c *upstreamtest.Conn) { c.Send(strings.Replace(part, "200 OK", "500 No", 1)) }, 0},
		{"forwarded, waiting for headers", listSpeech, rawPost(speechPath, "x", 1), nil, 0},
		{"forwarded, silent", listSpeech, rawPost(speechPath, "x", 1), func(c *upstreamtest.Conn) { c.Send(part) }, 200},
		{"forwarded, busy", listSpeech, rawPost(speechPath, "x", 1), func(c *upstreamtest.Conn) { c.BeginStream(); flood(c) }, 1 << 20},
	}
	for _, c := range cases {
		for how, reset := range map[string]bool{"closed": false, "reset": true} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				t.Parallel()
				cancelOnce(t, c.change, c.request, c.answer, c.read, reset)
			})
		}
		t.Run(c.name+", in time", func(t *testing.T) {
			wantPromptCancel(t, c.change, c.request, c.answer, c.read)
		})
	}
}

// wantPromptCancel checks that the upstream connection is closed within 100 ms of the
// client's disconnect.
func wantPromptCancel(t *testing.T, change func(*gateway), request string, answer func(*upstreamtest.Conn), read int) {
	t.Helper()
	inBubble(t, func(t bubble) {
		if took := cancelOnce(t, change, request, answer, read, false); took > 100*time.Millisecond {
			t.Errorf("the upstream connection was closed after %v", took)
		}
	})
}

// cancelOnce returns the time between the client's disconnect and the end of the upstream
// connection.
func cancelOnce(t testing.TB, change func(*gateway), request string, answer func(*upstreamtest.Conn), read int, reset bool) time.Duration {
	t.Helper()
	changes := []func(*gateway){}
	if change != nil {
		changes = append(changes, change)
	}
	g := newGateway(t, changes...)
	began, gone := make(chan bool, 1), make(chan time.Time, 1)
	g.up.Answer(func(c *upstreamtest.Conn) {
		began <- true
		if answer != nil {
			answer(c)
		}
		if !c.Gone(never / 2) { // before a timeout of the gateway
			t.Error("the upstream's connection was kept")
		}
		gone <- time.Now()
	})
	c, r := g.dial(t)
	_, _ = io.WriteString(c, request)
	<-began
	if _, err := io.CopyN(io.Discard, r, int64(read)); err != nil {
		t.Fatal(err)
	}
	left := time.Now()
	disconnect(c, reset)
	took := (<-gone).Sub(left)
	g.wantCancelled(t)
	return took
}

func (g *gateway) wantCancelled(t testing.TB) {
	t.Helper()
	g.wantLine(t, `"outcome":"cancelled"`)
	page := g.metrics()
	if !strings.Contains(page, `outcome="cancelled"`) || !strings.Contains(page, "isogloss_cancels_total{") {
		t.Error("the cancel was not counted")
	}
	if strings.Contains(page, "isogloss_upstream_errors_total{") {
		t.Error("the cancel was counted as a failure of the upstream")
	}
	g.wantIdle(t)
}

func TestCancelDuringTheRequestBody(t *testing.T) {
	for name, path := range map[string]string{"chat": chatPath, "forwarded": speechPath} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, listSpeech)
			c, _ := g.dial(t)
			_, _ = io.WriteString(c, rawPost(path, plainRequest, 5000))
			if path == speechPath {
				eventually(t, "the upstream is called", func() bool { return g.up.Open() == 1 })
			}
			disconnect(c, false)
			g.wantCancelled(t)
			eventually(t, "the upstream is let go", func() bool { return g.up.Open() == 0 })
			if len(g.up.Requests()) != 0 {
				t.Error("the upstream was sent a request")
			}
		})
	}
}

// TestHalfClosedClient checks that a client which closes its side within the body gets no
// response that looks like a success.
func TestHalfClosedClient(t *testing.T) {
	for name, path := range map[string]string{"chat": chatPath, "forwarded": speechPath} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, listSpeech)
			c, r := g.dial(t)
			_, _ = io.WriteString(c, rawPost(path, plainRequest, 5000))
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got, _ := io.ReadAll(r); len(got) > 0 {
				t.Errorf("the client received %q", got)
			}
			g.wantCancelled(t)
		})
	}
}

// TestThousandAbortedStreams checks that a thousand disconnected clients leave no
// connection, goroutine or memory behind.
func TestThousandAbortedStreams(t *testing.T) {
	const clients, each = 50, 20
	g := newGateway(t)
	g.up.Answer(func(c *upstreamtest.Conn) {
		switch c.Request.Header.Get("Accept") {
		case "wait":
		case "busy":
			c.BeginStream()
			flood(c)
		default:
			c.BeginStream()
			c.Chunk(textChunk)
		}
		if !c.Gone(never / 2) {
			t.Error("an upstream's connection was kept")
		}
	})
	settled := func() bool {
		g.relay.Close() // closes a connection that was established after its request had ended
		return g.up.Open() == 0
	}
	abortStream(t, g, "calm")
	eventually(t, "no upstream connection is left", settled)
	goroutines, heap := runtime.NumGoroutine(), heapInUse()

	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for j := range each {
				phase := "wait"
				switch at := (i + j) % each; {
				case at == 0:
					phase = "busy" // few of these: each buffers some megabytes
				case at%2 == 0:
					phase = "calm"
				}
				abortStream(t, g, phase)
			}
		})
	}
	wg.Wait()
	eventually(t, "no upstream connection is left", settled)
	eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines+2 })
	eventually(t, "all exchanges are logged", func() bool {
		return strings.Count(g.log.String(), `"outcome":"cancelled"`) == clients*each+1
	})
	g.wantMetrics(t, fmt.Sprintf(`isogloss_cancels_total{model="real-chat",provider="up"} %d`, clients*each+1))
	g.wantIdle(t)
	if grown := heapInUse() - heap; grown > 8<<20 {
		t.Errorf("%d KiB are still held", grown>>10)
	}
}

// abortStream sends a streaming request and disconnects: after the first bytes, or at
// once in the phase "wait", in which none arrive.
func abortStream(t testing.TB, g *gateway, phase string) {
	c, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	request := rawPost(chatPath, streamRequest, len(streamRequest))
	_, _ = io.WriteString(c, strings.Replace(request, "Host:", "Accept: "+phase+"\r\nHost:", 1))
	if phase == "wait" {
		return
	}
	if _, err := bufio.NewReader(c).ReadString('{'); err != nil {
		t.Error(err)
	}
}

// heapInUse returns the size of the heap after garbage collection.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // sync.Pool frees its items in the second collection
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
