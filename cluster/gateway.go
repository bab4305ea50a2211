package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
const patience = 20 * time.Second

// gateway is one node: a folder, a configuration and the process that serves now.
type gateway struct {
	name   string
	url    string // of the data path
	admin  string // of the admin API
	config string // the file
	data   string // what outlives the process
	dir    string
	bin    string
	env    []string
	ended  chan struct{} // closed when the process that was started last has ended
	groups []int         // of all processes that were started
}

// newGateway gives a node its folder and its ports.
func newGateway(bin, dir, name string) (*gateway, error) {
	listen, admin, err := freeport.Pair()
	if err != nil {
		return nil, err
	}
	g := &gateway{name: name, url: "http://" + listen, admin: "http://" + admin, dir: filepath.Join(dir, name), bin: bin,
		env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}}
	g.config, g.data = filepath.Join(g.dir, "isogloss.yaml"), filepath.Join(g.dir, "data")
	return g, os.MkdirAll(g.data, 0o700)
}

// launch starts the process and does not wait for it.
func (g *gateway) launch() error {
	log, err := os.OpenFile(g.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	if err := os.Remove(g.pidFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	cmd := exec.Command(g.bin, "serve", "-c", g.config, "--pid-file", g.pidFile())
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, g.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // those that follow on SIGHUP are in its group
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	g.ended, g.groups = ended, append(g.groups, cmd.Process.Pid)
	go func() {
		_ = cmd.Wait() // else it stays in the table of processes
		close(ended)
	}()
	return nil
}

// start runs the node and returns when it serves.
func (g *gateway) start(ctx context.Context) error {
	if err := g.launch(); err != nil {
		return err
	}
	return g.ready(ctx)
}

// ready returns when the node serves.
func (g *gateway) ready(ctx context.Context) error {
	for end := time.Now().Add(patience); ; {
		if g.pid() != 0 && g.healthy(ctx) {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-g.ended:
			return fmt.Errorf("%s ended: %s", g.name, g.tail())
		case <-ctx.Done():
			return ctx.Err()
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not serve: %s", g.name, g.tail())
		}
	}
}

func (g *gateway) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // its status is all that counts
	return resp.StatusCode == http.StatusOK
}

func (g *gateway) pidFile() string { return filepath.Join(g.dir, "pid") }
func (g *gateway) logFile() string { return filepath.Join(g.dir, "log") }

// log is all that the node's processes have written.
func (g *gateway) log() string {
	text, _ := os.ReadFile(g.logFile()) // none yet is the same as an empty one
	return string(text)
}

func (g *gateway) tail() string {
	text := g.log()
	return text[max(0, len(text)-1200):]
}

// pid is the process that serves, or 0.
func (g *gateway) pid() int {
	text, _ := os.ReadFile(g.pidFile())
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

func (g *gateway) signal(s syscall.Signal) error {
	pid := g.pid()
	if pid <= 0 {
		return fmt.Errorf("%s: there is no process that serves", g.name)
	}
	return syscall.Kill(pid, s)
}

// kill ends the node as a power cut of its container does, and waits for it.
func (g *gateway) kill() {
	pid := g.pid()
	if pid <= 0 {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	for end := time.Now().Add(patience); alive(pid) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	_ = os.Remove(g.pidFile()) // it says nothing any more
}

// close ends all that the node has started.
func (g *gateway) close() {
	for _, group := range g.groups {
		_ = syscall.Kill(-group, syscall.SIGKILL) // most have ended
	}
}

// alive reports whether a process is there and has not ended. One whose first thread
// has ended may still hold its ports by another.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(stat), ") ")
	if err != nil || !found {
		return false
	}
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return !strings.HasPrefix(state, "Z") || len(threads) > 1
}

// replace asks for a new process and returns when it serves and the old one has
// ended, with how long that took.
func (g *gateway) replace(ctx context.Context) (time.Duration, error) {
	began, old := time.Now(), g.pid()
	if err := g.signal(syscall.SIGHUP); err != nil {
		return 0, err
	}
	if err := until(ctx, patience, g.name+" is not replaced", func() bool { return g.pid() != old && g.pid() != 0 && g.healthy(ctx) }); err != nil {
		return 0, err
	}
	err := until(ctx, patience, fmt.Sprintf("process %d of %s, which served before, does not end", old, g.name), func() bool { return !alive(old) })
	return time.Since(began), err
}

// command runs one of the binary's other commands on the node's configuration.
func (g *gateway) command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, g.bin, args...)
	cmd.Env = g.env
	var said, wrong strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &wrong
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("isogloss %s: %w: %s", strings.Join(args, " "), err, clip(wrong.String()+said.String(), 800))
	}
	return []byte(said.String()), nil
}

// until waits for a condition. The message says what it means if it does not come.
func until(ctx context.Context, within time.Duration, message string, met func() bool) error {
	for end := time.Now().Add(within); !met(); {
		if time.Now().After(end) {
			return fmt.Errorf("%s within %v", message, within)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", message, ctx.Err())
		}
	}
	return nil
}

// waited is how long a condition took to come, and a complaint where it did not.
func waited(ctx context.Context, within time.Duration, message string, met func() bool) (time.Duration, string) {
	began := time.Now()
	err := until(ctx, within, message, met)
	if err != nil {
		return time.Since(began), err.Error()
	}
	return time.Since(began), ""
}
