package upstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// connPair returns a connection as upstreams have it, and its other end.
func connPair(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := dialer(time.Minute, func(string) error { return nil })(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() })
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	return dialed.(*conn), peer
}

// A head is kept until the body follows, and only once.
func TestConnJoinsHeadAndBody(t *testing.T) {
	head, body := []byte("POST / HTTP/1.1\r\n\r\n"), bytes.Repeat([]byte("body"), LargeBuffer)
	for name, write := range map[string]func(c *conn, p []byte) error{
		"read from": func(c *conn, p []byte) error {
			n, err := c.ReadFrom(bytes.NewReader(p))
			if int(n) != len(p) {
				t.Errorf("%d of %d bytes", n, len(p))
			}
			return err
		},
		"written": func(c *conn, p []byte) error {
			_, err := c.Write(p)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, peer := connPair(t)
			c.join = true
			got := make(chan []byte, 1)
			go func() {
				all, _ := io.ReadAll(peer)
				got <- all
			}()
			for range 2 {
				if _, err := c.Write(head); err != nil {
					t.Fatal(err)
				}
				if c.join {
					t.Error("another head would be kept")
				}
				if err := write(c, body); err != nil || c.head != nil {
					t.Fatal(err, c.head != nil)
				}
			}
			_ = c.Close()
			want := bytes.Repeat(append(bytes.Clone(head), body...), 2)
			if all := <-got; !bytes.Equal(all, want) {
				t.Errorf("%d of %d bytes arrived", len(all), len(want))
			}
		})
	}
}

// What a read of the peer finds first is the head with the body, if the body is in memory. A body that
// is still to be read does not keep the head.
func TestRequestIsOneWrite(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerReads(c, first)
		}
	}()
	client := NewClient()
	defer client.Close()
	send := func(set func(*http.Request)) string {
		trip := client.RoundTrip(t.Context(), provider.Timeouts{Connect: time.Minute, FirstByte: time.Minute, Idle: time.Minute, Total: time.Minute}, 0)
		defer trip.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		set(req)
		if err := trip.Do(req); err != nil {
			t.Fatal(err)
		}
		return <-first
	}
	for range 2 { // a new connection, and one from the pool
		if got := send(func(r *http.Request) { SetBody(r, []byte("the body")) }); !strings.HasSuffix(got, "\r\n\r\nthe body") {
			t.Errorf("the first read has %q", got)
		}
	}
	if got := send(func(*http.Request) {}); !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("without a body: the first read has %q", got)
	}
	late, release := io.Pipe()
	defer release.Close()
	if got := send(func(r *http.Request) { r.Body, r.ContentLength = late, 1 }); !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("before a body that has not come: the first read has %q", got)
	}
}

// answerReads answers each read of a connection as if it were a request.
func answerReads(c net.Conn, reads chan<- string) {
	defer c.Close()
	for p := make([]byte, 64<<10); ; {
		n, err := c.Read(p)
		if err != nil {
			return
		}
		reads <- string(p[:n])
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}
