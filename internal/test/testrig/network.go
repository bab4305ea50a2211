package testrig

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// Network connects clients and servers of one process by pipes instead of sockets. Tests
// in a synctest bubble use it: the bubble's clock stands still while a goroutine waits
// for a socket, but not while it waits for a pipe. A pipe has no buffer: a write ends
// when the peer has read all of it.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*pipeListener // by address
	opened    int
}

// Listen opens a listener at a new address, which looks like one of a socket.
func (n *Network) Listen() net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opened++
	l := &pipeListener{network: n, address: fmt.Sprintf("127.0.0.1:%d", n.opened), accept: make(chan net.Conn), closed: make(chan struct{})}
	if n.listeners == nil {
		n.listeners = map[string]*pipeListener{}
	}
	n.listeners[l.address] = l
	return l
}

// DialContext connects to a listener. Where nothing listens, the connection is refused.
func (n *Network) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	client, server := net.Pipe()
	select {
	case l.accept <- server:
		return client, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeListener is a listener of a Network. It is its own address.
type pipeListener struct {
	network *Network
	address string
	accept  chan net.Conn
	closed  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if _, open := l.network.listeners[l.address]; open {
		delete(l.network.listeners, l.address)
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr  { return l }
func (l *pipeListener) Network() string { return "pipe" }
func (l *pipeListener) String() string  { return l.address }
