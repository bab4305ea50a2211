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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	p, err := NewProxy(l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	alive := func() bool {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, err = c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded) // nothing is sent and nothing is closed
	}
	if !alive() {
		t.Error("the proxy does not connect")
	}
	p.Block()
	if alive() {
		t.Error("a blocked proxy connects")
	}
	p.Unblock()
	if !alive() {
		t.Error("an unblocked proxy does not connect")
	}
}

// TestProxyLoses checks that a connection stays open while its bytes are lost, and that a
// later connection is forwarded.
func TestProxyLoses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
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
	p, err := NewProxy(l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	echo := func(c net.Conn, within time.Duration) error {
		if _, err := c.Write([]byte{1}); err != nil {
			return err
		}
		_ = c.SetReadDeadline(time.Now().Add(within))
		_, err := c.Read(make([]byte, 1))
		return err
	}
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
