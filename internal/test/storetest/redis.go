package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Redis runs Redis for a test.
func Redis(t testing.TB) *Server {
	t.Helper()
	return start(t, redis())
}

// RedisWith runs Redis for a test with further settings, as arguments of redis-server.
func RedisWith(t testing.TB, settings ...string) *Server {
	t.Helper()
	return start(t, redis(settings...))
}

// RunRedis runs Redis in a folder until it is closed.
func RunRedis(dir string) (*Server, error) { return run(redis(), dir) }

func redis(settings ...string) kind {
	return kind{
		name: "redis",
		command: func(s *Server) *exec.Cmd {
			args := append([]string{"--bind", "127.0.0.1", "--port", s.port(), "--dir", s.data(), "--save", "", "--appendonly", "no", "--daemonize", "no"}, settings...)
			return exec.Command("redis-server", args...) //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
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
			if text := string(b[:n]); err == nil && !strings.HasPrefix(text, "+PONG") && !strings.HasPrefix(text, "-NOAUTH") {
				err = errors.New("it answers " + text)
			}
			return err
		},
	}
}

// RedisTLS runs a Redis that requires TLS and a client certificate, with PEM files.
func RedisTLS(t testing.TB, ca, cert, key string) *Server {
	t.Helper()
	k := redis()
	k.command = func(s *Server) *exec.Cmd {
		return exec.Command("redis-server", "--bind", "127.0.0.1", "--port", "0", "--tls-port", s.port(), "--dir", s.data(), "--save", "", //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
			"--tls-ca-cert-file", ca, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "yes")
	}
	k.url = func(addr string) string { return "rediss://" + addr + "/0" }
	k.ready = func(ctx context.Context, addr string) error {
		conn, err := dial(ctx, addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	return start(t, k)
}

// RedisCluster runs a cluster for a test: its masters, then the given number of replicas of each.
func RedisCluster(t testing.TB, masters, replicas int) []*Server {
	t.Helper()
	all, err := RunRedisCluster(t.TempDir(), masters, replicas)
	for _, s := range all {
		t.Cleanup(s.Close)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// RunRedisCluster runs a cluster in a folder until its servers are closed. A dead master does not stop
// the others.
func RunRedisCluster(dir string, masters, replicas int) (all []*Server, err error) {
	for i := range masters * (1 + replicas) {
		bus, err := testrig.Address()
		if err != nil {
			return all, err
		}
		_, port, _ := net.SplitHostPort(bus)
		sub := filepath.Join(dir, strconv.Itoa(i))
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return all, err
		}
		s, err := run(redis("--cluster-enabled", "yes", "--cluster-port", port, "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"), sub)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	args := []string{"--cluster", "create", "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes"}
	for _, s := range all {
		args = append(args, s.Addr)
	}
	if _, err := RedisCLI("", args...); err != nil {
		return all, err
	}
	ok := waitUntil(func() bool {
		for i, s := range all {
			text, err := RedisCLI(s.Addr, "CLUSTER", "INFO")
			if err != nil || !strings.Contains(text, "cluster_state:ok") {
				return false
			}
			text, err = RedisCLI(s.Addr, "INFO", "replication")
			if err != nil || i >= masters && !strings.Contains(text, "master_link_status:up") {
				return false
			}
		}
		return true
	})
	if !ok {
		return all, errors.New("the cluster does not become ready")
	}
	return all, nil
}

// RedisCLI runs redis-cli, with a server's address or none.
func RedisCLI(addr string, args ...string) (string, error) {
	if host, port, err := net.SplitHostPort(addr); err == nil {
		args = append([]string{"-h", host, "-p", port}, args...)
	}
	out, err := exec.Command("redis-cli", args...).CombinedOutput() //nolint:noctx,gosec // it ends soon, and the arguments are ours
	if err != nil {
		return "", fmt.Errorf("redis-cli %v: %w: %s", args, err, out)
	}
	return string(out), nil
}

// Sentinels runs Sentinels for a test, as RunSentinels does. The URL of the returned Server names them all.
func Sentinels(t testing.TB, master, replica *Server, count int) *Server {
	t.Helper()
	all, err := RunSentinels(t.TempDir(), master, replica, count)
	for _, s := range all {
		t.Cleanup(s.Close)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// RunSentinels makes a server the replica of another one, and runs Sentinels in a folder, which watch the
// master by the name main. Most of them have to agree that it is down, after half a second. The URL of
// the first names them all.
func RunSentinels(dir string, master, replica *Server, count int) (all []*Server, err error) {
	host, port, _ := net.SplitHostPort(master.Addr)
	if _, err := RedisCLI(replica.Addr, "REPLICAOF", host, port); err != nil {
		return nil, err
	}
	for i := range count {
		sub := filepath.Join(dir, strconv.Itoa(i))
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return all, err
		}
		k := redis()
		k.name = "sentinel"
		k.prepare = func(s *Server) error {
			text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor main %s %s %d\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 5000\n", s.port(), s.data(), host, port, count/2+1)
			return os.WriteFile(filepath.Join(s.data(), "sentinel.conf"), []byte(text), 0o600)
		}
		k.command = func(s *Server) *exec.Cmd {
			return exec.Command("redis-server", filepath.Join(s.data(), "sentinel.conf"), "--sentinel") //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
		}
		s, err := run(k, sub)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	ok := waitUntil(func() bool { // each knows the others and the replica
		for _, s := range all {
			text, err := RedisCLI(s.Addr, "SENTINEL", "MASTER", "main")
			if err != nil || !strings.Contains(text, fmt.Sprintf("num-other-sentinels\n%d\n", count-1)) || strings.Contains(text, "num-slaves\n0\n") {
				return false
			}
		}
		return true
	})
	if !ok {
		return all, errors.New("the Sentinels do not find each other")
	}
	all[0].URL = "redis://" + all[0].Addr + "?master_set=main"
	for _, s := range all[1:] {
		all[0].URL += "&addr=" + s.Addr
	}
	return all, nil
}
