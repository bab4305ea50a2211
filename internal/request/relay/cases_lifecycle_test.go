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

	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestStreamHeadersDisableBuffering checks the response headers that keep proxies from
// buffering, caching or compressing a stream (SSE-24).
func TestStreamHeadersDisableBuffering(t *testing.T) {
	c := sharedCase(t, "text")
	eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
		g := newGateway(t, speaking(upstream))
		g.up.Answer(upstreamtest.Stream(c.stream(upstream)))
		path, ask := simpleRequest(client, true)
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

// TestServerTimeoutsOverHTTP2 checks that a stream over HTTP/2 outlives the server's read
// and write timeouts and is flushed event by event (LIF-04).
func TestServerTimeoutsOverHTTP2(t *testing.T) {
	inBubble(t, func(t bubble) {
		const timeout = 300 * time.Millisecond
		g := newGateway(t)
		var h2 http.Protocols
		h2.SetUnencryptedHTTP2(true)
		g.client = &http.Client{Transport: &http.Transport{DialContext: g.dialer, Protocols: &h2}}
		g.URL = g.serveHTTP(t, &http.Server{Handler: g.relay, Protocols: &h2, WriteTimeout: timeout, ReadTimeout: timeout})
		g.up.Answer(trickle(20))
		resp, body, err := g.post(t, chatPath, streamRequest)
		if want := strings.Repeat(textChunk, 20) + stopChunk + sentinel; err != nil || resp.ProtoMajor != 2 || body != want {
			t.Errorf("HTTP/%d, %v: %q", resp.ProtoMajor, err, body)
		}
		g.wantSuccess(t)
	})
}

// TestStaleConnections checks that no request fails when the upstream closes kept-alive
// connections, and that a request whose response has started is not sent again (LIF-12).
func TestStaleConnections(t *testing.T) {
	g := newGateway(t)
	for range 20 {
		g.up.Answer(func(c *upstreamtest.Conn) { // the header announces keep-alive, but the connection is closed
			c.Whole(http.StatusOK, "application/json", plainResponse, "Connection", "keep-alive")
		})
		resp, body, err := g.post(t, chatPath, plainRequest)
		if err != nil || resp.StatusCode != http.StatusOK || body != plainResponse {
			t.Fatalf("%v %s %s", err, resp.Status, body)
		}
	}
	g = newGateway(t)
	g.up.Answer(func(c *upstreamtest.Conn) {
		c.Send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{")
	})
	if resp, body, _ := g.post(t, chatPath, plainRequest); resp.StatusCode != http.StatusBadGateway || len(g.up.Requests()) != 1 {
		t.Errorf("%s %s after %d requests", resp.Status, body, len(g.up.Requests()))
	}
}

// goingAway is a listener whose first connection reads one HTTP/2 request and sends
// GOAWAY with last stream id 0: the request was not processed.
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
	l.wg.Go(func() { sendGoAway(tls.Server(c, l.config())) })
	return l.Listener.Accept()
}

// sendGoAway reads frames up to the end of a request's body and sends GOAWAY.
func sendGoAway(c net.Conn) {
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

// TestUpstreamGoAway checks that a request that an HTTP/2 upstream rejects with GOAWAY is
// sent again, with its body, on another connection (LIF-11).
func TestUpstreamGoAway(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor == 2 && bytes.Equal(body, []byte(plainRequest)) {
			asked.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, plainResponse)
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
	tr := upstream.NewTransport(g.provider.Timeouts.Connect)
	tr.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	g.relay.client.SetTransport(g.provider.Timeouts.Connect, tr)
	resp, body, err := g.post(t, chatPath, plainRequest)
	if err != nil || resp.StatusCode != http.StatusOK || body != plainResponse || asked.Load() != 1 {
		t.Errorf("%v %s %s, asked %d times", err, resp.Status, body, asked.Load())
	}
	tr.CloseIdleConnections()
}

// twoTargets routes the model m to the gateway's upstream and to a second one, which it
// returns.
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

// TestSealedTurnsStayWithTheirUpstream checks that a request with encrypted reasoning
// always goes to the same target, even after a failure (LIF-20).
func TestSealedTurnsStayWithTheirUpstream(t *testing.T) {
	g := newGateway(t, speaking(responsesDialect))
	other := twoTargets(t, g, responsesDialect)
	const ask = `{"model":"m","store":false,"include":["reasoning.encrypted_content"],"input":[{"role":"user","content":"q"},` +
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA+/="},{"role":"assistant","content":"a"},{"role":"user","content":"r"}]}`
	for status := range 8 {
		answer := upstreamtest.JSON(200, `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[],"usage":null}`)
		if status%4 == 3 { // a failure does not move the conversation
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
		t.Errorf("the other account got %d requests", n)
	}
}

// TestUsageOfAbandonedStreams checks that usage reported before the client disconnects is
// logged and counted (USE-19).
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
			path, ask := simpleRequest(c.client, true)
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

// TestInvalidUTF8 checks that the translation lane replaces invalid UTF-8 with one
// replacement character and that the verbatim lane leaves it unchanged (SSE-28).
func TestInvalidUTF8(t *testing.T) {
	const bad = "a\xffb"
	stream := strings.Replace(textChunk, `"a"`, `"`+bad+`"`, 1) + stopChunk + sentinel
	whole := strings.Replace(chatResponse, `"content":"Hi"`, `"content":"`+bad+`"`, 1)
	for client, want := range map[protocol.Name]string{chatDialect: bad, anthropicDialect: "a\ufffdb", responsesDialect: "a\ufffdb", geminiDialect: "a\ufffdb"} {
		g := newGateway(t, speaking(chatDialect))
		for _, streamed := range []bool{true, false} {
			g.up.Answer(upstreamtest.JSON(200, whole))
			if streamed {
				g.up.Answer(upstreamtest.Stream(stream))
			}
			path, ask := simpleRequest(client, streamed)
			resp, body, err := g.post(t, path, ask)
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, `"`+want+`"`) {
				t.Errorf("%s, streamed %t: %v %s %q", client, streamed, err, resp.Status, body)
			}
		}
	}
}
