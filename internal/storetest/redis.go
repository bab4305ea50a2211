package storetest

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// Redis runs Redis for a test.
func Redis(t testing.TB) *Server {
	t.Helper()
	return start(t, redis())
}

// RunRedis runs Redis in a folder until it is closed.
func RunRedis(dir string) (*Server, error) { return run(redis(), dir) }

func redis() kind {
	return kind{
		name: "redis",
		command: func(s *Server) *exec.Cmd {
			return exec.Command("redis-server", "--bind", "127.0.0.1", "--port", s.port(), "--dir", s.data(), "--save", "", "--appendonly", "no", "--daemonize", "no") //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
		},
		url: func(addr string) string { return "redis://" + addr + "/0" },
		ready: func(ctx context.Context, addr string) error {
			conn, err := dial(ctx, addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
				return err
			}
			b := make([]byte, 16)
			n, err := conn.Read(b)
			if err == nil && !strings.HasPrefix(string(b[:n]), "+PONG") {
				err = errors.New("it answers " + string(b[:n]))
			}
			return err
		},
	}
}
