package upstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestConnectionsAge checks that connections are replaced one after the other, and that the old pool
// is not used for long.
func TestConnectionsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient()
		first := c.Transport(time.Second)
		time.Sleep(maxAge)
		if c.Transport(time.Second) != first {
			t.Error("the pool is replaced too early")
		}
		time.Sleep(time.Second)
		c.Transport(time.Second) // replaces it
		began, moved := time.Now(), 0
		for c.pools[poolKey{time.Second, provider.AutoHTTP}].old != nil && time.Since(began) < time.Hour {
			if c.Transport(time.Second) != first {
				moved++
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > maxAge/4+overlap+time.Second {
			t.Errorf("the old pool was used for %v", took)
		}
		if parts := int(overlap / (100 * time.Millisecond)); moved < parts/4 || moved > parts*3/4+10 {
			t.Errorf("%d of %d requests were moved during the overlap", moved, parts)
		}
		if c.Transport(time.Second) == first {
			t.Error("the pool is not replaced")
		}
	})
}

// hole is a connection that can be made to lead nowhere.
type hole struct {
	net.Conn
	open *atomic.Bool
}

func (h hole) Write(p []byte) (int, error) {
	if h.open.Load() {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

// TestBlackHole sends requests on an HTTP/2 connection whose packets are lost. It is closed, and the
// next request uses another one.
func TestBlackHole(t *testing.T) {
	synctest.Test(t, testBlackHole)
}

func testBlackHole(t *testing.T) {
	var network testrig.Network
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	server := &httptest.Server{Listener: network.Listen(), Config: &http.Server{Handler: handler}, EnableHTTP2: true}
	server.StartTLS()
	defer server.Close()
	transport := NewTransport(time.Second)
	defer transport.CloseIdleConnections()
	transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	transport.Proxy = nil
	var lost atomic.Bool
	dials := 0
	transport.DialContext = func(ctx context.Context, kind, address string) (net.Conn, error) {
		c, err := network.DialContext(ctx, kind, address)
		if dials++; dials == 1 && err == nil {
			return hole{c, &lost}, nil
		}
		return c, err
	}
	get := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			return "", err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	if got, err := get(); err != nil || got != "HTTP/2.0" {
		t.Fatal(got, err)
	}
	lost.Store(true)
	began := time.Now()
	if _, err := get(); err == nil {
		t.Error("a request on a dead connection succeeds")
	}
	if took := time.Since(began); took > pingAfter+pingTimeout {
		t.Errorf("a dead connection was found after %v", took)
	}
	for range 25 {
		if got, err := get(); err != nil || got != "HTTP/2.0" {
			t.Fatal(got, err)
		}
	}
	if dials != 2 {
		t.Errorf("%d connections were opened, want 2", dials)
	}
}

// nameServer answers every question for an A record with an address that can be changed.
type nameServer struct {
	net.PacketConn
	address atomic.Pointer[[4]byte]
}

func newNameServer(t *testing.T) *nameServer {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := &nameServer{PacketConn: c}
	go s.serve()
	return s
}

func (s *nameServer) serve() {
	query := make([]byte, 1500)
	for {
		n, from, err := s.ReadFrom(query)
		if err != nil {
			return // closed
		}
		end := 12 + bytes.IndexByte(query[12:n], 0) + 5 // header, name, type and class
		reply := append([]byte(nil), query[:end]...)
		copy(reply[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}) // a response without answers or additional records
		if query[end-3] == 1 {                                        // an A record
			reply[7] = 1
			a := s.address.Load()
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, a[0], a[1], a[2], a[3])
		}
		_, _ = s.WriteTo(reply, from)
	}
}

// TestNameWithAnotherAddress sends requests without a pause to a name that gets another address. The open
// connections lead to the old one; after their age all requests go to the new one, and none fails.
func TestNameWithAnotherAddress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.2 is a loopback address on Linux only")
	}
	names := newNameServer(t)
	names.address.Store(&[4]byte{127, 0, 0, 1})
	system := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", names.LocalAddr().String())
	}}
	defer func() { net.DefaultResolver = system }()

	// Two servers have the same port on two addresses.
	reply := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	})
	var port string
	for _, host := range []string{"127.0.0.1:0", "127.0.0.2:"} {
		l, err := net.Listen("tcp", host+port)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		server := &http.Server{Handler: reply}
		go func() { _ = server.Serve(l) }()
		defer server.Close()
	}

	const connect = 5 * time.Second
	c := NewClient()
	defer c.Close()
	get := func() string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream.test:"+port, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Transport(connect).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		host, _, _ := net.SplitHostPort(string(body))
		return host
	}
	// pass lets the pool become older.
	pass := func(d time.Duration) { p := c.pools[poolKey{connect, provider.AutoHTTP}]; p.since = p.since.Add(-d) }

	want := func(host, when string) {
		t.Helper()
		for range 20 {
			if got := get(); got != host {
				t.Fatalf("%s a request goes to %s, want %s", when, got, host)
			}
		}
	}
	want("127.0.0.1", "at first")
	names.address.Store(&[4]byte{127, 0, 0, 2})
	want("127.0.0.1", "on an open connection")
	pass(maxAge + time.Second)
	for range 10 {
		get() // the first one replaces the pool
		pass((maxAge/4 + overlap) / 10)
	}
	want("127.0.0.2", "after the age of the connection")
}
