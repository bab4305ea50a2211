package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// process is a process of the run and its children.
type process struct {
	name    string
	addr    string // host:port that it serves
	http    string // the version that it serves; "" is h1
	metrics string // URL of its Go runtime's metrics; "" if it has none
	log     string // file of its output
	pid     int
	ready   time.Duration // from its start to its first good answer
	cmd     *exec.Cmd     // nil if somebody else started it
	key     string        // that it is asked with, where it has keys
	ledger  *ledger       // nil if it has none
	end     func()        // ends it, if it was not started by start
}

// launch describes a process to start.
type launch struct {
	name, addr, metrics string
	http                string // the version that it serves; "" is h1
	health              string // URL that answers 200 when it is ready; tcp://ADDR for what speaks no HTTP
	dir                 string
	args                []string
	env                 []string // beside the bench's own
}

// start starts a process and waits until it is ready.
func start(ctx context.Context, l launch) *process {
	p := &process{name: l.name, addr: l.addr, http: l.http, metrics: l.metrics}
	p.log = filepath.Join(l.dir, strings.ReplaceAll(l.name, " ", "-")+"-"+strings.ReplaceAll(l.addr, ":", "-")+".log")
	out := testrig.Must(os.Create(p.log))
	defer out.Close()
	p.cmd = exec.CommandContext(ctx, l.args[0], l.args[1:]...) //nolint:gosec // our own programs
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = l.dir, out, out
	p.cmd.Env = append(os.Environ(), l.env...)
	p.cmd.SysProcAttr = withParent()
	began := time.Now()
	testrig.NoError(p.cmd.Start())
	p.pid = p.cmd.Process.Pid
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: trusting()}}
	for !answers(ctx, client, l.health) {
		if ctx.Err() != nil || time.Since(began) > time.Minute {
			p.stop()
			testrig.NoError(fmt.Errorf("%s: %s did not answer in a minute (%w); its output is %q", l.name, l.health, ctx.Err(), tail(p.log)))
		}
		time.Sleep(500 * time.Microsecond) // start to ready is measured
	}
	p.ready = time.Since(began)
	return p
}

// answers reports whether a URL answers 200, or an address tcp://ADDR accepts connections.
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

// stop ends a process that the bench started. It sends SIGTERM first, because nginx
// would leave its workers behind.
func (p *process) stop() {
	if p.ledger != nil {
		defer p.ledger.db.Close()
	}
	if p.end != nil {
		p.end()
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

// cpu returns the CPU time of a process and its children.
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

// rss returns the resident memory of a process and its children, in bytes.
func (p *process) rss() (float64, error) {
	var sum float64
	for _, pid := range family(p.pid) {
		rss := testrig.ProcessMemory(pid, "VmRSS")
		if rss == 0 {
			return 0, fmt.Errorf("memory of %s (%d) is unknown", p.name, pid)
		}
		sum += rss
	}
	return sum, nil
}

// family returns a process and all its descendants.
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

// runtimeCounts are the allocator statistics of a Go process.
type runtimeCounts struct{ mallocs, bytes, inuse float64 }

// counts reads the statistics; ok is false for a process without metrics.
func (p *process) counts(ctx context.Context) (c runtimeCounts, ok bool) {
	if p.metrics == "" {
		return c, false
	}
	page := testrig.Page(ctx, p.metrics)
	return readCounts(page), page != ""
}

func readCounts(page string) runtimeCounts {
	return runtimeCounts{
		mallocs: testrig.Number(page, "go_memstats_mallocs_total "), bytes: testrig.Number(page, "go_memstats_alloc_bytes_total "),
		inuse: testrig.Number(page, "go_memstats_heap_inuse_bytes ") + testrig.Number(page, "go_memstats_stack_inuse_bytes "),
	}
}
