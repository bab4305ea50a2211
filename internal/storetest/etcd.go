package storetest

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"testing"
)

// Etcd runs one for a test, with one member.
func Etcd(t testing.TB) *Server {
	t.Helper()
	return start(t, etcd())
}

// RunEtcd runs one in a folder until it is closed.
func RunEtcd(dir string) (*Server, error) { return run(etcd(), dir) }

func etcd() kind {
	return kind{
		name: "etcd",
		command: func(s *Server) *exec.Cmd {
			return exec.Command("etcd", "--name", "one", "--data-dir", s.data(), //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
				"--listen-client-urls", s.URL, "--advertise-client-urls", s.URL,
				"--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", "http://127.0.0.1:0", "--initial-cluster", "one=http://127.0.0.1:0",
				"--log-level", "error", "--unsafe-no-fsync=false")
		},
		url: func(addr string) string { return "http://" + addr },
		ready: func(ctx context.Context, addr string) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", nil)
			if err != nil {
				return err
			}
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return errors.New("it answers " + resp.Status)
			}
			return nil
		},
	}
}
