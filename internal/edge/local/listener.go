package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// maxConnections is how many connections a Listener has at once. Others wait in the kernel's queue.
const maxConnections = 32

// Listener listens on the socket of a gateway.
type Listener struct {
	*net.UnixListener
	name string
	own  os.FileInfo // the socket's file, to tell it from that of a process that took over
	open chan struct{}
}

// Listen creates the socket of the gateway on an address. It replaces the socket of a process that has
// ended or that started this one, and fails if another program has the name.
func Listen(address string) (*Listener, error) {
	dir, err := ownFolder()
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, fileName(address))
	if err := checkName(name); err != nil {
		return nil, err
	}
	// The socket is created under another name and then renamed, so that a process
	// listens on the name at all times, with the right permissions.
	fresh := filepath.Join(dir, strconv.Itoa(os.Getpid()))
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := listenUnix(fresh)
	if err != nil {
		return nil, err
	}
	own, err := place(fresh, name)
	if err != nil {
		_ = l.Close() // no command has connected
		_ = os.Remove(fresh)
		return nil, err
	}
	return &Listener{UnixListener: l, name: name, own: own, open: make(chan struct{}, maxConnections)}, nil
}

// maxPath is the maximum length of a socket's path that Linux and macOS accept.
const maxPath = 103

// checkName fails if the name is too long, or if it is not free, not a socket of this user, or in use by
// a process other than this one and the one that started it.
func checkName(name string) error {
	if len(name) > maxPath {
		return fmt.Errorf("the path %s has more than %d bytes, which no socket may have; set XDG_RUNTIME_DIR to a shorter folder", name, maxPath)
	}
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s is not a socket; remove it", name)
	case ownerOf(info) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user; remove it", name)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return nil // nobody listens
	case err != nil:
		return fmt.Errorf("a program has %s and accepts no connection: %w; stop it", name, err)
	}
	defer func() { _ = conn.Close() }() // nothing was sent
	_, pid, err := peer(conn)
	if err == nil && pid != os.Getpid() && pid != os.Getppid() {
		err = fmt.Errorf("process %d listens on %s; stop it, or choose another address with --listen", pid, name)
	}
	return err
}

func listenUnix(name string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false)
	}
	return l, err
}

// place sets the socket's permissions and renames it.
func place(fresh, name string) (os.FileInfo, error) {
	if err := os.Chmod(fresh, 0o600); err != nil {
		return nil, err
	}
	info, err := os.Lstat(fresh)
	if err != nil {
		return nil, err
	}
	return info, os.Rename(fresh, name)
}

// Name returns the path of the socket.
func (l *Listener) Name() string { return l.name }

// Accept returns the next connection, when fewer than maxConnections are open.
func (l *Listener) Accept() (net.Conn, error) {
	l.open <- struct{}{}
	conn, err := l.AcceptUnix()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &connection{UnixConn: conn, release: sync.OnceFunc(func() { <-l.open })}, nil
}

// connection is a connection of a Listener.
type connection struct {
	*net.UnixConn
	release func()
}

// Close closes the connection, so that another may be accepted.
func (c *connection) Close() error {
	defer c.release()
	return c.UnixConn.Close()
}

// Close removes the socket's file, unless another process has replaced it, and stops listening.
func (l *Listener) Close() error {
	if now, err := os.Lstat(l.name); err == nil && os.SameFile(now, l.own) {
		_ = os.Remove(l.name) // a stale file does no harm
	}
	return l.UnixListener.Close()
}
