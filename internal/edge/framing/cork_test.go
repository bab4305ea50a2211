package framing

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// countedListener counts the writes to its connections.
type countedListener struct {
	net.Listener
	writes atomic.Int64
}

type countedConn struct {
	net.Conn
	of *countedListener
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l}, err
}

func (c countedConn) Write(p []byte) (int, error) {
	c.of.writes.Add(1)
	return c.Conn.Write(p)
}

// A corked part of a response is one write, unless it is larger than the buffer, and everything
// arrives in order.
func TestCork(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &countedListener{Listener: inner}
	const parts = 20
	var size atomic.Int64
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k, flush := CorkOf(r), http.NewResponseController(w).Flush
		for i := range parts {
			k.Push()
			if _, err := w.Write(bytes.Repeat([]byte{'a' + byte(i)}, int(size.Load()))); err != nil {
				t.Error(err)
			}
			if err := flush(); err != nil {
				t.Error(err)
			}
			if err := k.Pull(); err != nil {
				t.Error(err)
			}
		}
		if k.c.corked != nil || k.c.kept != 0 {
			t.Error("the connection still has a buffer")
		}
	})}
	ended := make(chan error)
	go func() { ended <- Serve(s, l, new(atomic.Bool)) }()
	defer func() {
		_ = s.Close()
		<-ended
	}()
	for n, writes := range map[int64]int64{100: parts, 16 << 10: parts, corkSize * 3: 0} {
		size.Store(n)
		before := l.writes.Load()
		resp, err := http.Get("http://" + inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var want strings.Builder
		for i := range parts {
			want.WriteString(strings.Repeat(string(rune('a'+i)), int(n)))
		}
		if err != nil || string(got) != want.String() {
			t.Errorf("parts of %d: %d of %d bytes, %v", n, len(got), want.Len(), err)
		}
		if did := l.writes.Load() - before - 1; writes > 0 && did != writes { // the last chunk is one more
			t.Errorf("%d parts of %d: %d writes", parts, n, did)
		}
	}
}

// A client that has gone is seen when the kept bytes are written.
func TestCorkedConnectionIsClosed(t *testing.T) {
	one, other := net.Pipe()
	_ = other.Close()
	c := &conn{Conn: one}
	k := Cork{c}
	k.Push()
	if _, err := c.Write([]byte("kept")); err != nil {
		t.Fatal(err)
	}
	if k.Pull() == nil || c.corked != nil {
		t.Error("no error")
	}
	if k.Pull() != nil || (Cork{}).Pull() != nil {
		t.Error("an error without a buffer")
	}
}

// Requests of HTTP/2 share a connection, which is not corked.
func TestCorkOfHTTP2(t *testing.T) {
	r, err := http.NewRequestWithContext(context.WithValue(t.Context(), connKey{}, &conn{}), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if CorkOf(r) == (Cork{}) {
		t.Error("HTTP/1 is not corked")
	}
	r.ProtoMajor = 2
	if CorkOf(r) != (Cork{}) {
		t.Error("corked")
	}
}
