package app

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// replaceable is a Process that is replaced when the test closes replaced. It keeps the listener
// open, as the next process does.
type replaceable struct {
	ready, replaced chan struct{}
	data            net.Listener
}

func newReplaceable(t *testing.T) *replaceable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &replaceable{ready: make(chan struct{}), replaced: make(chan struct{}), data: l}
}

func (r *replaceable) Listen(ctx context.Context, name, address string) (net.Listener, error) {
	if name != "data" {
		return alone{}.Listen(ctx, name, address)
	}
	f, err := r.data.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

func (r *replaceable) Ready(context.Context, *slog.Logger) error {
	close(r.ready)
	return nil
}

func (r *replaceable) Replaced() <-chan struct{} { return r.replaced }

// conn is a kept-alive connection to one process.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, url string) *conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &conn{c, bufio.NewReader(c)}
}

// send sends a request and returns the response with an unread body.
func (c *conn) send(t *testing.T, method, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if err := req.Write(c); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(c.r, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (c *conn) health(t *testing.T) (status int, body string, toClose bool) {
	t.Helper()
	resp := c.send(t, http.MethodGet, "/health", "")
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Close
}

const streamed = `{"model":"fast","stream":true,"messages":[{"role":"user","content":"hi"}]}`

const takenOver = `"msg":"another process has taken over; open requests are finished"`

func TestReplacedProcessFinishesItsStreams(t *testing.T) {
	up := upstreamtest.New(t)
	_, release := hold(t, up)
	r := newReplaceable(t)
	p := quick()
	p.lameDuck = 100 * time.Millisecond
	g := startIn(t, r, numbered(up, 1), p)
	<-r.ready
	stream, idle := dial(t, g.url), dial(t, g.url)
	resp := stream.send(t, http.MethodPost, "/v1/chat/completions", streamed)
	if status, _, _ := idle.health(t); status != http.StatusOK {
		t.Fatalf("/health says %d", status)
	}

	close(r.replaced)
	g.log.waitFor(t, takenOver, 1)
	if status, body, toClose := idle.health(t); status != http.StatusServiceUnavailable || body != `{"status":"draining"}` || !toClose {
		t.Errorf("/health says %d %s, connection to be closed %t", status, body, toClose)
	}
	acceptsNothing(t, r)
	release()
	rest, err := io.ReadAll(resp.Body)
	if err != nil || string(rest) != firstEvent+lastEvents {
		t.Errorf("the stream is %q, %v", rest, err)
	}
	// The stream's headers allowed the client to reuse the connection, so its next
	// request must be served too.
	up.Answer(echo)
	resp = stream.send(t, http.MethodPost, "/v1/chat/completions", strings.Replace(streamed, "true", "false", 1))
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("a request behind the stream: status %d, connection to be closed %t", resp.StatusCode, resp.Close)
	}
	g.ends(t)
}

// acceptsNothing checks that the gateway does not accept new connections. All are made before the other process accepts the
// first: a gateway that still accepts would share them with it, and the last would not come.
func acceptsNothing(t *testing.T, r *replaceable) {
	t.Helper()
	const connections = 20
	for range connections {
		dial(t, "http://"+r.data.Addr().String())
	}
	theirs := make(chan error)
	go func() {
		for range connections {
			c, err := r.data.Accept()
			if err == nil {
				_ = c.Close()
			}
			theirs <- err
		}
	}()
	for range connections {
		select {
		case err := <-theirs:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(patience):
			t.Fatal("the process that was replaced still accepts")
		}
	}
}

// ends waits for a gateway that exits by itself.
func (g *gateway) ends(t *testing.T) {
	t.Helper()
	select {
	case err := <-g.ended:
		if err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
		close(g.ended)
	case <-time.After(patience):
		t.Fatalf("the gateway does not end; its log:\n%s", g.log)
	}
}

func TestFinishTimeoutEndsStreamsWithAnError(t *testing.T) {
	up := upstreamtest.New(t)
	hold(t, up)
	r := newReplaceable(t)
	p := quick()
	p.lameDuck, p.finish = 20*time.Millisecond, 100*time.Millisecond
	g := startIn(t, r, numbered(up, 1), p)
	resp, rest := openStream(t, g)
	defer resp.Body.Close()
	close(r.replaced)
	endsInShutdown(t, rest)
	g.ends(t)
}

func TestSignalCutsTheFinishShort(t *testing.T) {
	up := upstreamtest.New(t)
	hold(t, up)
	r := newReplaceable(t)
	p := quick()
	p.lameDuck, p.finish, p.drain = 20*time.Millisecond, patience, 100*time.Millisecond
	g := startIn(t, r, numbered(up, 1), p)
	resp, rest := openStream(t, g)
	defer resp.Body.Close()
	close(r.replaced)
	g.log.waitFor(t, takenOver, 1)
	g.stop()
	g.log.waitFor(t, `"msg":"draining"`, 1)
	endsInShutdown(t, rest)
	g.ends(t)
}

func endsInShutdown(t *testing.T, r io.Reader) {
	t.Helper()
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	if !strings.HasPrefix(string(rest), `data: {"error":{`) || !strings.Contains(string(rest), `"shutting_down"`) || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream ends with %q", rest)
	}
}

// TestReplacedProcessIgnoresFileChanges checks that a replaced process does not load a
// changed configuration file while it finishes its requests.
func TestReplacedProcessIgnoresFileChanges(t *testing.T) {
	up := upstreamtest.New(t)
	_, release := hold(t, up)
	r := newReplaceable(t)
	p := quick()
	p.lameDuck = 20 * p.look
	g := startIn(t, r, numbered(up, 1), p)
	resp, _ := openStream(t, g)
	defer resp.Body.Close()
	close(r.replaced)
	g.log.waitFor(t, takenOver, 1)
	g.write(t, numbered(up, 2))
	release()
	g.client.CloseIdleConnections()
	g.ends(t)
	if strings.Contains(g.log.String(), loaded) {
		t.Error("a replaced process loaded the file")
	}
}
