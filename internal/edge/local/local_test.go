package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("TEST_LISTEN"); name != "" { // a program of another kind
		if l, err := net.Listen("unix", name); err == nil {
			fmt.Println("listening")
			_, _ = l.Accept()
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const address = "127.0.0.1:8080"

// serve serves h on a socket until the test ends.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l, err := Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: Guard(h), ConnContext: ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Name()
}

func get(ctx context.Context, name string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := Transport(name).RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func whoami(w http.ResponseWriter, r *http.Request) {
	uid, ok := UID(r.Context())
	fmt.Fprintf(w, "%s %t %q", uid, ok, r.RemoteAddr)
}

// TestCaller checks the permissions of a socket, and that a handler knows its caller.
func TestCaller(t *testing.T) {
	testrig.SocketFolder(t)
	name := serve(t, whoami)
	for path, want := range map[string]os.FileMode{name: 0o600, filepath.Dir(name): 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if status, text, err := get(t.Context(), name); status != 200 || text != fmt.Sprintf("%d true \"\"", os.Geteuid()) {
		t.Error(status, text, err)
	}
	if got := Sockets(); len(got) == 0 || got[0] != name || Address(name) != address {
		t.Errorf("found %v", got)
	}
	if _, ok := UID(ConnContext(t.Context(), &net.TCPConn{})); ok {
		t.Error("a connection of another listener has a user")
	}
}

// TestAssignedFolder checks that a folder of the service manager is the only one.
func TestAssignedFolder(t *testing.T) {
	dir := testrig.SocketFolder(t)
	t.Setenv("RUNTIME_DIRECTORY", filepath.Join(dir, "service")+":/elsewhere")
	if name := serve(t, whoami); filepath.Dir(name) != filepath.Join(dir, "service") || len(Sockets()) != 1 {
		t.Errorf("%s, %v", name, Sockets())
	}
}

// TestForeignFolders offers folders that another user could have made.
func TestForeignFolders(t *testing.T) {
	dir := testrig.SocketFolder(t)
	folder := filepath.Join(dir, "isogloss")
	for name, prepare := range map[string]func() error{
		"others may write":  func() error { return errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o777)) },
		"others may look":   func() error { return errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o750)) },
		"a link":            func() error { return os.Symlink(t.TempDir(), folder) },
		"a file":            func() error { return os.WriteFile(folder, nil, 0o600) },
		"a link to nothing": func() error { return os.Symlink("/nowhere/at/all", folder) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if l, err := Listen(address); err == nil {
			_ = l.Close()
			t.Errorf("%s: a socket was made", name)
		}
		_ = os.RemoveAll(folder)
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Mkdir(folder, 0o700), os.Chown(folder, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(address); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("a folder of another user: %v", err)
		}
	}
}

// TestForeignFiles puts other things in the place of a socket.
func TestForeignFiles(t *testing.T) {
	dir := testrig.SocketFolder(t)
	folder := filepath.Join(dir, "isogloss")
	name, other := filepath.Join(folder, fileName(address)), filepath.Join(dir, "other.sock")
	l, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for what, prepare := range map[string]func() error{
		"a file":   func() error { return os.WriteFile(name, []byte("mine"), 0o600) },
		"a link":   func() error { return os.Symlink(other, name) },
		"a folder": func() error { return os.Mkdir(name, 0o700) },
	} {
		if err := errors.Join(os.MkdirAll(folder, 0o700), prepare()); err != nil {
			t.Fatal(err)
		}
		if l, err := Listen(address); err == nil || !strings.Contains(err.Error(), "is not a socket; remove it") {
			if err == nil {
				_ = l.Close()
			}
			t.Errorf("%s: %v", what, err)
		}
		if _, err := Dial(t.Context(), name); err == nil || !strings.Contains(err.Error(), "is not a socket") {
			t.Errorf("to %s: %v", what, err)
		}
		_ = os.RemoveAll(folder)
	}
}

// TestOtherProgram checks that the socket of another process is neither replaced nor believed to be stale.
func TestOtherProgram(t *testing.T) {
	folder := filepath.Join(testrig.SocketFolder(t), "isogloss")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(folder, fileName(address))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TEST_LISTEN="+name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it listens
		t.Fatal(err)
	}
	if l, err := Listen(address); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d listens on ", cmd.Process.Pid)) {
		if err == nil {
			_ = l.Close()
		}
		t.Error(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := Dial(t.Context(), name); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a stale socket: %v", err)
	}
	if got := serve(t, whoami); got != name || !Alive(t.Context(), name) {
		t.Errorf("%s is not replaced", got)
	}
}

// TestReplaced checks that a process leaves the socket of the next one in its place.
func TestReplaced(t *testing.T) {
	testrig.SocketFolder(t)
	first, err := Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	name := serve(t, whoami)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := get(t.Context(), name); err != nil {
		t.Error(err)
	}
}

// TestLongPath checks that a path that no socket may have is refused with advice.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(testrig.SocketFolder(t), strings.Repeat("x", 90))
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if _, err := Listen(address); err == nil || !strings.Contains(err.Error(), "set XDG_RUNTIME_DIR to a shorter folder") {
		t.Error(err)
	}
}

// TestManyConnections checks that connections that send nothing are bounded, and that each of them that ends
// makes room.
func TestManyConnections(t *testing.T) {
	testrig.SocketFolder(t)
	l, err := Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: Guard(http.HandlerFunc(whoami)), ConnContext: ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	defer func() { _ = s.Close(); <-done }()
	idle := make([]net.Conn, maxConnections)
	for i := range idle {
		if idle[i], err = Dial(t.Context(), l.Name()); err != nil {
			t.Fatal(err)
		}
		defer idle[i].Close()
	}
	testrig.Eventually(t, "all are accepted", func() bool { return len(l.open) == maxConnections })
	waiting := make(chan error, 1)
	go func() {
		_, _, err := get(context.Background(), l.Name())
		waiting <- err
	}()
	_ = idle[0].Close()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}
