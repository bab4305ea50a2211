package testrig

import (
	"errors"
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
