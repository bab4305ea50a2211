package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const firstEvent = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"one"}}]}` + "\n\n"

const lastEvents = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

// hold makes an upstream send a stream that pauses until release is called, or until the
// test ends.
func hold(t *testing.T, up *upstreamtest.Server) (released <-chan struct{}, release func()) {
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	up.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream()
		c.Chunk(firstEvent)
		<-held
		c.Chunk(lastEvents)
		c.EndStream()
	})
	return held, release
}

// openStream sends a streaming request and reads its first event.
func openStream(t *testing.T, g *gateway) (*http.Response, *bufio.Reader) {
	t.Helper()
	resp, err := g.ask("fast", true)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(resp.Body)
	first := make([]byte, len(firstEvent))
	if _, err := io.ReadFull(r, first); err != nil || string(first) != firstEvent {
		t.Fatalf("the stream begins with %q, %v", first, err)
	}
	return resp, r
}

// refusesConnections waits until the address refuses connections.
func refusesConnections(t *testing.T, address string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = c.Close()
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the port is still open")
		}
	}
}

func TestDrainLetsStreamsFinish(t *testing.T) {
	up := upstreamtest.New(t)
	_, release := hold(t, up)
	p := quick()
	p.notice = time.Second
	g := start(t, numbered(up, 1), p)
	resp, r := openStream(t, g)
	defer resp.Body.Close()

	g.stop()
	g.log.waitFor(t, `"msg":"draining"`, 1)
	health, err := g.client.Get(g.url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(health.Body)
	_ = health.Body.Close()
	if health.StatusCode != http.StatusServiceUnavailable || string(said) != `{"status":"draining"}` {
		t.Errorf("/health returns %d %s", health.StatusCode, said)
	}
	if !health.Close {
		t.Error("responses lack Connection: close")
	}
	refusesConnections(t, strings.TrimPrefix(g.url, "http://"))
	if !strings.Contains(g.metrics(t), `isogloss_requests_in_flight{model="fast",provider="up"} 1`) {
		t.Error("the metrics are gone, or do not show the stream that is open")
	}
	release()
	rest, err := io.ReadAll(r)
	if err != nil || string(rest) != lastEvents {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
	g.wait(t)
}

func TestDrainTimeoutEndsRequestsWithAnError(t *testing.T) {
	up := upstreamtest.New(t)
	released, _ := hold(t, up)
	p := quick()
	p.drain = 100 * time.Millisecond
	g := start(t, numbered(up, 1), p)
	resp, r := openStream(t, g)
	defer resp.Body.Close()

	up.Answer(func(*upstreamtest.Conn) { <-released }) // never responds
	type answer struct {
		status int
		retry  string
		body   string
	}
	waiting := make(chan answer, 1)
	go func() {
		resp, err := g.ask("fast", false)
		if err != nil {
			waiting <- answer{body: err.Error()}
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		waiting <- answer{resp.StatusCode, resp.Header.Get("Retry-After"), string(body)}
	}()
	waitForRequests(t, up, 2)

	g.stop()
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	if !strings.HasPrefix(string(rest), `data: {"error":{`) || !strings.Contains(string(rest), `"shutting_down"`) || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream ends with %q", rest)
	}
	if got := <-waiting; got.status != http.StatusServiceUnavailable || got.retry != "1" || !strings.Contains(got.body, `"shutting_down"`) {
		t.Errorf("a request without a response got %+v", got)
	}
	g.wait(t)
}

// waitForRequests waits until the upstream has received n requests.
func waitForRequests(t *testing.T, up *upstreamtest.Server, n int) {
	t.Helper()
	testrig.Eventually(t, fmt.Sprintf("the upstream is sent %d requests", n), func() bool { return len(up.Requests()) >= n })
}

// TestRequestsOnOpenConnectionsAreServedDuringTheNotice checks that a client that reuses
// one connection loses no request while the gateway announces its shutdown.
func TestRequestsOnOpenConnectionsAreServedDuringTheNotice(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	p := quick()
	p.notice = time.Second
	g := start(t, numbered(up, 1), p)
	for i := range 3 {
		if i == 1 {
			g.stop()
			g.log.waitFor(t, `"msg":"draining"`, 1)
		}
		resp, err := g.ask("fast", false)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Close != (i > 0) {
			t.Errorf("request %d: status %d, connection to be closed %t", i, resp.StatusCode, resp.Close)
		}
	}
}

func TestTakenAddresses(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	taken := holder.Addr().String()
	up := upstreamtest.New(t)
	for _, c := range []struct{ name, old, with, want string }{
		{"data", "listen: 127.0.0.1:0\nadmin", "listen: " + taken + "\nadmin", "listen: listen tcp " + taken + ": bind: address already in use; stop what holds the address, or choose another with --listen"},
		{"admin", "admin: { listen: 127.0.0.1:0 }", "admin: { listen: " + taken + " }", "admin.listen: listen tcp " + taken + ": bind: address already in use; stop what holds the address, or choose another with admin.listen"},
		{"no such address", "listen: 127.0.0.1:0\nadmin", "listen: 192.0.2.77:0\nkeys: [a-client-key-of-some-length]\nadmin", "choose an address of this machine with --listen"},
	} {
		g := &gateway{file: t.TempDir() + "/isogloss.yaml"}
		g.write(t, strings.Replace(numbered(up, 1), c.old, c.with, 1))
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := Run(ctx, Options{Config: g.file, Env: noEnvironment, Log: io.Discard, pace: quick()})
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %s", c.name, err, c.want)
		}
	}
}

// TestPagesOnOtherPorts checks that a web page can use neither the admin port nor a
// metrics port of this machine.
func TestPagesOnOtherPorts(t *testing.T) {
	up := upstreamtest.New(t)
	admin := start(t, numbered(up, 1), quick())
	metrics := start(t, numbered(up, 1)+"metrics: { listen: 127.0.0.1:0 }\n", quick())
	for _, url := range []string{admin.metricsURL, strings.TrimSuffix(admin.metricsURL, "/metrics") + modelsPath, metrics.metricsURL} {
		for _, tt := range []struct {
			host, header, value string
			want                int
		}{
			{"", "", "", http.StatusOK},
			{"localhost:1", "", "", http.StatusOK},
			{"rebound.example", "", "", http.StatusForbidden},
			{"", "Origin", "https://evil.example", http.StatusForbidden},
			{"", "Sec-Fetch-Site", "cross-site", http.StatusForbidden},
			{"", "Sec-Fetch-Site", "none", http.StatusOK},
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tt.host
			if tt.header != "" {
				req.Header.Set(tt.header, tt.value)
			}
			resp, err := admin.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != tt.want {
				t.Errorf("%s %+v: %d", url, tt, resp.StatusCode)
			}
		}
	}
}
