package rig

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Wiretap stands between the SDKs and the gateway and passes bytes on as they are. It
// remembers what came back, for a report of what went wrong.
type Wiretap struct {
	URL    string
	target string
	Got    *Log

	mu    sync.Mutex
	conns map[net.Conn]bool
	wait  sync.WaitGroup
}

// NewWiretap stands before target, a host and port.
func NewWiretap(t *testing.T, target string) *Wiretap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wiretap{URL: "http://" + l.Addr().String(), target: target, Got: &Log{}, conns: map[net.Conn]bool{}}
	w.wait.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed below
			}
			w.wait.Go(func() { w.carry(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for c := range w.conns {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.wait.Wait()
	})
	return w
}

// carry joins two connections until either side ends its own.
func (w *Wiretap) carry(client net.Conn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		_ = client.Close()
		return
	}
	w.hold(client, server)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	both.Go(func() {
		_, _ = io.Copy(io.MultiWriter(client, w.Got), server)
		_ = client.Close()
	})
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, client)
	delete(w.conns, server)
}

func (w *Wiretap) hold(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
	}
}
