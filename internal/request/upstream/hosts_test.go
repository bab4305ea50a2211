package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// secured is a client with a server behind TLS.
type secured struct {
	*Client
	key       poolKey
	url       string
	transport *http.Transport
	dials     atomic.Int32
	fail      atomic.Pointer[net.OpError] // of all further dials
}

// inMemory starts a server in a network in memory, as bubbles of synctest need.
func inMemory(t *testing.T, protocol string, serve func(net.Listener, *tls.Config)) *secured {
	t.Helper()
	var network testrig.Network
	return newSecured(t, network.Listen(), network.DialContext, protocol, serve)
}

// onSocket starts a server on a socket.
func onSocket(t *testing.T, protocol string, serve func(net.Listener, *tls.Config)) *secured {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newSecured(t, l, new(net.Dialer).DialContext, protocol, serve)
}

// newSecured starts a server. serve takes its connections, before TLS.
func newSecured(t *testing.T, l net.Listener, dial func(context.Context, string, string) (net.Conn, error), protocol string, serve func(net.Listener, *tls.Config)) *secured {
	t.Helper()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	config := certificate.TLS.Clone()
	config.NextProtos = []string{protocol}
	roots := certificate.Client().Transport.(*http.Transport).TLSClientConfig
	s := &secured{Client: NewClient(), key: poolKey{time.Second, provider.AutoHTTP}, url: "https://" + l.Addr().String()}
	transport := NewTransport(time.Second)
	transport.Proxy, transport.TLSClientConfig = nil, roots
	transport.DialContext = func(ctx context.Context, kind, address string) (net.Conn, error) {
		s.dials.Add(1)
		time.Sleep(100 * time.Millisecond) // the network
		if err := s.fail.Load(); err != nil {
			return nil, err
		}
		return dial(ctx, kind, address)
	}
	s.SetTransport(time.Second, transport)
	s.transport = transport
	go serve(l, config)
	t.Cleanup(func() {
		_ = l.Close()
		s.Close()
	})
	return s
}

// http2Server serves a handler over HTTP/2, with a number of streams per connection.
func http2Server(t *testing.T, streams int, h http.HandlerFunc) func(net.Listener, *tls.Config) {
	return func(l net.Listener, config *tls.Config) {
		srv := &http.Server{Handler: h, TLSConfig: config, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams}}
		t.Cleanup(func() { _ = srv.Close() })
		_ = srv.ServeTLS(l, "", "") // it ends when it is closed
	}
}

// ask sends a request of a provider and returns the protocol and the body of the response.
func (s *secured) ask(ctx context.Context, provider string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, http.NoBody)
	if err != nil {
		return "", err
	}
	SetBody(req, body)
	resp, err := s.pool(s.key).roundTrip(req, provider)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.Proto + " " + string(text), err
}

// askAll sends n requests at once and returns the number of those without the response.
func (s *secured) askAll(ctx context.Context, n int, want string) int32 {
	var failed atomic.Int32
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if got, err := s.ask(ctx, "p", []byte("prompt")); err != nil || got != want {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	return failed.Load()
}

// TestConnectionsAreFilled sends many requests at once to a cold host: they share as few connections as suffice.
func TestConnectionsAreFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, "h2", http2Server(t, 100, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * time.Second)
			_, _ = io.WriteString(w, "ok")
		}))
		for _, n := range []int{1000, 500} {
			began := time.Now()
			if failed := s.askAll(t.Context(), n, "HTTP/2.0 ok"); failed > 0 {
				t.Errorf("%d of %d requests failed", failed, n)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("%d requests of 2 s took %v", n, took)
			}
		}
		if got := s.dials.Load(); got != 10 {
			t.Errorf("1,000 requests opened %d connections, and 10 have room for them", got)
		}
		time.Sleep(2 * time.Minute)
		if got := len(s.pools[s.key].hosts.list[hostKey{"p", s.url[len("https://"):]}].conns); got > 10 {
			t.Errorf("%d connections are kept", got)
		}
	})
}

// TestProvidersShareNoConnection checks that each provider has connections of its own.
func TestProvidersShareNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, "h2", http2Server(t, 100, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }))
		for _, p := range []string{"a", "b", "a", "b"} {
			if _, err := s.ask(t.Context(), p, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.dials.Load(); got != 2 {
			t.Errorf("two providers have %d connections", got)
		}
	})
}

// TestHTTP1HostDialsAsBefore checks that the connections to a host without HTTP/2 are net/http's.
func TestHTTP1HostDialsAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, "http/1.1", http2Server(t, 0, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * time.Second)
			_, _ = io.WriteString(w, "ok")
		}))
		began := time.Now()
		if failed := s.askAll(t.Context(), 50, "HTTP/1.1 ok"); failed > 0 {
			t.Errorf("%d requests failed", failed)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("50 requests at once of 2 s took %v", took)
		}
		if got := s.dials.Load(); got != 51 {
			t.Errorf("50 requests at once opened %d connections; one more shows the protocol", got)
		}
	})
}

// TestVersionOfHTTP checks the versions that an operator can choose: HTTP/2 without TLS, whose connections are
// filled too, and HTTP/1.1 for a server that also speaks HTTP/2.
func TestVersionOfHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * time.Second)
			_, _ = io.WriteString(w, "ok")
		}
		for _, test := range []struct {
			version  provider.HTTPVersion
			protocol string
			serve    func(net.Listener, *tls.Config)
			scheme   string
			want     string
			dials    int32
		}{
			{provider.H2C, "", func(l net.Listener, _ *tls.Config) {
				srv := &http.Server{Handler: http.HandlerFunc(answer), Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 100}}
				srv.Protocols.SetUnencryptedHTTP2(true)
				t.Cleanup(func() { _ = srv.Close() })
				_ = srv.Serve(l) // it ends when it is closed
			}, "http", "HTTP/2.0 ok", 3},
			{provider.HTTP1, "h2", func(l net.Listener, config *tls.Config) {
				config.NextProtos = []string{"h2", "http/1.1"}
				http2Server(t, 100, answer)(l, config)
			}, "https", "HTTP/1.1 ok", 300},
		} {
			s := inMemory(t, test.protocol, test.serve)
			s.key.version = test.version
			p := s.newPool(s.key, s.transport)
			p.fixed = true
			s.pools[s.key] = p
			s.url = test.scheme + s.url[len("https"):]
			if failed := s.askAll(t.Context(), 300, test.want); failed > 0 {
				t.Errorf("%s: %d requests failed", test.version, failed)
			}
			if got := s.dials.Load(); got != test.dials {
				t.Errorf("%s: 300 requests opened %d connections, want %d", test.version, got, test.dials)
			}
		}
	})
}

// TestFailedDialEndsAllThatWait checks that requests do not dial one after the other to a host that is away, and
// that a request can end while it waits.
func TestFailedDialEndsAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, "h2", http2Server(t, 100, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
		s.fail.Store(&net.OpError{Op: "dial", Err: errors.New("nothing listens")})
		began := time.Now()
		if failed := s.askAll(t.Context(), 200, ""); failed != 200 {
			t.Errorf("%d of 200 requests failed", failed)
		}
		if took, dials := time.Since(began), s.dials.Load(); took > 200*time.Millisecond || dials > 2 {
			t.Errorf("%d dials took %v", dials, took)
		}
		s.fail.Store(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began = time.Now()
		if _, err := s.ask(ctx, "p", nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 20*time.Millisecond {
			t.Errorf("a request that ends while it waits: %v after %v", err, time.Since(began))
		}
		if got, err := s.ask(t.Context(), "p", nil); err != nil || got != "HTTP/2.0 ok" {
			t.Errorf("the next request: %q, %v", got, err)
		}
		if got := s.dials.Load(); got > 3 {
			t.Errorf("%d dials: the connection of the first request serves the next", got)
		}
	})
}

// frames serves HTTP/2 by hand: answer decides what a request gets.
type frames struct {
	mu    sync.Mutex
	asked int
}

// Codes of RFC 9113.
const (
	frameHeaders, frameReset, frameSettings, frameGoAway = 1, 3, 4, 7 // 0 is DATA
	flagEndStream, flagEndHeaders                        = 1, 4
)

func (f *frames) serve(answer func(n int, c *framed, stream uint32)) func(net.Listener, *tls.Config) {
	return func(l net.Listener, config *tls.Config) {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.read(&framed{Conn: tls.Server(conn, config)}, answer)
		}
	}
}

func (f *frames) read(c *framed, answer func(n int, c *framed, stream uint32)) {
	defer c.Close()
	if _, err := io.CopyN(io.Discard, c, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	c.frame(frameSettings, 0, 0)
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		size := int64(binary.BigEndian.Uint32(head) >> 8)
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return
		}
		if head[3] <= frameHeaders && head[4]&flagEndStream != 0 {
			f.mu.Lock()
			f.asked++
			n := f.asked
			f.mu.Unlock()
			answer(n, c, binary.BigEndian.Uint32(head[5:]))
		}
	}
}

// framed is a connection that writes frames.
type framed struct{ net.Conn }

func (c *framed) frame(kind, flags byte, stream uint32, payload ...byte) {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	_, _ = c.Write(append(binary.BigEndian.AppendUint32(append(head, flags), stream), payload...))
}

// ok answers with 200 and no body.
func (c *framed) ok(stream uint32) {
	c.frame(frameHeaders, flagEndHeaders|flagEndStream, stream, 0x88)
}

// TestUnprocessedRequestsAreResent checks that a request goes to another connection at once if the upstream has
// refused its stream or has left without it, and that nothing else is sent twice.
func TestUnprocessedRequestsAreResent(t *testing.T) {
	reset := func(code byte) func(n int, c *framed, stream uint32) {
		return func(_ int, c *framed, stream uint32) { c.frame(frameReset, 0, stream, 0, 0, 0, code) }
	}
	away := func(_ int, c *framed, _ uint32) { c.frame(frameGoAway, 0, 0, make([]byte, 8)...) }
	for name, test := range map[string]struct {
		fail  func(n int, c *framed, stream uint32)
		times int
		sent  int
		ok    bool
	}{
		"refused once":          {reset(refusedStream), 1, 2, true},
		"refused five times":    {reset(refusedStream), 5, 6, true},
		"always refused":        {reset(refusedStream), 100, 6, false},
		"GOAWAY":                {away, 3, 4, true},
		"an internal error":     {reset(2), 1, 1, false},
		"a cancelled stream":    {reset(8), 1, 1, false},
		"a closed connection":   {func(_ int, c *framed, _ uint32) { _ = c.Close() }, 1, 1, false},
		"nothing is the matter": {nil, 0, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			var f frames
			s := onSocket(t, "h2", f.serve(func(n int, c *framed, stream uint32) {
				if n <= test.times {
					test.fail(n, c, stream)
					return
				}
				c.ok(stream)
			}))
			_, err := s.ask(t.Context(), "p", []byte("prompt"))
			if (err == nil) != test.ok || f.asked != test.sent {
				t.Errorf("sent %d times, want %d; %v", f.asked, test.sent, err)
			}
		})
	}
}

// TestPromptIsReleased checks that nothing holds a prompt any more while its response is being streamed.
func TestPromptIsReleased(t *testing.T) {
	for _, protocol := range []string{"h2", "http/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			read, end := make(chan struct{}), make(chan struct{})
			s := onSocket(t, protocol, http2Server(t, 100, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "a")
				_ = http.NewResponseController(w).Flush()
				_, _ = io.Copy(io.Discard, r.Body)
				close(read)
				<-end
			}))
			defer close(end)
			trip := s.RoundTrip(t.Context(), provider.Timeouts{Connect: time.Second, FirstByte: time.Minute, Idle: time.Minute, Total: time.Minute}, 0)
			defer trip.Close()
			held := send(t, trip, s.url)
			<-read
			for range 50 {
				runtime.GC()
				if held.Value() == nil {
					return
				}
				time.Sleep(10 * time.Millisecond) // the transport returns from its last write
			}
			t.Error("the prompt is in memory")
		})
	}
}

// send sends a prompt and returns a pointer that does not keep it.
func send(t *testing.T, trip *RoundTrip, url string) weak.Pointer[byte] {
	t.Helper()
	prompt := bytes.Repeat([]byte("prompt "), 100_000)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	SetBody(req, prompt)
	if err := trip.Do(req); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", err.Message, err.Cause))
	}
	return weak.Make(&prompt[0])
}
