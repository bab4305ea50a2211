package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is something that is measured or helps to measure: one pid and its
// children.
type process struct {
	name    string
	addr    string // host:port that it serves
	metrics string // URL of its Go runtime's metrics; "" if it has none
	log     string // file of its output
	pid     int
	ready   time.Duration // from its start to its first good answer
	cmd     *exec.Cmd     // nil if somebody else started it
	key     string        // that it is asked with, where it has keys
	ledger  *ledger       // nil if it has none
}

// launch says how to start a process.
type launch struct {
	name, addr, metrics string
	health              string // URL that answers 200 when it is ready; tcp://ADDR for what speaks no HTTP
	dir                 string
	args                []string
}

// start starts a process and waits until it answers.
func start(ctx context.Context, l launch) (*process, error) {
	p := &process{name: l.name, addr: l.addr, metrics: l.metrics}
	p.log = filepath.Join(l.dir, strings.ReplaceAll(l.name, " ", "-")+"-"+strings.ReplaceAll(l.addr, ":", "-")+".log")
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.CommandContext(ctx, l.args[0], l.args[1:]...) //nolint:gosec // our own programs
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = l.dir, out, out
	p.cmd.SysProcAttr = withParent()
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", l.name, err)
	}
	p.pid = p.cmd.Process.Pid
	if err := waitReady(ctx, l.health); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w; its output is %q", l.name, err, tail(p.log))
	}
	p.ready = time.Since(began)
	return p, nil
}

// waitReady asks until the answer is good.
func waitReady(ctx context.Context, url string) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
		if answers(ctx, client, url) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(500 * time.Microsecond)
	}
	return fmt.Errorf("%s did not answer in a minute", url)
}

func answers(ctx context.Context, client *http.Client, url string) bool {
	if addr, ok := strings.CutPrefix(url, "tcp://"); ok {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// stop ends a process that we started. It is given time to end well, because nginx
// would else leave its workers behind.
func (p *process) stop() {
	if p.ledger != nil {
		defer p.ledger.db.Close()
	}
	if p.cmd == nil {
		return
	}
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(done) }()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
		return
	case <-time.After(2 * time.Second):
	}
	for _, pid := range family(p.pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-done
}

func tail(path string) string {
	text, _ := os.ReadFile(path) //nolint:gosec // our own file
	return string(text[max(0, len(text)-400):])
}

// cpu is the CPU time of a process and its children.
func (p *process) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range family(p.pid) {
		t, err := cpuTime(pid)
		if err != nil {
			return 0, fmt.Errorf("CPU time of %s (%d): %w", p.name, pid, err)
		}
		sum += t
	}
	return sum, nil
}

// rss is the resident memory of a process and its children, in bytes.
func (p *process) rss() (float64, error) {
	var sum float64
	for _, pid := range family(p.pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, fmt.Errorf("memory of %s: %w", p.name, err)
		}
		sum += kilobytes(string(text), "VmRSS:") * 1024
	}
	return sum, nil
}

// kilobytes reads a line such as "VmRSS:   1234 kB".
func kilobytes(text, key string) float64 {
	_, rest, _ := strings.Cut(text, key)
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 64)
	return n
}

// family is a process and all below it.
func family(pid int) []int {
	all := []int{pid}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for f := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(f); err == nil {
			all = append(all, family(child)...)
		}
	}
	return all
}

// runtimeCounts are what a Go process says of its allocator.
type runtimeCounts struct{ mallocs, bytes, inuse float64 }

// counts reads them; ok is false for a process that does not tell.
func (p *process) counts(ctx context.Context) (c runtimeCounts, ok bool) {
	if p.metrics == "" {
		return c, false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.metrics, http.NoBody)
	if err != nil {
		return c, false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return c, false
	}
	defer resp.Body.Close()
	return readCounts(resp.Body), true
}

func readCounts(r io.Reader) (c runtimeCounts) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_memstats_mallocs_total":
			c.mallocs = n
		case "go_memstats_alloc_bytes_total":
			c.bytes = n
		case "go_memstats_heap_inuse_bytes", "go_memstats_stack_inuse_bytes":
			c.inuse += n
		}
	}
	return c
}
