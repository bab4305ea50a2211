package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// output runs a tool of a store and returns what it prints.
func output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	return testrig.Output(cmd)
}

// etcdctl runs etcd's own client, without the proxy.
func (c *cluster) etcdctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	out, err := output(ctx, append([]string{"etcdctl", "--endpoints", c.etcd.URL}, args...)...)
	return string(out), err
}

// workersKey returns etcd's key of a worker, as documented.
func workersKey(id string) string { return "/isogloss/workers/" + id }

// put writes a worker without a lease. Its id is the name of its upstream.
func (c *cluster) put(ctx context.Context, model, who string) {
	testrig.Must(c.etcdctl(ctx, "put", workersKey(who), c.up.worker(model, who)))
}

// register runs the gateway's command that registers an engine, and returns a function
// that kills it.
func (c *cluster) register(ctx context.Context, model, who string, ttl time.Duration) (kill func()) {
	cmd := exec.Command(c.bin, "register", "--etcd", c.etcd.URL, "--model", model, "--protocol", "openai-chat", "--url", c.up.URL(who, testrig.Chat), "--id", who, "--name", "m", "--ttl", ttl.String())
	cmd.Stdout = testrig.Must(os.OpenFile(c.dir+"/register.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	cmd.Stderr = cmd.Stdout
	testrig.NoError(cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	})
	c.cleanups = append(c.cleanups, kill)
	testrig.NoError(testrig.Until(ctx, waitLimit, "isogloss register does not write the worker", func() bool {
		keys, err := c.etcdctl(ctx, "get", "--prefix", "--keys-only", "/isogloss/")
		return err == nil && strings.Contains(keys, who)
	}))
	return kill
}
