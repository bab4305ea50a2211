package storetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// RunHAProxy runs HAProxy in a folder until it is closed. The configuration has ADDRESS where it names
// the address to listen on.
func RunHAProxy(dir, config string) (*Server, error) {
	return run(kind{
		name: "haproxy",
		prepare: func(s *Server) error {
			return os.WriteFile(filepath.Join(s.data(), "haproxy.cfg"), []byte(strings.ReplaceAll(config, "ADDRESS", s.Addr)), 0o600)
		},
		command: func(s *Server) *exec.Cmd {
			return exec.Command("haproxy", "-db", "-f", filepath.Join(s.data(), "haproxy.cfg")) //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
		},
		url: func(addr string) string { return "http://" + addr },
		ready: func(ctx context.Context, addr string) error {
			conn, err := dial(ctx, addr)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}, dir)
}
