package storetest

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Etcd runs a single etcd member for a test.
func Etcd(t testing.TB) *Server {
	t.Helper()
	return start(t, etcd())
}

// RunEtcd runs a single etcd member in a folder until it is closed.
func RunEtcd(dir string) (*Server, error) { return run(etcd(), dir) }

// EtcdCluster runs an etcd cluster for a test.
func EtcdCluster(t testing.TB, members int) []*Server {
	t.Helper()
	addresses, err := testrig.Addresses(2 * members)
	if err != nil {
		t.Fatal(err)
	}
	cluster := make([]*Server, members)
	addresses, peers := addresses[:members], addresses[members:]
	all := make([]string, members)
	for i, peer := range peers {
		all[i] = memberName(i) + "=http://" + peer
	}
	for i, addr := range addresses {
		k := member(memberName(i), "http://"+peers[i], strings.Join(all, ","))
		cluster[i] = &Server{Addr: addr, URL: k.url(addr), kind: k, dir: t.TempDir()}
		t.Cleanup(cluster[i].Close)
	}
	// A member answers when most of them do, so that none can be waited for first.
	errs := make(chan error, members)
	for _, s := range cluster {
		go func() { errs <- errors.Join(s.fill(), s.Start()) }()
	}
	for range cluster {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}

func memberName(i int) string { return "member" + strconv.Itoa(i) }

func etcd() kind { return member("one", "http://127.0.0.1:0", "one=http://127.0.0.1:0") }

// member is an etcd by a name of its own among others.
func member(name, peer, cluster string) kind {
	return kind{
		name: "etcd",
		command: func(s *Server) *exec.Cmd {
			return exec.Command("etcd", "--name", name, "--bcrypt-cost", "4", "--data-dir", s.data(), //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
				"--listen-client-urls", s.URL, "--advertise-client-urls", s.URL,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
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
