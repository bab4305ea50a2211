//go:build !race

package app

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
)

// TestWaitingStream checks the stack memory of a translated stream that waits for its upstream,
// with all handlers of the client port. Translation needs 16 KiB of stack, and the runtime halves
// it only while less than a quarter is in use: one more frame on the path to the read may be too
// much. internal/request/relay has the same test without these handlers.
func TestWaitingStream(t *testing.T) {
	const streams, most = 200, 22 << 10
	up := newSilent(t)
	g := start(t, "providers:\n  up: { protocol: openai-chat, base_url: \"http://"+up.Addr().String()+"/v1\", api_key: k }\nmodels: { fast: { targets: [up/m] } }\n", pace{})
	waitOn(t, g) // allocations of the first stream are not counted
	before := stackBytes()
	for range streams {
		waitOn(t, g)
	}
	if each := (stackBytes() - before) / streams; each > most {
		t.Errorf("a stream waits on %d bytes of stack, want at most %d", each, most)
	}
}

// newSilent starts an upstream that begins every stream and never ends it. It has no goroutine
// per connection, because that stack would be counted.
func newSilent(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(firstEvent), firstEvent)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return l
}

// waitOn opens a translated stream, reads its first event and keeps the connection open.
func waitOn(t *testing.T, g *gateway) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	const body = `{"model":"fast","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`
	fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	var got []byte
	for piece := make([]byte, 4<<10); !bytes.Contains(got, []byte("data:")); {
		n, err := c.Read(piece)
		if got = append(got, piece[:n]...); err != nil {
			t.Fatalf("%v after %q", err, got)
		}
	}
}

// stackBytes returns the memory of all stacks after garbage collection.
func stackBytes() int {
	runtime.GC()
	runtime.GC()
	s := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}
