package local

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// asUser calls do in a thread of another user. The thread ends with it.
func asUser(t *testing.T, uid uintptr, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // never unlocked, so that no other goroutine gets the thread
		_, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0))
		if failed == 0 {
			do()
		}
		done <- failed
	}()
	if failed := <-done; failed != 0 {
		t.Fatal(failed)
	}
}

// TestOtherUser connects as another user: by the permissions of the folder, and where these are lost, by the
// check of the process.
func TestOtherUser(t *testing.T) {
	dir := testrig.SocketFolder(t)
	name := serve(t, whoami)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	connect := func() (conn net.Conn, err error) {
		asUser(t, 65534, func() { conn, err = net.Dial("unix", name) })
		return conn, err
	}
	if conn, err := connect(); !errors.Is(err, os.ErrPermission) {
		if err == nil {
			_ = conn.Close()
		}
		t.Errorf("through a folder of mode 0700: %v", err)
	}
	if err := errors.Join(os.Chmod(filepath.Dir(name), 0o755), os.Chmod(name, 0o666)); err != nil {
		t.Fatal(err)
	}
	conn, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1000)
	n, _ := conn.Read(answer)
	if text := string(answer[:n]); !strings.HasPrefix(text, "HTTP/1.1 403 ") || !strings.Contains(text, "only the user that the gateway runs as, and root") {
		t.Errorf("another user: %s", text)
	}
}

// TestFakeGateway lets another user listen in the place of a gateway. A command must not connect to it.
func TestFakeGateway(t *testing.T) {
	dir := testrig.SocketFolder(t)
	folder := filepath.Join(dir, "isogloss")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(folder, 0o700), os.Chmod(folder, 0o777)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(folder, fileName(address))
	var l net.Listener
	var err error
	asUser(t, 65534, func() { l, err = net.Listen("unix", name) })
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(whoami)}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	defer func() { _ = s.Close(); <-done }()
	if _, err := Dial(t.Context(), name); err == nil || !strings.Contains(err.Error(), "accessible to other users") {
		t.Errorf("in a folder that others may write to: %v", err)
	}
	if err := os.Chmod(folder, 0o700); err != nil { // as if it had always been so
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), name); err == nil || !strings.Contains(err.Error(), "a program of user 65534 listens on ") {
		t.Errorf("in the own folder: %v", err)
	}
}
