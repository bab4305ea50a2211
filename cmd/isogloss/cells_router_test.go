package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// cellsConfig is what an operator changes in deploy/haproxy.
type cellsConfig struct {
	eu, us        string // addresses
	backends      string // more cells
	keys, issuers string // lines of the maps
	changes       []string
}

// quick are the intervals of health checks in tests.
var quick = []string{"inter 2s", "inter 50ms", "timeout check 2s", "timeout check 500ms"}

// cellRouter is HAProxy with deploy/haproxy/cells.cfg. It is not skipped if HAProxy is missing: make stores installs it.
type cellRouter struct {
	addr, metrics, dir string
	process            *exec.Cmd
	ended              chan error
	client             *http.Client
}

// startCells starts a router.
func startCells(t *testing.T, c cellsConfig) *cellRouter {
	t.Helper()
	addresses, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	r := &cellRouter{addr: addresses[0], metrics: addresses[1], dir: t.TempDir(), ended: make(chan error, 1), client: &http.Client{Transport: &http.Transport{}}}
	r.configure(t, c)
	r.write(t, "log.cfg", "global\n  log stdout format raw daemon\n")
	log, err := os.Create(filepath.Join(r.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	r.process = exec.Command("haproxy", "-W", "-f", filepath.Join(r.dir, "log.cfg"), "-f", filepath.Join(r.dir, "cells.cfg"))
	r.process.Stdout, r.process.Stderr = log, log
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.process.Start(); err != nil {
		t.Fatal(err, "; make stores installs HAProxy")
	}
	go func() { r.ended <- r.process.Wait() }()
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		_ = syscall.Kill(-r.process.Process.Pid, syscall.SIGKILL) // it may have ended
		<-r.ended
		_ = log.Close()
		if t.Failed() {
			t.Logf("HAProxy's log:\n%s", r.log(t))
		}
	})
	testrig.Eventually(t, "the router is ready", func() bool {
		resp, err := r.client.Get("http://" + r.addr + "/ready")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return r
}

// configure writes the files of deploy/haproxy with an operator's changes.
func (r *cellRouter) configure(t *testing.T, c cellsConfig) {
	t.Helper()
	nobody := refusing(t)
	text := read(t, filepath.Join(root, "deploy/haproxy/cells.cfg"))
	change := func(old, with string) {
		if !strings.Contains(text, old) {
			t.Fatalf("cells.cfg has no %q", old)
		}
		text = strings.ReplaceAll(text, old, with)
	}
	for i := 0; i < len(c.changes); i += 2 {
		change(c.changes[i], c.changes[i+1])
	}
	change("0.0.0.0:8080", r.addr)
	change("127.0.0.1:8404", r.metrics)
	change("10.1.0.1:8080", cmp.Or(c.eu, nobody))
	change("  server eu2 10.1.0.2:8080\n", "")
	change("10.2.0.1:8080", cmp.Or(c.us, nobody))
	r.write(t, "cells.cfg", text+c.backends)
	r.write(t, "keys.map", read(t, filepath.Join(root, "deploy/haproxy/keys.map"))+c.keys)
	r.write(t, "issuers.map", read(t, filepath.Join(root, "deploy/haproxy/issuers.map"))+c.issuers)
}

func (r *cellRouter) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *cellRouter) log(t *testing.T) string {
	t.Helper()
	return read(t, filepath.Join(r.dir, "log"))
}

// post sends a request with headers, given as names and values, and returns the response and its body.
func (r *cellRouter) post(t *testing.T, path string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+r.addr+path, body)
	if err != nil {
		t.Fatal(err)
	}
	// An empty list sends no header, but net/http then sends the request again if HAProxy, which reloads, has closed the
	// idle connection.
	req.Header["X-Idempotency-Key"] = []string{}
	for i := 0; i < len(headers); i += 2 {
		req.Header[headers[i]] = append(req.Header[headers[i]], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		text = append(text, " broken"...)
	}
	return resp, string(text)
}

// page returns the metrics.
func (r *cellRouter) page(t *testing.T) string {
	t.Helper()
	resp, err := r.client.Get("http://" + r.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

// fakeCell is a cell that says its name and remembers the requests that it got.
type fakeCell struct {
	addr string
	next chan struct{} // a stream waits for it
	left chan struct{} // gets a value when the client of a stream has left

	mu      sync.Mutex
	reached []string // URIs, with the word of the key that a gateway would read
}

// newCell starts a cell. A path of /stream sends an event, waits for next and sends another; /hash responds with the
// hash of the body; /break closes the connection within a response, /close before it.
func newCell(t *testing.T, name string) *fakeCell {
	t.Helper()
	c := &fakeCell{next: make(chan struct{}), left: make(chan struct{}, 10)}
	s := httptest.NewUnstartedServer(c.handler(name))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.Start()
	t.Cleanup(s.Close)
	c.addr = s.Listener.Addr().String()
	return c
}

func (c *fakeCell) handler(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ready" {
			return
		}
		c.mu.Lock()
		c.reached = append(c.reached, r.RequestURI)
		c.mu.Unlock()
		w.Header().Set("Cell", name)
		w.Header().Set("Word", word(agents.Key(r)))
		switch r.URL.Path {
		case "/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-c.next:
			case <-r.Context().Done():
				c.left <- struct{}{}
				return
			}
			_, _ = io.WriteString(w, "data: 2\n\n")
		case "/hash":
			h := sha256.New()
			n, _ := io.Copy(h, r.Body)
			_, _ = fmt.Fprintf(w, "%d %x", n, h.Sum(nil))
		case "/break":
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/close":
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		default:
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %s %s %d", name, r.RequestURI, strings.Join(r.Header.Values("X-Forwarded-For"), ","), len(body))
		}
	})
}

// requests returns the requests since the last call.
func (c *fakeCell) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.reached
	c.reached = nil
	return all
}

// word returns the cell that is in the text of a key.
func word(key string) string {
	if _, _, ok := access.Parse(key); !ok {
		return ""
	}
	return strings.Split(key, "_")[1]
}

// refusing returns an address that nobody listens on.
func refusing(t *testing.T) string {
	t.Helper()
	address, release, err := testrig.UnusedPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release() })
	return address
}

func mint(env string) (id, key string) {
	id, _, text := access.Mint(env)
	return id, text.Reveal()
}

func bearer(env string) []string {
	_, key := mint(env)
	return []string{"Authorization", "Bearer " + key}
}

// unsigned returns an unsigned token with a payload.
func unsigned(payload string) string {
	return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".x"
}

// TestCellOfARequest checks by what the router finds a cell.
func TestCellOfARequest(t *testing.T) {
	eu, us := newCell(t, "eu"), newCell(t, "us")
	movedID, moved := mint("eu")
	_, inUS := mint("us")
	_, live := mint("live")
	lost, lostKey := mint("eu")
	c := cellsConfig{eu: eu.addr, us: us.addr, changes: quick, keys: movedID + " us\n" + lost + " nowhere\n", issuers: "https://idp.example/us us\n"}
	r := startCells(t, c)
	for _, c := range []struct {
		name, want string
		headers    []string
	}{
		{"cell in the key", "us", []string{"Authorization", "Bearer " + inUS}},
		{"another spelling of Bearer", "us", []string{"Authorization", "bEARER   " + inUS}},
		{"x-api-key", "us", []string{"X-Api-Key", inUS}},
		{"x-goog-api-key", "us", []string{"X-Goog-Api-Key", inUS}},
		{"api-key", "us", []string{"Api-Key", inUS}},
		{"empty x-api-key", "us", []string{"X-Api-Key", "", "Authorization", "Bearer " + inUS}},
		{"Basic", "", []string{"Authorization", "Basic " + inUS}},
		{"Basic beside a key", "us", []string{"Authorization", "Basic Zm9vOmJhcg==", "X-Goog-Api-Key", inUS}},
		{"key that was moved", "us", []string{"Authorization", "Bearer " + moved}},
		{"key without a cell", "", []string{"Authorization", "Bearer " + live}},
		{"key moved to a cell that is not here", "", []string{"Authorization", "Bearer " + lostKey}},
		{"issuer", "us", []string{"Authorization", unsigned(`{"sub":"a","iss":"https://idp.example/us"}`)}},
		{"issuer as PHP writes it", "us", []string{"X-Api-Key", unsigned(`{"iss":"https:\/\/idp.example\/us"}`)[7:]}},
		{"issuer deep in a long token", "us", []string{"Authorization", unsigned(`{"groups":"` + strings.Repeat("g", 30<<10) + `","iss":"https://idp.example/us"}`)}},
		{"another issuer", "", []string{"Authorization", unsigned(`{"iss":"https://other"}`)}},
		{"issuer within another member", "", []string{"Authorization", unsigned(`{"a":{"iss":"https://idp.example/us"}}`)}},
		{"issuer that is a list", "", []string{"Authorization", unsigned(`{"iss":["https://idp.example/us"]}`)}},
		{"no token", "", []string{"Authorization", "Bearer a.!.c"}},
		{"no key", "", nil},
	} {
		resp, body := r.post(t, "/v1/x", nil, c.headers...)
		if got := resp.Header.Get("Cell"); got != c.want {
			t.Errorf("%s: cell %q, want %q: %s", c.name, got, c.want, body)
		}
		if c.want == "" && (resp.StatusCode != http.StatusMisdirectedRequest || !strings.Contains(body, `"code":"cell_unknown"`) || resp.Header.Get("Content-Type") != "application/json") {
			t.Errorf("%s: %d %s", c.name, resp.StatusCode, body)
		}
	}
	if resp, _ := r.post(t, "/v1/x?a=b&key="+inUS, nil); resp.Header.Get("Cell") != "us" {
		t.Errorf("with the key in the query: %v", resp.Header)
	}
	if _, body := r.post(t, "/v1/x%2Fy?a=b", strings.NewReader("{}"), append(bearer("us"), "X-Forwarded-For", "192.0.2.1")...); body != "us /v1/x%2Fy?a=b 192.0.2.1,127.0.0.1 2" {
		t.Errorf("the cell received %q", body)
	}
	for _, want := range []string{`haproxy_backend_http_responses_total{proxy="cell_us",code="2xx"}`, `haproxy_server_status{proxy="cell_us",server="us1",state="UP"} 1`} {
		if !strings.Contains(r.page(t), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if strings.Contains(r.log(t), inUS) {
		t.Error("the log has a key")
	}
	c.changes = append(slices.Clone(quick), "default_backend no_cell", "default_backend cell_eu")
	r.reload(t, c, "the default is used", func() bool {
		resp, _ := r.post(t, "/v1/x", nil, "Authorization", "Bearer "+live)
		return resp.Header.Get("Cell") == "eu"
	})
}

// TestRouterReadsKeysAsGatewaysDo sends keys of different cells in every combination of headers: the router has to take
// the one that a gateway takes.
func TestRouterReadsKeysAsGatewaysDo(t *testing.T) {
	places := []struct{ header, scheme, cell string }{{"X-Api-Key", "", "a"}, {"Authorization", "Bearer ", "b"}, {"X-Goog-Api-Key", "", "c"}, {"Api-Key", "", "d"}}
	config, seen := cellsConfig{}, newCell(t, "")
	for _, p := range places {
		config.backends += fmt.Sprintf("\nbackend cell_%s from cells\n  server one %s\n  http-response set-header Routed %s\n", p.cell, seen.addr, p.cell)
	}
	r := startCells(t, config)
	for set := 1; set < 1<<len(places); set++ {
		var headers []string
		for i, p := range places {
			if set&(1<<i) != 0 {
				_, key := mint(p.cell)
				headers = append(headers, p.header, p.scheme+key)
			}
		}
		if resp, body := r.post(t, "/v1/x", nil, headers...); resp.Header.Get("Routed") != resp.Header.Get("Word") || resp.Header.Get("Word") == "" {
			t.Errorf("%v: routed to %q, and the gateway reads a key of %q: %s", headers, resp.Header.Get("Routed"), resp.Header.Get("Word"), body)
		}
	}
}

// TestRouterStreams checks that an event arrives before the next one is sent, that silence within a stream may be longer
// than the limits of the client's side, that a broken stream is not taken for a complete one, and that a client that
// leaves ends the request at the cell.
func TestRouterStreams(t *testing.T) {
	eu := newCell(t, "eu")
	r := startCells(t, cellsConfig{eu: eu.addr, changes: append(slices.Clone(quick), "timeout client 1m", "timeout client 100ms", "timeout http-request 10s", "timeout http-request 100ms")})
	open := func(ctx context.Context) *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.addr+"/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, key := mint("eu")
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	resp := open(t.Context())
	lines := bufio.NewReader(resp.Body)
	if first, err := lines.ReadString('\n'); err != nil || first != "data: 1\n" {
		t.Fatal(first, err)
	}
	testrig.Pause(t.Context(), 500*time.Millisecond) // the silence
	eu.next <- struct{}{}
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "\ndata: 2\n\n" {
		t.Fatal(string(rest), err)
	}
	_ = resp.Body.Close()
	if _, body := r.post(t, "/break", nil, bearer("eu")...); body != "data: 1\n\n broken" {
		t.Errorf("a stream that broke off ends as %q", body)
	}
	ctx, leave := context.WithCancel(t.Context())
	resp = open(ctx)
	leave()
	_ = resp.Body.Close()
	select {
	case <-eu.left:
	case <-time.After(patience):
		t.Error("the cell does not notice that the client has left")
	}
}

// TestBigBody sends a body that is larger than all buffers, also after a connection that failed.
func TestBigBody(t *testing.T) {
	eu := newCell(t, "eu")
	r := startCells(t, cellsConfig{eu: eu.addr}) // nobody is cell us
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	want := fmt.Sprintf("%d %x", len(big), sha256.Sum256(big))
	for _, env := range []string{"eu", "us"} {
		if resp, body := r.post(t, "/hash", bytes.NewReader(big), bearer(env)...); resp.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %d %.80s", env, resp.StatusCode, body)
		}
	}
}

// TestFallback checks that a cell that refuses connections is replaced by its fallback from the first request on, that
// a cell without a fallback is not, and that a request that was sent is not repeated.
func TestFallback(t *testing.T) {
	eu, breaks := newCell(t, "eu"), newCell(t, "breaks")
	backends := fmt.Sprintf("\nbackend cell_alone from cells\n  server one %s\n\nbackend cell_breaks from cells\n  server one %s\n  server eu1 %s backup\n", refusing(t), breaks.addr, eu.addr)
	r := startCells(t, cellsConfig{eu: eu.addr, backends: backends, changes: []string{"inter 2s", "inter 1h"}}) // only requests notice
	for range 5 {
		if resp, body := r.post(t, "/v1/x", strings.NewReader("{}"), bearer("us")...); resp.Header.Get("Cell") != "eu" {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if resp, body := r.post(t, "/v1/x", strings.NewReader("{}"), bearer("alone")...); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, `"code":"cell_down"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	eu.requests()
	r.client.CloseIdleConnections()
	if resp, body := r.post(t, "/close", strings.NewReader("{}"), bearer("breaks")...); resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "may have been served") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := r.post(t, "/v1/x", strings.NewReader("{}"), bearer("breaks")...); resp.Header.Get("Cell") != "breaks" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	req, _ := http.NewRequest(http.MethodPost, "http://"+r.addr+"/close", strings.NewReader("{}")) // on the connection of the last one, which HAProxy may close too
	req.Header.Set("Authorization", bearer("breaks")[1])
	if resp, err := r.client.Do(req); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadGateway {
			t.Errorf("on a connection that was used: %d", resp.StatusCode)
		}
	}
	if got := eu.requests(); len(got) > 0 {
		t.Errorf("requests that were sent are sent again: %v", got)
	}
	if got := breaks.requests(); len(got) != 3 {
		t.Errorf("the cell that breaks off got %v", got)
	}
	if page := r.page(t); !strings.Contains(page, `haproxy_server_status{proxy="cell_us",server="us1",state="DOWN"} 1`) {
		t.Error("the metrics do not have the cell that is down")
	}
}

// reload lets the router load its files again, until they show.
func (r *cellRouter) reload(t *testing.T, c cellsConfig, what string, met func() bool) {
	t.Helper()
	r.configure(t, c)
	r.signal(t, syscall.SIGUSR2, what, met)
}

// signal sends a signal until it shows: HAProxy's first process starts itself again after each load, and loses those
// that come meanwhile.
func (r *cellRouter) signal(t *testing.T, sig os.Signal, what string, met func() bool) {
	t.Helper()
	testrig.Eventually(t, what, func() bool {
		_ = r.process.Process.Signal(sig) // it may have ended
		return testrig.Until(t.Context(), 5*time.Second, "", met) == nil
	})
}

// TestRouterReloads checks that changed files are used, that an invalid one is not, and that an open stream continues.
func TestRouterReloads(t *testing.T) {
	eu, us := newCell(t, "eu"), newCell(t, "us")
	id, key := mint("eu")
	c := cellsConfig{eu: eu.addr, us: us.addr, changes: quick}
	r := startCells(t, c)
	_, streamKey := mint("eu")
	req, _ := http.NewRequest(http.MethodGet, "http://"+r.addr+"/stream", nil)
	req.Header.Set("X-Api-Key", streamKey)
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	invalid := c
	invalid.backends, invalid.keys = "nonsense\n", id+" us\n"
	r.reload(t, invalid, "the file is refused", func() bool {
		return strings.Contains(r.log(t), "nonsense") && strings.Contains(r.log(t), "Loading failure")
	})
	if resp, body := r.post(t, "/v1/x", nil, "X-Api-Key", key); resp.Header.Get("Cell") != "eu" {
		t.Errorf("after an invalid file: %d %s", resp.StatusCode, body)
	}
	c.keys = invalid.keys
	r.reload(t, c, "the files are used", func() bool {
		resp, _ := r.post(t, "/v1/x", nil, "X-Api-Key", key)
		return resp.Header.Get("Cell") == "us"
	})
	eu.next <- struct{}{}
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(text), "data: 2\n\n") {
		t.Errorf("the stream ended as %q, %v", text, err)
	}
}

// TestRouterDrains checks that an open stream ends before the router does, and that new connections are refused.
func TestRouterDrains(t *testing.T) {
	eu := newCell(t, "eu")
	r := startCells(t, cellsConfig{eu: eu.addr, changes: quick})
	_, key := mint("eu")
	req, _ := http.NewRequest(http.MethodGet, "http://"+r.addr+"/stream", nil)
	req.Header.Set("X-Api-Key", key)
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	r.signal(t, syscall.SIGUSR1, "the port is closed", func() bool {
		c, err := net.Dial("tcp", r.addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	eu.next <- struct{}{}
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(text), "data: 2\n\n") {
		t.Errorf("the stream ended as %q, %v", text, err)
	}
	r.client.CloseIdleConnections() // else it waits for another request of the client
	select {
	case err := <-r.ended:
		r.ended <- err // for the cleanup
	case <-time.After(patience):
		t.Error("the router does not end")
	}
}

// TestUpgrade checks that a connection that changes its protocol, such as a WebSocket, passes.
func TestUpgrade(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ready" {
			return
		}
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
		_ = buf.Flush()
		line, _ := buf.ReadString('\n')
		_, _ = buf.WriteString("echo " + line)
		_ = buf.Flush()
	}))
	t.Cleanup(s.Close)
	r := startCells(t, cellsConfig{eu: s.Listener.Addr().String()})
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, key := mint("eu")
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", key)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if text, err := in.ReadString('\n'); err != nil || text != "echo hello\n" {
		t.Errorf("%q %v", text, err)
	}
}

// TestRouterWithTLS uses the two lines for TLS of the file, on the side of clients with HTTP/2.
func TestRouterWithTLS(t *testing.T) {
	seen := &fakeCell{}
	s := httptest.NewUnstartedServer(seen.handler("us"))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	t.Cleanup(s.Close)
	files := t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.pem": certificate, "server.pem": append(slices.Clone(certificate), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)} {
		if err := os.WriteFile(filepath.Join(files, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust := x509.NewCertPool()
	trust.AddCert(s.Certificate())
	for name, want := range map[string]int{"example.com": http.StatusOK, "other.example": http.StatusServiceUnavailable} { // the certificate of the cell is for the first
		public, err := testrig.Address()
		if err != nil {
			t.Fatal(err)
		}
		startCells(t, cellsConfig{changes: []string{"# bind 0.0.0.0:8443 ssl crt /etc/haproxy/server.pem", "bind " + public + " ssl crt " + files + "/server.pem",
			"  server us1 10.2.0.1:8080\n  # server us1 us.example.com:443", "  # 10.2.0.1:8080\n  server us1 " + s.Listener.Addr().String(),
			"/etc/ssl/certs/ca-certificates.crt", files + "/ca.pem", "us.example.com", name}})
		client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: trust, ServerName: "example.com"}}}
		_, key := mint("us")
		req, _ := http.NewRequest(http.MethodPost, "https://"+public+"/v1/x", strings.NewReader("{}"))
		req.Header.Set("X-Api-Key", key)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		client.CloseIdleConnections()
		if resp.ProtoMajor != 2 || resp.StatusCode != want {
			t.Errorf("a cell that has to be %s: %s %d, want %d", name, resp.Proto, resp.StatusCode, want)
		}
	}
}

// TestCellsPage checks the configurations on docs/cells.md, and the file as it is.
func TestCellsPage(t *testing.T) {
	file := filepath.Join(root, "deploy/haproxy/cells.cfg")
	text, found := read(t, file), 0
	for _, b := range fences(read(t, filepath.Join(root, "docs/cells.md"))) {
		switch b.info {
		case "yaml":
			found++
			gateway := b.text + "store: sqlite\nproviders: { p: { protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\" } }\nmodels: { m: { targets: [p/m] } }\n"
			checkConfiguration(t, writeFile(t, "isogloss.yaml", gateway), gateway)
		case "haproxy":
			found++
			for line := range strings.Lines(b.text) {
				if !strings.Contains(text, line) {
					t.Errorf("cells.cfg has no %q", line)
				}
			}
		}
	}
	if found != 3 {
		t.Errorf("the page has %d configurations, want 3", found)
	}
	if out, err := exec.Command("haproxy", "-c", "-f", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
