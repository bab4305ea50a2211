package cell

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCell is a cell that says its name. A path of /stream sends an event, waits for the test and
// sends another; /hash responds with the hash of the body; /break closes the connection.
func newCell(t testing.TB, name string, next <-chan struct{}) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cell", name)
		switch r.URL.Path {
		case "/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
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
		default:
			_, _ = fmt.Fprintf(w, "%s %s %s", name, r.URL.RequestURI(), r.Header.Get("X-Forwarded-For"))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// refusing returns a URL that nobody listens on.
func refusing(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// running is a router.
type running struct {
	url, metrics, file string
	log                *bytes.Buffer
	stop               context.CancelFunc
	ended              chan error
	client             *http.Client
}

func start(t testing.TB, config string) *running {
	t.Helper()
	r := &running{file: filepath.Join(t.TempDir(), "cells.yaml"), log: &bytes.Buffer{}, ended: make(chan error, 1), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	r.write(t, config)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	open := make(chan [2]net.Addr, 1)
	go func() {
		r.ended <- Run(ctx, Options{File: r.file, Logger: slog.New(slog.DiscardHandler), Listening: func(a, b net.Addr) { open <- [2]net.Addr{a, b} }})
	}()
	select {
	case a := <-open:
		r.url, r.metrics = "http://"+a[0].String(), "http://"+a[1].String()
	case err := <-r.ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *running) write(t testing.TB, config string) {
	t.Helper()
	text := "listen: 127.0.0.1:0\nmetrics: 127.0.0.1:0\nnotice: 0s\n" + config
	if err := os.WriteFile(r.file+".next", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.file+".next", r.file); err != nil {
		t.Fatal(err)
	}
}

// get sends a request with a key and returns the response and its body.
func (r *running) get(t testing.TB, path, key string, body io.Reader) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
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

func (r *running) page(t testing.TB) string {
	t.Helper()
	resp, err := r.client.Get(r.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

func mint(env string) (id, key string) {
	id, _, text := access.Mint(env)
	return id, text.Reveal()
}

func TestCellOfARequest(t *testing.T) {
	eu, us := newCell(t, "eu", nil), newCell(t, "us", nil)
	moved, movedKey := mint("eu")
	_, live := mint("live")
	_, inUS := mint("us")
	r := start(t, fmt.Sprintf("cells: { eu: { url: %q }, us: { url: %q } }\ndefault: eu\nkeys: { %s: us }\nissuers: { \"https://idp.example\": us }\n", eu.URL, us.URL+"/base", moved))
	for _, c := range []struct{ name, key, want string }{
		{"cell in the key", inUS, "us"},
		{"key that was moved", movedKey, "us"},
		{"key without a cell", live, "eu"},
		{"token of an issuer", "e30.eyJpc3MiOiJodHRwczovL2lkcC5leGFtcGxlIn0.x", "us"},
		{"token of another issuer", "e30.eyJpc3MiOiJodHRwczovL290aGVyIn0.x", "eu"},
		{"garbage", "a.!.c", "eu"},
		{"no key", "", "eu"},
	} {
		if resp, body := r.get(t, "/v1/x%2Fy?a=b", c.key, nil); resp.Header.Get("Cell") != c.want {
			t.Errorf("%s: cell %q, want %s: %s", c.name, resp.Header.Get("Cell"), c.want, body)
		}
	}
	if _, body := r.get(t, "/v1/x%2Fy?a=b", live, nil); body != "eu /v1/x%2Fy?a=b 127.0.0.1" {
		t.Errorf("the cell received %q", body)
	}
	if _, body := r.get(t, "/v1/x", inUS, nil); body != "us /base/v1/x 127.0.0.1" {
		t.Errorf("the cell with a path received %q", body)
	}
	if page := r.page(t); !strings.Contains(page, `isogloss_route_requests_total{cell="us",status="2xx"} 4`) || !strings.Contains(page, `isogloss_route_cell_up{cell="eu"} 1`) {
		t.Errorf("metrics:\n%s", page)
	}
}

func TestNoCell(t *testing.T) {
	eu := newCell(t, "eu", nil)
	r := start(t, fmt.Sprintf("cells: { eu: { url: %q } }\n", eu.URL))
	_, live := mint("live")
	if resp, body := r.get(t, "/v1/x", live, nil); resp.StatusCode != http.StatusMisdirectedRequest || !strings.Contains(body, `"code":"cell_unknown"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestStreams checks that an event arrives before the next one is sent, that a broken stream is not
// taken for a complete one, and that a client that leaves ends the request at the cell.
func TestStreams(t *testing.T) {
	next := make(chan struct{})
	eu := newCell(t, "eu", next)
	r := start(t, fmt.Sprintf("cells: { eu: { url: %q } }\ndefault: eu\n", eu.URL))
	resp, err := r.client.Get(r.url + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(resp.Body)
	if first, err := lines.ReadString('\n'); err != nil || first != "data: 1\n" {
		t.Fatal(first, err)
	}
	next <- struct{}{}
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "\ndata: 2\n\n" {
		t.Fatal(string(rest), err)
	}
	_ = resp.Body.Close()
	if _, body := r.get(t, "/break", "", nil); body != "data: 1\n\n broken" {
		t.Errorf("a stream that broke off ends as %q", body)
	}
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/stream", nil)
	resp, err = r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	_ = resp.Body.Close()
	wait(t, "the request at the cell ends", func() bool { return strings.Contains(r.page(t), `isogloss_route_requests_open{cell="eu"} 0`) })
}

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	testrig.Eventually(t, what, done)
}

func TestBigBody(t *testing.T) {
	eu := newCell(t, "eu", nil)
	r := start(t, fmt.Sprintf("cells: { eu: { url: %q }, gone: { url: %q, fallback: [eu] } }\ndefault: eu\n", eu.URL, refusing(t)))
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	want := fmt.Sprintf("%d %x", len(big), sha256.Sum256(big))
	_, inGone := mint("gone")
	for _, key := range []string{"", inGone} { // the second after a cell without a connection
		if resp, body := r.get(t, "/hash", key, bytes.NewReader(big)); resp.StatusCode != http.StatusOK || body != want {
			t.Errorf("%d %.80s", resp.StatusCode, body)
		}
	}
}

// TestFailover checks that a cell that is down is replaced by its fallback, at the first request and
// later, that a cell without a fallback is not, and that a request that was sent is not repeated.
func TestFailover(t *testing.T) {
	eu := newCell(t, "eu", nil)
	r := start(t, fmt.Sprintf("cells: { eu: { url: %q }, gone: { url: %q, fallback: [eu] }, alone: { url: %q }, breaks: { url: %q, fallback: [eu] } }\n",
		eu.URL, refusing(t), refusing(t), breaking(t)))
	_, inGone := mint("gone")
	_, inAlone := mint("alone")
	_, inBreaks := mint("breaks")
	for range 5 {
		if resp, body := r.get(t, "/v1/x", inGone, strings.NewReader("{}")); resp.Header.Get("Cell") != "eu" {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if resp, body := r.get(t, "/v1/x", inAlone, nil); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := r.get(t, "/v1/x", inBreaks, strings.NewReader("{}")); resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "may have been served") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	page := r.page(t)
	for _, want := range []string{`isogloss_route_failovers_total{cell="gone",to="eu"} 5`, `isogloss_route_cell_up{cell="gone"} 0`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}

// breaking is a cell that reads a request and closes the connection.
func breaking(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	t.Cleanup(s.Close)
	return s.URL
}

// TestReload checks that a changed file is used, that an invalid one is not, and that an open stream
// continues.
func TestReload(t *testing.T) {
	next := make(chan struct{})
	eu, us := newCell(t, "eu", next), newCell(t, "us", nil)
	cells := fmt.Sprintf("cells: { eu: { url: %q }, us: { url: %q } }\n", eu.URL, us.URL)
	r := start(t, cells+"default: eu\n")
	resp, err := r.client.Get(r.url + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	r.write(t, cells+"default: nowhere\n")
	wait(t, "the file is refused", func() bool { return strings.Contains(r.page(t), `reloads_total{result="error"} 1`) })
	r.write(t, cells+"default: us\n")
	wait(t, "the file is used", func() bool { resp, _ := r.get(t, "/v1/x", "", nil); return resp.Header.Get("Cell") == "us" })
	next <- struct{}{}
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(text), "data: 2\n\n") {
		t.Errorf("the stream ended as %q, %v", text, err)
	}
}

// TestDrain checks that an open stream ends before the router does, and that new requests are
// refused.
func TestDrain(t *testing.T) {
	next := make(chan struct{})
	eu := newCell(t, "eu", next)
	r := start(t, fmt.Sprintf("cells: { eu: { url: %q } }\ndefault: eu\n", eu.URL))
	resp, err := r.client.Get(r.url + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	r.stop()
	address := strings.TrimPrefix(r.url, "http://")
	wait(t, "the port is closed", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	next <- struct{}{}
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(text), "data: 2\n\n") {
		t.Errorf("the stream ended as %q, %v", text, err)
	}
}

// TestUpgrade checks that a connection that changes its protocol, such as a WebSocket, passes.
func TestUpgrade(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = buf.Flush()
		line, _ := buf.ReadString('\n')
		_, _ = buf.WriteString("echo " + line)
		_ = buf.Flush()
	}))
	t.Cleanup(s.Close)
	r := start(t, fmt.Sprintf("cells: { eu: { url: %q } }\ndefault: eu\n", s.URL))
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if text, err := io.ReadAll(in); err != nil || string(text) != "echo hello\n" {
		t.Errorf("%q %v", text, err)
	}
}

func TestInvalidFiles(t *testing.T) {
	for config, want := range map[string]string{
		"":                                       "write 1 to 256",
		"cells: { eu: { url: x } }":              "cells.eu.url",
		"cells: { EU: { url: \"http://x\" } }":   "lower-case letters",
		"cells: { live: { url: \"http://x\" } }": "not live or admin",
		"cells: { eu: { urls: \"http://x\" } }":  "urls",
		"cells: { eu: { url: \"http://x\" } }\ndefault: us":                 `no cell "us"`,
		"cells: { eu: { url: \"http://x\" } }\nkeys: { a: us }":             "keys.a",
		"cells: { eu: { url: \"http://x\" } }\nlisten: x":                   "write host:port",
		"cells: { eu: { url: \"http://x\", fallback: [eu] } }":              "the cell itself",
		"cells: { eu: { url: \"http://user:canary@x\" } }":                  "cells.eu.url",
		"cells: { eu: { url: \"http://x\" } }\ntls: { cert: a }":            "cert and key",
		"cells: { eu: { url: \"http://x\" } }\ndrain: 2000h":                "drain",
		"cells: { eu: { url: \"http://x\" } }\ntls: { cert: a, key: nope }": "tls",
	} {
		file := filepath.Join(t.TempDir(), "cells.yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", config, err, want)
		}
	}
}

// BenchmarkProxy compares the router with a bare reverse proxy, over sockets.
func BenchmarkProxy(b *testing.B) {
	eu := newCell(b, "eu", nil)
	_, key := mint("eu")
	target, _ := url.Parse(eu.URL)
	body := strings.Repeat("x", 2000)
	run := func(b *testing.B, address string) {
		b.ReportAllocs()
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for b.Loop() {
			req, _ := http.NewRequest(http.MethodPost, address+"/v1/chat/completions", strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+key)
			resp, err := client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	bare := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target); p.SetXForwarded() }, FlushInterval: -1,
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}})
	defer bare.Close()
	r := start(b, fmt.Sprintf("cells: { eu: { url: %q } }\n", eu.URL))
	b.Run("bare", func(b *testing.B) { run(b, bare.URL) })
	b.Run("router", func(b *testing.B) { run(b, r.url) })
}

// TestDocumentation checks the file of the documentation, and that its metrics exist.
func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile("../../docs/cells.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	file := filepath.Join(t.TempDir(), "cells.yaml")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil || len(c.Cells) != 2 || len(c.Keys) != 1 || len(c.Issuers) != 1 {
		t.Fatal(c, err)
	}
	r := NewRouter(c, slog.New(slog.DiscardHandler))
	r.requests.WithLabelValues("eu", "2xx")
	r.failovers.WithLabelValues("eu", "us")
	r.open.WithLabelValues("eu")
	r.reloads.WithLabelValues("ok")
	families, err := r.registry.Gather()
	if err != nil || len(families) != 5 {
		t.Fatal(len(families), err)
	}
	for _, f := range families {
		if !strings.Contains(string(data), "| `"+f.GetName()+"` |") {
			t.Errorf("the page does not name %s", f.GetName())
		}
	}
}

// once is a reader that must not be read after its end.
type once struct {
	t    *testing.T
	text string
}

func (o *once) Read(p []byte) (int, error) {
	if o.text == "" {
		o.t.Error("the body is read after its end")
	}
	n := copy(p, o.text)
	o.text = o.text[n:]
	if o.text == "" {
		return n, io.EOF
	}
	return n, nil
}

func (*once) Close() error { return nil }

// TestEndOfBody checks that a body is not read after its end. The transport does that, and by then the server may have
// closed it, because the response has begun: about one stream in a hundred was cut.
func TestEndOfBody(t *testing.T) {
	a := newCell(t, "a", nil)
	file := &running{file: filepath.Join(t.TempDir(), "cells.yaml")}
	file.write(t, fmt.Sprintf("cells: { a: { url: %q } }\ndefault: a\n", a.URL))
	c, err := Load(file.file)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRouter(c, slog.New(slog.DiscardHandler))
	for _, length := range []int64{5, -1} {
		req := httptest.NewRequest(http.MethodPost, "http://localhost/hash", &once{t, "abcde"})
		req.ContentLength = length
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), "5 ") {
			t.Errorf("length %d: %d %s", length, w.Code, w.Body)
		}
	}
	r.transport.(*http.Transport).CloseIdleConnections()
}
