package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
		for c.pools[time.Second].old != nil && time.Since(began) < time.Hour {
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
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	transport := NewTransport(time.Second)
	defer transport.CloseIdleConnections()
	transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	transport.HTTP2.SendPingTimeout, transport.HTTP2.PingTimeout = 50*time.Millisecond, 50*time.Millisecond
	var lost atomic.Bool
	dials := 0
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if dials++; dials == 1 && err == nil {
			return hole{c, &lost}, nil
		}
		return c, err
	}
	get := func() (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
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
	if _, err := get(); err == nil {
		t.Error("a request on a dead connection succeeds")
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
