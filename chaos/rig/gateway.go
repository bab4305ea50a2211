// Package rig is what the scenarios under chaos have in common: the built gateway
// as a process, an upstream that answers at a pace, and clients that count every
// answer that is not whole.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/freeport"
)

// patience is far more than a start or an end takes.
const patience = 30 * time.Second

// Gateway is a built gateway that runs. After a restart it is another process.
type Gateway struct {
	URL     string // of the data path
	Metrics string // the page of metrics
	Config  string // the file
	Head    string // what a configuration has to begin with: where to listen, and to log warnings only

	dir string
	cmd *exec.Cmd // the first process
}

// Start runs the binary on a configuration, less its head, with all its files in a
// folder.
func Start(ctx context.Context, bin, dir, configuration string) (*Gateway, error) {
	listen, admin, err := freeport.Pair()
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		URL: "http://" + listen, Metrics: "http://" + admin + "/metrics", Config: filepath.Join(dir, "isogloss.yaml"), dir: dir,
		Head: fmt.Sprintf("listen: %s\nadmin: { listen: %s }\nlog: { level: warn }\n", listen, admin),
	}
	if err := os.WriteFile(g.Config, []byte(g.Head+configuration), 0o600); err != nil {
		return nil, err
	}
	if err := g.start(ctx, bin); err != nil {
		return nil, fmt.Errorf("%w; its log: %s", err, g.Log())
	}
	return g, nil
}

func (g *Gateway) start(ctx context.Context, bin string) error {
	// A file and no pipe: the processes that come later write to it as well.
	log, err := os.OpenFile(filepath.Join(g.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	//nolint:gosec // the caller names what is to be tested
	g.cmd = exec.CommandContext(context.WithoutCancel(ctx), bin, "serve", "-c", g.Config, "--pid-file", g.pidFile())
	g.cmd.Stderr, g.cmd.Env = log, []string{}
	if err := g.cmd.Start(); err != nil {
		return err
	}
	go func() { _ = g.cmd.Wait() }() // else it stays in the table of processes
	err = Until(ctx, patience, "the gateway does not start", func() bool { return g.PID() != 0 })
	if err != nil {
		_ = g.cmd.Process.Kill()
	}
	return err
}

func (g *Gateway) pidFile() string { return filepath.Join(g.dir, "pid") }

// Log is all that the processes have written so far.
func (g *Gateway) Log() string {
	text, _ := os.ReadFile(filepath.Join(g.dir, "log")) // none yet is the same as an empty one
	return string(text)
}

// PID is the process that serves, or 0.
func (g *Gateway) PID() int {
	text, _ := os.ReadFile(g.pidFile())
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// Signal sends a signal to the process that serves.
func (g *Gateway) Signal(s syscall.Signal) error { return signal(g.PID(), s) }

func signal(pid int, s syscall.Signal) error {
	if pid <= 0 {
		return errors.New("there is no process that serves")
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(s)
}

// Alive reports whether a process is there and has not ended.
func Alive(pid int) bool {
	if signal(pid, 0) != nil {
		return false
	}
	// One that has ended stays in the table until its parent asks for it.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(stat), ") ")
	return err != nil || !found || !strings.HasPrefix(state, "Z")
}

// Stop ends the process that serves, as an operator does, and waits for it.
func (g *Gateway) Stop(ctx context.Context) error {
	pid := g.PID()
	if err := signal(pid, syscall.SIGTERM); err != nil {
		return err
	}
	err := Until(ctx, patience, "the gateway does not end", func() bool { return !Alive(pid) })
	if err != nil {
		_ = signal(pid, syscall.SIGKILL)
	}
	return err
}

// Until waits for a condition. The message says what it means if it does not come.
func Until(ctx context.Context, within time.Duration, message string, met func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !met() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", message, context.Cause(ctx))
		}
	}
	return nil
}
