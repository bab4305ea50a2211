//go:build !race

package relay

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

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestWaitingStream checks the stack memory of a stream that waits for its upstream. It
// has four goroutines. Three of net/http's use 10 KiB together. The relay's own must fit
// into 8 KiB, even if translation needed more before: one more frame on the path to the
// read would double it.
func TestWaitingStream(t *testing.T) {
	const streams, most = 400, 22 << 10
	for _, tt := range []struct {
		name, path, body string
		upstream         protocol.Name
		counted          bool // with a ledger, and limits on the key
	}{
		{"verbatim", chatPath, streamRequest, protocol.OpenAIChat, false},
		{"verbatim, counted", chatPath, streamRequest, protocol.OpenAIChat, true},
		{"Messages on Chat, counted", "/v1/messages", `{"model":"real-chat","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`, protocol.OpenAIChat, true},
		{"Responses on Messages, counted", "/v1/responses", `{"model":"real-chat","stream":true,"store":false,"input":"Hi"}`, protocol.Anthropic, true},
		{"Messages on Chat", "/v1/messages", `{"model":"real-chat","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`, protocol.OpenAIChat, false},
		{"Responses on Messages", "/v1/responses", `{"model":"real-chat","stream":true,"store":false,"input":"Hi"}`, protocol.Anthropic, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newSilent(t, tt.upstream)
			changes := []func(*gateway){func(g *gateway) {
				g.provider.Protocol = tt.upstream
				g.provider.BaseURL.Host = up.Addr().String()
			}}
			if tt.counted {
				changes = append(changes, newLedger(t, quota.Limit{Budget: 1000 * usage.Dollar, Concurrency: 2 * streams}).use)
			}
			g := newGateway(t, changes...)
			hold(t, g, tt.path, tt.body) // allocations of the first stream are not counted
			before := stackBytes()
			for range streams {
				hold(t, g, tt.path, tt.body)
			}
			each := (stackBytes() - before) / streams
			t.Logf("%d bytes of stack for each stream", each)
			if each > most {
				t.Errorf("a stream waits on %d bytes of stack, want at most %d", each, most)
			}
		})
	}
}

// newSilent starts an upstream that begins every stream and never ends it. It has no
// goroutine per connection, because that stack would be counted.
func newSilent(t *testing.T, dialect protocol.Name) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begin, piece := flow(t, dialect)
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
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(begin+piece), begin+piece)
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

// hold opens a stream, reads its first event and keeps the connection open.
func hold(t *testing.T, g *gateway, path, body string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, rawPost(path, body, len(body))); err != nil {
		t.Fatal(err)
	}
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
