package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// etcdctl runs etcd's own client, past the proxy.
func (c *cluster) etcdctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "etcdctl", append([]string{"--endpoints", c.etcd.URL}, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	said, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("etcdctl %s: %w: %s", strings.Join(args, " "), err, clip(string(said), 300))
	}
	return string(said), nil
}

// workersKey is where a worker stands, as the documentation of discovery says.
func workersKey(id string) string { return "/isogloss/workers/" + id }

// put writes a worker without a lease, as somebody does who keeps them by hand. Its
// name is that of the upstream.
func (c *cluster) put(ctx context.Context, model, who string) error {
	text, err := json.Marshal(map[string]any{"id": who, "model": model, "protocol": "openai-chat", "url": c.up.url(who), "name": "m"})
	if err != nil {
		return err
	}
	_, err = c.etcdctl(ctx, "put", workersKey(who), string(text))
	return err
}

// register runs the gateway's own command for an engine that cannot register
// itself, and returns what kills it.
func (c *cluster) register(ctx context.Context, model, who string, ttl time.Duration) (kill func(), err error) {
	cmd := exec.Command(c.bin, "register", "--etcd", c.etcd.URL, "--model", model, "--protocol", "openai-chat", "--url", c.up.url(who), "--id", who, "--name", "m", "--ttl", ttl.String())
	log, err := os.OpenFile(c.dir+"/register.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	kill = func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		<-ended
	}
	c.ends = append(c.ends, kill)
	return kill, until(ctx, 5*time.Second, "isogloss register does not write the worker", func() bool {
		said, err := c.etcdctl(ctx, "get", "--prefix", "--keys-only", "/isogloss/")
		return err == nil && strings.Contains(said, who)
	})
}
