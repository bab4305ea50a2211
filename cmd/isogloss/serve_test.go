package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestZeroConfiguration starts a gateway with only API keys in the environment. A
// counting proxy checks that it opens no connection at start-up.
func TestZeroConfiguration(t *testing.T) {
	proxy := upstreamtest.New(t)
	env := []string{"OPENAI_API_KEY=sk-1", "HTTPS_PROXY=http://" + proxy.Addr, "HTTP_PROXY=http://" + proxy.Addr}
	for _, c := range []struct {
		name, models string
		env          []string
	}{
		{"one provider", "openai/", nil},
		{"three providers", "openai/ anthropic/ gemini/", []string{"ANTHROPIC_API_KEY=sk-2", "GEMINI_API_KEY=k"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			started := time.Now()
			command(t, t.TempDir(), nil, "version")
			version := time.Since(started)
			opened := proxy.Opened()
			p := serve(t, append(c.env, env...), "--listen", "127.0.0.1:0")
			// A busy machine delays both processes.
			if took := p.live.Sub(p.started); took > time.Second+10*version {
				t.Errorf("it took %s to be live, and %s to print the version", took, version)
			}
			status, body := get(t, p.url+"/live")
			if status != http.StatusOK {
				t.Errorf("/live says %d %s", status, body)
			}
			if status, body = get(t, p.url+"/health"); status != http.StatusOK {
				t.Errorf("/health says %d %s", status, body)
			}
			if n := proxy.Opened() - opened; n != 0 {
				t.Errorf("%d connections were made at the start, want none", n)
			}
			_, list := get(t, p.url+"/v1/models") // the providers cannot be reached: the built-in table has their models
			for _, prefix := range strings.Fields(c.models) {
				if !strings.Contains(list, `"id":"`+prefix) {
					t.Errorf("no model of %s is listed: %s", prefix, list)
				}
			}
			if strings.Contains(list, "*") {
				t.Errorf("a pattern is listed: %s", list)
			}
			onlyLoopback(t, p.url)
			if !strings.Contains(p.log.String(), "no keys are configured, so only this machine is served") {
				t.Error("the log does not say whom it serves")
			}
			if p.out.String() != "" {
				t.Errorf("standard output is not empty: %s", p.out)
			}
		})
	}
}

// onlyLoopback checks that no other address of this machine is open.
func onlyLoopback(t *testing.T, url string) {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.2", "::1"}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			hosts = append(hosts, ip.IP.String())
		}
	}
	for _, host := range hosts {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second)
		if err == nil {
			_ = c.Close()
			t.Errorf("the gateway can be reached at %s", host)
		}
	}
}

// TestDefaultMetricsAddressTaken checks that a gateway starts while the default admin
// address is in use.
func TestDefaultMetricsAddressTaken(t *testing.T) {
	if holder, err := net.Listen("tcp", "127.0.0.1:8081"); err == nil {
		defer holder.Close()
	}
	p := serve(t, []string{"OPENAI_API_KEY=sk-1"}, "--listen", "127.0.0.1:0")
	p.log.WaitFor(t, `"level":"WARN","msg":"the admin port is not served: its default address cannot be used","error":"listen tcp 127.0.0.1:8081: bind: address already in use","hint":"write another as ISOGLOSS_ADMIN_LISTEN"`, 1, p.ended)
	if status, _ := get(t, p.url+"/live"); status != http.StatusOK {
		t.Errorf("/live says %d", status)
	}
}

func TestTakenAddressIsAnError(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	taken := holder.Addr().String()
	r := command(t, t.TempDir(), []string{"OPENAI_API_KEY=sk-1"}, "serve", "--listen", taken)
	want := "isogloss: listen: listen tcp " + taken + ": bind: address already in use; stop what holds the address, or choose another with --listen\n"
	if r.code != 1 || !strings.HasSuffix(r.stderr, want) {
		t.Errorf("exit code %d, %s; want %s", r.code, r.stderr, want)
	}
	r = command(t, t.TempDir(), []string{"OPENAI_API_KEY=sk-1", "ISOGLOSS_ADMIN_LISTEN=" + taken}, "serve", "--listen", "127.0.0.1:0")
	if want = "; stop what holds the address, or choose another with ISOGLOSS_ADMIN_LISTEN\n"; r.code != 1 || !strings.HasSuffix(r.stderr, want) {
		t.Errorf("exit code %d, %s; want %s", r.code, r.stderr, want)
	}
	file := writeFile(t, "isogloss.yaml", fmt.Sprintf(oneUpstream, "http://127.0.0.1:1/v1")+"admin: { listen: "+taken+" }\n")
	r = command(t, t.TempDir(), nil, "serve", "-c", file)
	want = "isogloss: admin.listen: listen tcp " + taken + ": bind: address already in use; stop what holds the address, or choose another with admin.listen\n"
	if r.code != 1 || !strings.HasSuffix(r.stderr, want) {
		t.Errorf("exit code %d, %s; want %s", r.code, r.stderr, want)
	}
}

// TestWaitsForAnEngine starts the gateway without a file and without a key. It serves, and says what it waits
// for unless this machine runs an engine.
func TestWaitsForAnEngine(t *testing.T) {
	p := serve(t, []string{"ISOGLOSS_LISTEN=127.0.0.1:0", "ISOGLOSS_ADMIN_LISTEN=127.0.0.1:0"})
	if status, _ := get(t, p.url+"/v1/models"); status != http.StatusOK {
		t.Errorf("the list of models: %d", status)
	}
	p.signal(t, syscall.SIGTERM)
	p.exit(t)
	if log := p.log.String(); !strings.Contains(log, `"msg":"the gateway waits for an engine: none was found`) && !strings.Contains(log, `"msg":"an engine was found"`) {
		t.Errorf("the log does not say what the gateway waits for: %s", log)
	}
}

// oneUpstream is a configuration for one upstream with a free admin port.
const oneUpstream = `
listen: 127.0.0.1:0
providers: { up: { protocol: openai-chat, base_url: %q } }
models: { fast: { targets: [up/model] } }
`

const withMetrics = oneUpstream + "admin: { listen: 127.0.0.1:0 }\n"

// drainForever is far longer than a test waits: a gateway that drains instead of ending at once fails it.
const drainForever = "shutdown: { drain: 20m }\n"

func TestSignalEndsIdleGateway(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			p := serve(t, nil, "-c", writeFile(t, "isogloss.yaml", fmt.Sprintf(withMetrics+drainForever, "http://127.0.0.1:1/v1")))
			idle := openIdle(t, p.url)
			defer idle.Close()
			p.signal(t, s)
			if code := p.exit(t); code != 0 {
				t.Errorf("the exit code is %d", code)
			}
		})
	}
}

// openIdle returns an idle connection on which one request was served.
func openIdle(t *testing.T, url string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return c
}

const (
	event = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"one"}}]}` + "\n\n"
	last  = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
)

// openStream starts a gateway with one open stream and reads its first event. The
// stream continues when it is released.
func openStream(t *testing.T) (p *process, stream *bufio.Reader, release func()) {
	t.Helper()
	up := upstreamtest.New(t)
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	up.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream()
		c.Chunk(event)
		<-held
		c.Chunk(last)
		c.EndStream()
	})
	p = serve(t, nil, "-c", writeFile(t, "isogloss.yaml", fmt.Sprintf(withMetrics, up.BaseURL())))
	resp, err := http.Post(p.url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"fast","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	stream = bufio.NewReader(resp.Body)
	first := make([]byte, len(event))
	if _, err := io.ReadFull(stream, first); err != nil || string(first) != event {
		t.Fatalf("the stream begins with %q, %v", first, err)
	}
	return p, stream, release
}

func TestSignalDrains(t *testing.T) {
	p, stream, release := openStream(t)
	p.signal(t, syscall.SIGTERM)
	p.log.WaitFor(t, `"msg":"draining"`, 1, p.ended)
	if status, body := get(t, p.url+"/health"); status != http.StatusServiceUnavailable || body != `{"status":"draining"}` {
		t.Errorf("/health says %d %s", status, body)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			break
		}
		_ = c.Close()
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the port is still open")
		}
	}
	release()
	if rest, err := io.ReadAll(stream); err != nil || string(rest) != last {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
}

// TestSecondSignalEndsAtOnce checks that a second signal ends the process at once, as
// pressing Ctrl-C twice does.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	p, _, _ := openStream(t)
	p.signal(t, syscall.SIGINT)
	p.log.WaitFor(t, `"msg":"draining"`, 1, p.ended)
	p.signal(t, syscall.SIGINT)
	if code := p.exit(t); code != -1 {
		t.Errorf("the exit code is %d, want an end by the signal", code)
	}
}

// TestReload checks that the built binary, with its default timing, loads a changed file.
func TestReload(t *testing.T) {
	up := upstreamtest.New(t)
	file := writeFile(t, "isogloss.yaml", fmt.Sprintf(withMetrics, up.BaseURL()))
	p := serve(t, nil, "-c", file)
	if err := os.WriteFile(file, []byte(fmt.Sprintf(withMetrics, up.BaseURL())+"modles: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	line := p.log.WaitFor(t, "the changed configuration is refused and the old one kept", 1, p.ended)
	if !strings.Contains(line, file+`:6: modles: is not a known key; did you mean \"models\"?`) {
		t.Errorf("the log does not say what to do: %s", line)
	}
	next := file + ".next"
	if err := os.WriteFile(next, []byte(strings.Replace(fmt.Sprintf(withMetrics, up.BaseURL()), "fast:", "faster:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
	p.log.WaitFor(t, "configuration loaded", 1, p.ended)
	if _, list := get(t, p.url+"/v1/models"); !strings.Contains(list, `"id":"faster"`) || strings.Contains(list, `"id":"fast"`) {
		t.Errorf("the models are %s", list)
	}
	_, text := get(t, p.metricsURL)
	for _, want := range []string{`isogloss_config_reloads_total{result="ok"} 1`, `isogloss_config_reloads_total{result="error"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
