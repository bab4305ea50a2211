package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// setup is a gateway's configuration as the board writes it.
type setup struct {
	top       []string // lines of the top level
	providers []string
	models    []string
	env       []string // for the process
}

// provider adds a provider and returns its name.
func (s *setup) provider(name string, d dialect, url string, more ...string) string {
	parts := append([]string{"protocol: " + string(d), fmt.Sprintf("base_url: %q", url), "api_key: sk-chaos"}, more...)
	s.providers = append(s.providers, "  "+name+": { "+strings.Join(parts, ", ")+" }")
	return name
}

// family adds all models of a prefix, which a provider is asked for by their names.
func (s *setup) family(prefix, provider string) {
	s.models = append(s.models, fmt.Sprintf("  %q: { targets: [%q] }", prefix+"*", provider+"/"+prefix+"*"))
}

// model adds a model whose targets are the providers, in order.
func (s *setup) model(name string, targets []string, more ...string) {
	list := make([]string, len(targets))
	for i, t := range targets {
		list[i] = t + "/up"
	}
	parts := append([]string{"targets: [" + strings.Join(list, ", ") + "]"}, more...)
	s.models = append(s.models, "  "+name+": { "+strings.Join(parts, ", ")+" }")
}

func (s *setup) yaml() string {
	lines := append([]string{"listen: 127.0.0.1:0", "admin: { listen: 127.0.0.1:0 }", "log: { level: warn }"}, s.top...)
	lines = append(append(lines, "providers:"), s.providers...)
	lines = append(append(lines, "models:"), s.models...)
	return strings.Join(lines, "\n") + "\n"
}

// gateway is a running process of the binary.
type gateway struct {
	url, metrics string
	cmd          *exec.Cmd
	client       *http.Client
	dir          string
	ended        chan error
	log          *tail
}

// tail keeps the last of a log.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, line...)
	if over := len(t.text) - 16<<10; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// start runs the binary on a configuration and waits until it listens.
func start(ctx context.Context, bin string, s *setup) (*gateway, error) {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "isogloss.yaml")
	// The line that names the addresses is of level info.
	text := strings.Replace(s.yaml(), "log: { level: warn }\n", "", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, bin, "serve", "-c", file)
	cmd.Env = append(os.Environ(), s.env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &gateway{cmd: cmd, dir: dir, ended: make(chan error, 1), log: &tail{}, client: newClient()}
	said := make(chan bool, 1)
	go g.follow(stderr, said)
	select {
	case <-said:
		return g, nil
	case err := <-g.ended:
		return nil, fmt.Errorf("the gateway did not start: %w\n%s", err, clip(g.log.String(), 2000))
	case <-time.After(20 * time.Second):
		g.kill()
		return nil, fmt.Errorf("the gateway did not say where it listens\n%s", clip(g.log.String(), 2000))
	}
}

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000, MaxIdleConns: 4000}}
}

// follow reads the log to its end, and then waits for the process.
func (g *gateway) follow(log io.Reader, said chan<- bool) {
	r := bufio.NewReaderSize(log, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if g.url == "" && bytes.Contains(line, []byte(`"listening"`)) {
			var at struct{ URL, Metrics string }
			if json.Unmarshal(line, &at) == nil {
				g.url, g.metrics = at.URL, at.Metrics
				said <- true
			}
		} else if !bytes.Contains(line, []byte(`"level":"INFO"`)) {
			g.log.add(line)
		}
		if err != nil {
			break
		}
	}
	g.ended <- g.cmd.Wait()
}

// stop ends the process as an operator does, and says how long that took.
func (g *gateway) stop() (time.Duration, error) {
	defer func() { _ = os.RemoveAll(g.dir) }() // a temporary folder
	g.client.CloseIdleConnections()
	began := time.Now()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case err := <-g.ended:
		return time.Since(began), err
	case <-time.After(40 * time.Second):
		g.kill()
		return time.Since(began), errors.New("the gateway did not end")
	}
}

func (g *gateway) kill() { _ = g.cmd.Process.Kill() } // it may have ended by itself

// alive reports whether the process still runs.
func (g *gateway) alive() error {
	select {
	case err := <-g.ended:
		g.ended <- err
		return fmt.Errorf("the gateway has ended: %w\n%s", err, clip(g.log.String(), 4000))
	default:
		return nil
	}
}

// ask sends a request and reads the answer to its end.
func (g *gateway) ask(ctx context.Context, d dialect, model string, stream bool, headers ...string) heard {
	h, err := g.open(ctx, d, model, stream, headers...)
	if err != nil {
		return heard{broken: err}
	}
	defer h.Body.Close()
	body, err := io.ReadAll(io.LimitReader(h.Body, 8<<20))
	return heard{status: h.StatusCode, header: h.Header, body: body, broken: err}
}

// open sends a request and leaves the answer's body to be read.
func (g *gateway) open(ctx context.Context, d dialect, model string, stream bool, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+d.path(model, stream), strings.NewReader(d.ask(model, stream)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", jsonMedia)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return g.client.Do(req)
}

// vitals are what a process must not leak.
type vitals struct {
	rss         float64 // bytes
	live        float64 // bytes that the last collection of garbage has kept, about
	goroutines  float64
	descriptors float64
	cpu         float64 // seconds
}

// vitals reads the metrics page and /proc.
func (g *gateway) vitals(ctx context.Context) (vitals, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.metrics, nil)
	if err != nil {
		return vitals{}, err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return vitals{}, err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return vitals{}, err
	}
	v := vitals{goroutines: metric(page, "go_goroutines"), descriptors: metric(page, "process_open_fds"),
		live: metric(page, "go_memstats_next_gc_bytes") / 2, rss: metric(page, "process_resident_memory_bytes"), cpu: metric(page, "process_cpu_seconds_total")}
	if v.goroutines == 0 || v.descriptors == 0 || v.rss == 0 {
		return v, errors.New("the metrics page lacks go_goroutines, process_open_fds or process_resident_memory_bytes")
	}
	return v, nil
}

// peak is the most memory that the process has had, in bytes.
func (g *gateway) peak() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, err := strconv.ParseFloat(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 64)
			if err == nil {
				return kib * 1024
			}
		}
	}
	return 0
}

func metric(page []byte, name string) float64 {
	for line := range bytes.Lines(page) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			f, err := strconv.ParseFloat(string(bytes.TrimSpace(rest)), 64)
			if err == nil {
				return f
			}
		}
	}
	return 0
}
