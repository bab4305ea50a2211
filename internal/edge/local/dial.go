package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrNotRunning says that no gateway listens on a socket.
var ErrNotRunning = errors.New("no gateway is running there")

// Transport returns a transport to the gateway at a socket.
func Transport(socket string) *http.Transport {
	return &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, socket) },
		MaxResponseHeaderBytes: 64 << 10,
		ResponseHeaderTimeout:  2 * time.Minute, // longer than any operation may take
		DisableCompression:     true,
		DisableKeepAlives:      true,
	}
}

// Owner returns the user to whom a socket's folder belongs. It fails if another user could have put the
// socket there. The folder must be this user's, or for root anybody's.
func Owner(socket string) (uid int, err error) {
	dir := filepath.Dir(socket)
	info, err := os.Lstat(dir)
	if err != nil {
		return 0, err
	}
	uid = os.Geteuid()
	if uid == 0 {
		uid = ownerOf(info)
	}
	return uid, checkFolder(dir, uid)
}

// Dial connects to the gateway at a socket. It fails if the process that listens there is neither the
// owner's nor root's. It follows no link.
func Dial(ctx context.Context, socket string) (net.Conn, error) {
	switch info, err := os.Lstat(socket); {
	case errors.Is(err, os.ErrNotExist):
		return nil, ErrNotRunning
	case err != nil:
		return nil, err
	case info.Mode().Type() != os.ModeSocket:
		return nil, fmt.Errorf("%s is not a socket", socket)
	}
	uid, err := Owner(socket)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return nil, ErrNotRunning
	case err != nil:
		return nil, err
	}
	other, _, err := peer(conn.(*net.UnixConn)) //nolint:forcetypeassert // it is one of a Unix socket
	if err == nil && other != uid && other != 0 {
		err = fmt.Errorf("a program of user %d listens on %s, which belongs to user %d; remove it", other, socket, uid)
	}
	if err != nil {
		_ = conn.Close() // nothing was sent
		return nil, err
	}
	return conn, nil
}

// Alive reports whether a gateway listens on a socket.
func Alive(ctx context.Context, socket string) bool {
	conn, err := Dial(ctx, socket)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// OfService reports whether a socket is in the folder that the service manager makes for the packaged unit.
func OfService(socket string) bool { return filepath.Dir(socket) == serviceFolder }

// Owns reports whether a file or folder exists and belongs to a user.
func Owns(uid int, path string) bool {
	info, err := os.Stat(path)
	return err == nil && ownerOf(info) == uid
}

// OwnerOf returns the user id of a file's owner, or -2 where it is not known.
func OwnerOf(info os.FileInfo) int { return ownerOf(info) }
