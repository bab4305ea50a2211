package testrig

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

func TestProxyBlocks(t *testing.T) {
	p, err := NewProxy(echoServer(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	connects := func() bool {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			return false
		}
		defer c.Close()
		return echo(c, Patience) == nil
	}
	if !connects() {
		t.Error("the proxy does not connect")
	}
	p.Block()
	if connects() {
		t.Error("a blocked proxy connects")
	}
	p.Unblock()
	if !connects() {
		t.Error("an unblocked proxy does not connect")
	}
}

// echoServer runs a server that returns what it receives, and returns its address.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// echo sends a byte and waits until it is back.
func echo(c net.Conn, within time.Duration) error {
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := c.Read(make([]byte, 1))
	return err
}

// TestProxyLoses checks that a connection stays open while its bytes are lost, and that a
// later connection is forwarded.
func TestProxyLoses(t *testing.T) {
	p, err := NewProxy(echoServer(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var conns [2]net.Conn
	for i := range conns {
		if conns[i], err = net.Dial("tcp", p.Addr); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		if err := echo(conns[i], time.Minute); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			p.Lose()
		}
	}
	if err := echo(conns[0], 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a lost connection has %v, want silence", err)
	}
	if err := echo(conns[1], time.Minute); err != nil {
		t.Errorf("a later connection has %v", err)
	}
}
