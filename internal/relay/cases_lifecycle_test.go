package relay

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// SSE-24: what could hold a stream back is told not to, before its first event.
func TestStreamsAreNotHeldBack(t *testing.T) {
	c := sharedCase(t, "text")
	eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
		g := newGateway(t, speaking(upstream))
		g.up.Answer(upstreamtest.Stream(c.stream(upstream)))
		path, ask := simpleAsk(client, true)
		resp, _, err := g.post(t, path, ask, "Accept-Encoding", "gzip, br")
		h := resp.Header
		if err != nil || h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-cache" || h.Get("X-Accel-Buffering") != "no" {
			t.Errorf("%v: %v", err, h)
		}
		if h.Get("Content-Encoding") != "" || h.Get("Content-Length") != "" {
			t.Errorf("the stream is compressed or measured: %v", h)
		}
	})
}

// LIF-04: deadlines and flushing reach the connection over HTTP/2 too, where the
// server's writer is another.
func TestServerTimeoutsOverHTTP2(t *testing.T) {
	const timeout = 300 * time.Millisecond
	g := newGateway(t)
	srv := httptest.NewUnstartedServer(g.relay)
	srv.EnableHTTP2 = true
	srv.Config.WriteTimeout, srv.Config.ReadTimeout = timeout, timeout
	srv.StartTLS()
	defer srv.Close()
	g.up.Answer(trickle(20))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+chatPath, strings.NewReader(streamAsk))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if want := strings.Repeat(textChunk, 20) + stopChunk + sentinel; err != nil || resp.ProtoMajor != 2 || string(body) != want {
		t.Errorf("HTTP/%d, %v: %q", resp.ProtoMajor, err, body)
	}
	g.wantSuccess(t)
}

// LIF-12: an upstream that closes a connection which it had promised to keep costs
// nobody a request. One that has begun to answer is not asked again.
func TestStaleConnections(t *testing.T) {
	g := newGateway(t)
	for range 20 {
		g.up.Answer(func(c *upstreamtest.Conn) { // the promise is kept by the header and broken by the socket
			c.Whole(http.StatusOK, "application/json", plainAnswer, "Connection", "keep-alive")
		})
		resp, body, err := g.post(t, chatPath, plainAsk)
		if err != nil || resp.StatusCode != http.StatusOK || body != plainAnswer {
			t.Fatalf("%v %s %s", err, resp.Status, body)
		}
	}
	g = newGateway(t)
	g.up.Answer(func(c *upstreamtest.Conn) {
		c.Send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{")
	})
	if resp, body, _ := g.post(t, chatPath, plainAsk); resp.StatusCode != http.StatusBadGateway || len(g.up.Requests()) != 1 {
		t.Errorf("%s %s after %d requests", resp.Status, body, len(g.up.Requests()))
	}
}

// goingAway is a listener whose first connection speaks HTTP/2 just far enough to
// say, once it has a whole request, that it is leaving and has looked at none.
type goingAway struct {
	net.Listener
	config func() *tls.Config
	first  atomic.Bool
	wg     sync.WaitGroup
}

func (l *goingAway) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.first.Swap(true) {
		return c, err
	}
	l.wg.Go(func() { leaveUnread(tls.Server(c, l.config())) })
	return l.Listener.Accept()
}

// leaveUnread reads frames up to the end of a request's body and sends GOAWAY.
func leaveUnread(c net.Conn) {
	defer c.Close()
	const (
		data, settings, goAway = 0, 4, 7
		endStream              = 1
	)
	frame := func(kind byte, payload ...byte) {
		_, _ = c.Write(append([]byte{0, 0, byte(len(payload)), kind, 0, 0, 0, 0, 0}, payload...))
	}
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	frame(settings)
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		size := int64(binary.BigEndian.Uint32(append([]byte{0}, head[:3]...)))
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return
		}
		if head[3] == data && head[4]&endStream != 0 {
			frame(goAway, make([]byte, 8)...)
			_, _ = io.Copy(io.Discard, c)
			return
		}
	}
}

// LIF-11: a request that an HTTP/2 upstream has not looked at before it left is
// sent again on another connection, body and all.
func TestUpstreamGoesAway(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor == 2 && bytes.Equal(body, []byte(plainAsk)) {
			asked.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, plainAnswer)
	}))
	l := &goingAway{Listener: srv.Listener, config: func() *tls.Config { return srv.TLS }}
	srv.Listener, srv.EnableHTTP2 = l, true
	srv.StartTLS()
	defer l.wg.Wait()
	defer srv.Close()
	base, err := url.Parse(srv.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	g := newGateway(t, func(g *gateway) { g.provider.BaseURL = base })
	tr := newTransport(g.provider.Timeouts.Connect)
	tr.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	g.relay.transports.by[g.provider.Timeouts.Connect] = tr
	resp, body, err := g.post(t, chatPath, plainAsk)
	if err != nil || resp.StatusCode != http.StatusOK || body != plainAnswer || asked.Load() != 1 {
		t.Errorf("%v %s %s, asked %d times", err, resp.Status, body, asked.Load())
	}
	tr.CloseIdleConnections()
}

// twoTargets serves the model m by two upstreams: the gateway's own, and another.
func twoTargets(t testing.TB, g *gateway, dialect protocol.Name) (other *upstreamtest.Server) {
	t.Helper()
	other = upstreamtest.New(t)
	base, err := url.Parse(other.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	second := *g.provider
	second.Name, second.BaseURL, second.Protocol = "other", base, dialect
	s := *g.state
	s.Routes = route.New([]*route.Route{{Name: "m", Targets: []route.Target{
		{Provider: g.provider, Model: "m", Timeouts: g.provider.Timeouts}, {Provider: &second, Model: "m", Timeouts: second.Timeouts},
	}}})
	g.relay.Use(&s)
	return other
}

// LIF-20: a model's requests go to the same one of its targets, so that what only
// that one can read comes back to it.
func TestSealedTurnsStayWithTheirUpstream(t *testing.T) {
	g := newGateway(t, speaking(responsesDialect))
	other := twoTargets(t, g, responsesDialect)
	const ask = `{"model":"m","store":false,"include":["reasoning.encrypted_content"],"input":[{"role":"user","content":"q"},` +
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA+/="},{"role":"assistant","content":"a"},{"role":"user","content":"r"}]}`
	for status := range 8 {
		answer := upstreamtest.JSON(200, `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[],"usage":null}`)
		if status%4 == 3 { // a failure moves nothing
			answer = upstreamtest.JSON(503, `{"error":{"message":"busy","type":"server_error","param":null,"code":null}}`)
		}
		g.up.Answer(answer)
		if _, _, err := g.post(t, "/v1/responses", ask); err != nil {
			t.Fatal(err)
		}
		if got := string(g.up.Last(t).Body); got != ask || len(g.up.Requests()) != status+1 {
			t.Fatalf("request %d: %s", status, got)
		}
	}
	if n := len(other.Requests()); n > 0 {
		t.Errorf("the other account was asked %d times", n)
	}
}

// USE-19: what was counted before the client left is in the books, and that it left.
func TestUsageOfAbandonedStreams(t *testing.T) {
	chat := `data: {"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}` + "\n\n"
	messages := `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":7}}}` + "\n\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}` + "\n\n"
	for name, c := range map[string]struct {
		client, upstream protocol.Name
		stream           string
	}{
		"relayed":    {chatDialect, chatDialect, chat},
		"translated": {chatDialect, anthropicDialect, messages},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, speaking(c.upstream))
			g.up.Answer(func(conn *upstreamtest.Conn) {
				conn.BeginStream()
				conn.Chunk(c.stream)
				conn.Gone(10 * time.Second)
			})
			path, ask := simpleAsk(c.client, true)
			resp := g.open(t, path, ask)
			var got strings.Builder
			for piece := make([]byte, 512); !strings.Contains(got.String(), `"a"`); {
				n, err := resp.Body.Read(piece)
				got.Write(piece[:n])
				if err != nil {
					t.Fatalf("%v: %s", err, got.String())
				}
			}
			_ = resp.Body.Close()
			g.wantLine(t, `"outcome":"cancelled"`, `"input_tokens":11`, `"output_tokens":7`)
		})
	}
}

// SSE-28: bytes that are no UTF-8 cost one character, streamed or not; between equals
// they pass.
func TestBytesThatAreNoUTF8(t *testing.T) {
	const bad = "a\xffb"
	stream := strings.Replace(textChunk, `"a"`, `"`+bad+`"`, 1) + stopChunk + sentinel
	whole := strings.Replace(chatAnswer, `"content":"Hi"`, `"content":"`+bad+`"`, 1)
	for client, want := range map[protocol.Name]string{chatDialect: bad, anthropicDialect: "a\ufffdb", responsesDialect: "a\ufffdb", geminiDialect: "a\ufffdb"} {
		g := newGateway(t, speaking(chatDialect))
		for _, streamed := range []bool{true, false} {
			g.up.Answer(upstreamtest.JSON(200, whole))
			if streamed {
				g.up.Answer(upstreamtest.Stream(stream))
			}
			path, ask := simpleAsk(client, streamed)
			resp, body, err := g.post(t, path, ask)
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, `"`+want+`"`) {
				t.Errorf("%s, streamed %t: %v %s %q", client, streamed, err, resp.Status, body)
			}
		}
	}
}
