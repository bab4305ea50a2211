package testrig

import (
	"context"
	"crypto/tls"
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
)

// startTimeout bounds a start and a stop; both take a fraction of a second on an idle machine.
const startTimeout = Patience

// Gateway is one node of the built gateway: a folder, two ports, a configuration and
// the process that serves now. The process changes with Kill, Start and Replace.
type Gateway struct {
	Name   string
	URL    string // of the data port, without a path
	Admin  string // URL of the admin port, without a path
	Dir    string // holds the configuration, the log and the pid file
	Data   string // folder for the state that survives a restart
	Config string // the configuration file
	Env    []string
	TLS    *tls.Config   // of requests to the data port; nil for one without TLS
	Before string        // shell commands that the process runs before the binary, such as "ulimit -n 400"
	Ended  chan struct{} // closed when the process that Launch started last has ended

	bin    string
	temp   bool  // Close removes Dir
	groups []int // process groups of all processes that Launch started
	exit   error // of the last process, valid after Ended is closed
}

// NewGateway reserves the ports of a node and creates its folder below dir; an empty
// dir means a temporary folder that Close removes. The environment has PATH and HOME only.
func NewGateway(bin, dir, name string) (*Gateway, error) {
	ports, err := Addresses(2)
	if err != nil {
		return nil, err
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	g := &Gateway{Name: name, URL: "http://" + ports[0], Admin: "http://" + ports[1], bin: bin, temp: dir == ""}
	if g.temp {
		if dir, err = os.MkdirTemp("", "isogloss-"); err != nil {
			return nil, err
		}
	}
	g.Dir = filepath.Join(dir, name)
	g.Config, g.Data = filepath.Join(g.Dir, "isogloss.yaml"), filepath.Join(g.Dir, "data")
	g.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.Dir}
	return g, os.MkdirAll(g.Data, 0o700)
}

// StartGateway starts a gateway on a configuration that has no listen and admin
// settings, and returns when it serves. The environment entries are added to Env.
func StartGateway(ctx context.Context, bin, config string, env ...string) (*Gateway, error) {
	g, err := NewGateway(bin, "", "gateway")
	if err != nil {
		return nil, err
	}
	g.Env = append(g.Env, env...)
	if err := errors.Join(g.Configure(config), g.Start(ctx)); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Header returns the first lines of every configuration: where the gateway listens.
func (g *Gateway) Header() string {
	_, listen, _ := strings.Cut(g.URL, "://")
	return fmt.Sprintf("listen: %s\nadmin: { listen: %s }\n", listen, strings.TrimPrefix(g.Admin, "http://"))
}

// Configure writes the configuration file: the header and the given text.
func (g *Gateway) Configure(text string) error {
	return os.WriteFile(g.Config, []byte(g.Header()+text), 0o600)
}

// Launch starts the process and does not wait for it. All processes of a node write to
// one log file.
func (g *Gateway) Launch() error {
	log, err := os.OpenFile(g.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	if err := os.Remove(g.pidFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := []string{g.bin, "serve", "-c", g.Config, "--pid-file", g.pidFile()}
	if g.Before != "" {
		args = append([]string{"/bin/sh", "-c", g.Before + ` && exec "$0" "$@"`}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = g.Dir, log, log, g.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // processes that replace it on SIGHUP join its group
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	g.Ended, g.groups = ended, append(g.groups, cmd.Process.Pid)
	go func() {
		g.exit = cmd.Wait()
		close(ended)
	}()
	return nil
}

// Start launches the process and returns when it serves.
func (g *Gateway) Start(ctx context.Context) error {
	if err := g.Launch(); err != nil {
		return err
	}
	return g.Ready(ctx)
}

// Ready waits until the launched process serves.
func (g *Gateway) Ready(ctx context.Context) error {
	err := Until(ctx, startTimeout, g.Name+" does not serve", func() bool {
		return g.Alive() != nil || g.PID() != 0 && g.healthy(ctx)
	})
	if err = errors.Join(g.Alive(), err); err != nil {
		return fmt.Errorf("%w; its log: %s", err, g.LogTail())
	}
	return nil
}

func (g *Gateway) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := (&http.Transport{DisableKeepAlives: true, TLSClientConfig: g.TLS}).RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // only the status matters
	return resp.StatusCode == http.StatusOK
}

// Alive returns an error when the process that was launched last has ended. A process
// that was replaced by SIGHUP ends too.
func (g *Gateway) Alive() error {
	select {
	case <-g.Ended:
		return fmt.Errorf("%s ended: %s (exit: %w)", g.Name, g.LogTail(), g.exit)
	default:
		return nil
	}
}

func (g *Gateway) pidFile() string { return filepath.Join(g.Dir, "pid") }
func (g *Gateway) logFile() string { return filepath.Join(g.Dir, "log") }

// Log returns everything that the processes of the node have logged.
func (g *Gateway) Log() string {
	text, _ := os.ReadFile(g.logFile()) // a missing file is an empty log
	return string(text)
}

// LogTail returns the last log lines above level info.
func (g *Gateway) LogTail() string {
	var b strings.Builder
	for line := range strings.Lines(g.Log()) {
		if !strings.Contains(line, `"level":"INFO"`) {
			b.WriteString(line)
		}
	}
	return b.String()[max(0, b.Len()-4000):]
}

// PID returns the id of the process that serves, or 0.
func (g *Gateway) PID() int {
	text, _ := os.ReadFile(g.pidFile())
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// Signal sends a signal to the process that serves.
func (g *Gateway) Signal(s syscall.Signal) error {
	pid := g.PID()
	if pid <= 0 {
		return fmt.Errorf("%s: no process serves", g.Name)
	}
	return syscall.Kill(pid, s)
}

// Stop sends SIGTERM, waits for the end of the serving process and returns how long that
// took. An exit code other than 0, if it is known, is an error.
func (g *Gateway) Stop(ctx context.Context) (time.Duration, error) {
	began, pid := time.Now(), g.PID()
	if err := g.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	err := Until(ctx, startTimeout+10*time.Second, g.Name+" does not end", func() bool { return !ProcessAlive(pid) })
	took := time.Since(began)
	if err == nil && len(g.groups) > 0 && pid == g.groups[len(g.groups)-1] {
		<-g.Ended
		err = g.exit
	}
	g.Close()
	return took, err
}

// Kill sends SIGKILL to the process that serves and waits for its end.
func (g *Gateway) Kill() {
	pid := g.PID()
	if pid <= 0 {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	_ = Until(context.Background(), startTimeout, "", func() bool { return !ProcessAlive(pid) })
	_ = os.Remove(g.pidFile()) // the process is gone
}

// Replace sends SIGHUP and returns when the new process serves and the old one has
// ended, with the time that this took.
func (g *Gateway) Replace(ctx context.Context) (time.Duration, error) {
	began, old := time.Now(), g.PID()
	if err := g.Signal(syscall.SIGHUP); err != nil {
		return 0, err
	}
	if err := Until(ctx, startTimeout, g.Name+" is not replaced", func() bool { return g.PID() != old && g.PID() != 0 && g.healthy(ctx) }); err != nil {
		return 0, err
	}
	err := Until(ctx, startTimeout, fmt.Sprintf("the old process %d of %s does not end", old, g.Name), func() bool { return !ProcessAlive(old) })
	return time.Since(began), err
}

// Close kills every process of the node and removes its temporary folder.
func (g *Gateway) Close() {
	for _, group := range g.groups {
		_ = syscall.Kill(-group, syscall.SIGKILL) // most have ended
	}
	g.groups = nil
	if g.temp {
		_ = os.RemoveAll(filepath.Dir(g.Dir)) // a temporary folder
	}
}

// Command runs another command of the binary in the environment of the node and returns its output.
func (g *Gateway) Command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, g.bin, args...)
	cmd.Env = g.Env
	return Output(cmd)
}
