package running

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/local"
)

// listen makes a socket and serves each connection with f.
func listen(t *testing.T, f func(net.Conn)) *Gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "ig") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("RUNTIME_DIRECTORY", dir)
	l, err := local.Listen("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			f(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done; _ = os.RemoveAll(dir) })
	return &Gateway{Identity{Address: "127.0.0.1:1"}, l.Name()}
}

// TestDeath lets the gateway end in the middle of a command: the message says whether a change may have been
// made.
func TestDeath(t *testing.T) {
	g := listen(t, func(net.Conn) {})
	send := func(method string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := g.Transport().RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
			t.Fatal(resp.Status)
		}
		return err.Error()
	}
	if text := send(http.MethodPost); !strings.Contains(text, "the change may have been made") {
		t.Error(text)
	}
	if text := send(http.MethodGet); !strings.Contains(text, "run the command again") || strings.Contains(text, "may have been") {
		t.Error(text)
	}
	if err := os.Remove(g.socket); err != nil {
		t.Fatal(err)
	}
	if text := send(http.MethodPost); !strings.Contains(text, "nothing was changed") {
		t.Error(text)
	}
}

// TestOtherPrograms asks programs that are no gateways: one that says nothing, and one that says too much.
func TestOtherPrograms(t *testing.T) {
	huge := listen(t, func(c net.Conn) {
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n{\"configuration\":\"" + strings.Repeat("x", 1<<20)))
	})
	if _, err := Ask(t.Context(), huge.socket); err == nil || !strings.Contains(err.Error(), "is no gateway of this version") {
		t.Error(err)
	}
	asked := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	silent := listen(t, func(net.Conn) {
		asked <- struct{}{}
		<-ctx.Done()
	})
	go func() { <-asked; cancel() }()
	if _, err := Ask(ctx, silent.socket); err == nil {
		t.Error("a program that says nothing is a gateway")
	}
}

// TestMarker writes and reads a marker in the place of a link.
func TestMarker(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.Symlink(other, filepath.Join(dir, markerFile)); err != nil {
		t.Fatal(err)
	}
	id := Identity{Configuration: "/c.yaml", Data: dir, PID: 7}
	if err := WriteMarker(id); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadMarker(dir); err != nil || got != id {
		t.Error(got, err)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("the link was followed")
	}
	if err := WriteMarker(Identity{Data: "/nowhere"}); err == nil {
		t.Error("a marker was written nowhere")
	}
}

// TestHostileMarker puts other things in the place of a marker, as the owner of a data folder could for root: nothing is read
// without end, and nothing waits.
func TestHostileMarker(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"a pipe":     func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"an endless": func(path string) error { return os.Symlink("/dev/zero", path) },
		"a folder":   func(path string) error { return os.Mkdir(path, 0o700) },
		"a large file": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("{"), 0o600), os.Truncate(path, 1<<40))
		},
		"no identity":    func(path string) error { return os.WriteFile(path, []byte(`[{"pid":"x"}]`), 0o600) },
		"nothing at all": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		dir := t.TempDir()
		if err := prepare(filepath.Join(dir, markerFile)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { _, err := ReadMarker(dir); ended <- err }()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s is a marker", name)
			}
		case <-time.After(time.Minute): // only a failing test waits so long
			t.Fatalf("%s: it waits", name)
		}
	}
}

// FuzzIdentity reads any bytes as what a program at a socket says of itself.
func FuzzIdentity(f *testing.F) {
	f.Add([]byte(`{"configuration":"/c.yaml","address":"127.0.0.1:1","data":"/d","store":"sqlite:/d/x","node":"gw","version":"v1","pid":7}`))
	f.Add([]byte(`[{"pid":1e999}]`))
	f.Add(bytes.Repeat([]byte(" "), maxIdentity+1))
	f.Fuzz(func(t *testing.T, text []byte) {
		if id, err := readIdentity(bytes.NewReader(text)); err == nil && len(text) > maxIdentity {
			t.Errorf("%d bytes are read: %+v", len(text), id)
		}
	})
}
