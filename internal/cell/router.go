package cell

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/agents"
)

// Router sends requests to cells. It reads a key's cell and checks no key: the cell does.
type Router struct {
	config    atomic.Pointer[Config]
	health    health
	transport http.RoundTripper
	proxy     *httputil.ReverseProxy
	logger    *slog.Logger

	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	failovers *prometheus.CounterVec
	open      *prometheus.GaugeVec
	reloads   *prometheus.CounterVec
}

// NewRouter returns a router. Its health checks begin with Watch.
func NewRouter(c *Config, logger *slog.Logger) *Router {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "isogloss_route_" + name, Help: help}, labels)
	}
	r := &Router{
		logger:    logger,
		registry:  prometheus.NewRegistry(),
		requests:  vec("requests_total", "Responses by cell and status.", "cell", "status"),
		failovers: vec("failovers_total", "Requests that another cell has served.", "cell", "to"),
		open:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "isogloss_route_requests_open", Help: "Open requests by cell."}, []string{"cell"}),
		reloads:   vec("config_reloads_total", "Reloads of the configuration.", "result"),
	}
	r.health.logger = logger
	r.registry.MustRegister(r.requests, r.failovers, r.open, r.reloads, &r.health)
	dialer := &net.Dialer{Timeout: c.Connect, KeepAlive: 30 * time.Second}
	r.transport = &http.Transport{
		DialContext:         dialer.DialContext,
		MaxIdleConns:        4096,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
		DisableCompression:  true, // bodies pass as they are
		WriteBufferSize:     4 << 10,
		ReadBufferSize:      4 << 10,
	}
	r.proxy = &httputil.ReverseProxy{
		Rewrite:       rewrite,
		FlushInterval: -1, // every event at once
		BufferPool:    &buffers{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}},
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	r.Use(c)
	return r
}

// Use sets the configuration of later requests.
func (r *Router) Use(c *Config) {
	for name, cell := range c.Cells {
		cell.open = r.open.WithLabelValues(name)
	}
	r.config.Store(c)
	r.health.use(c)
}

// choice sends one request to a cell.
type choice struct {
	router *Router
	config *Config
	name   string // the cell of the request
	served string // the cell that was tried last
}

// ServeHTTP sends a request to its cell.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c := r.config.Load()
	name := c.cellOf(req)
	if name == "" {
		r.count("", http.StatusMisdirectedRequest)
		writeError(w, http.StatusMisdirectedRequest, "cell_unknown", "no cell is known for this key; check the key, or ask the operator to add it")
		return
	}
	ch := &choice{router: r, config: c, name: name, served: name}
	open := c.Cells[name].open
	open.Inc()
	defer open.Dec()
	proxy := *r.proxy // a copy is cheaper than a value in the context of the request
	proxy.Transport, proxy.ErrorHandler = ch, ch.fail
	proxy.ServeHTTP(w, req)
}

// rewrite prepares the request to a cell. RoundTrip sets the address.
func rewrite(p *httputil.ProxyRequest) {
	if prior, ok := p.In.Header["X-Forwarded-For"]; ok {
		p.Out.Header["X-Forwarded-For"] = prior
	}
	p.SetXForwarded()
	p.Out.URL.Scheme = "http" // the transport needs one
}

// RoundTrip sends a request to its cell, or to a fallback while that is down or no connection can be
// made. A request of which a cell may have read something is not sent again. The request is the
// proxy's own, so its address may be changed.
func (ch *choice) RoundTrip(req *http.Request) (*http.Response, error) {
	r := ch.router
	path, rawPath := req.URL.Path, req.URL.RawPath
	var sent *body
	if req.Body != nil {
		sent = &body{Reader: req.Body, left: req.ContentLength}
		req.Body = sent
	}
	// The next fallback after the cell that is tried. A cell that is down is tried only if all are.
	next, fallback := 0, ch.config.Cells[ch.name].Fallback
	if len(fallback) > 0 && r.health.down(ch.name) {
		if i := slices.IndexFunc(fallback, func(name string) bool { return !r.health.down(name) }); i >= 0 {
			ch.served, next = fallback[i], i+1
		}
	}
	for {
		cell := ch.config.Cells[ch.served]
		req.URL.Scheme, req.URL.Host, req.Host = cell.url.Scheme, cell.url.Host, ""
		req.URL.Path, req.URL.RawPath = path, rawPath
		if prefix := strings.TrimSuffix(cell.url.Path, "/"); prefix != "" {
			req.URL.Path, req.URL.RawPath = prefix+path, ""
			if rawPath != "" {
				req.URL.RawPath = strings.TrimSuffix(cell.url.EscapedPath(), "/") + rawPath
			}
		}
		resp, err := r.transport.RoundTrip(req)
		if err == nil {
			r.count(ch.served, resp.StatusCode)
			if ch.served != ch.name {
				r.failovers.WithLabelValues(ch.name, ch.served).Inc()
			}
			return resp, nil
		}
		if !notConnected(err) || sent.touched() {
			return nil, err
		}
		r.health.failed(ch.served, err)
		if next >= len(fallback) {
			return nil, err
		}
		ch.served, next = fallback[next], next+1
	}
}

// notConnected reports whether an error means that nothing was sent.
func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// fail responds for a cell that did not.
func (ch *choice) fail(w http.ResponseWriter, req *http.Request, err error) {
	r := ch.router
	if req.Context().Err() != nil { // the client has left
		r.count(ch.served, 499)
		panic(http.ErrAbortHandler)
	}
	r.logger.Debug("cell did not respond", "cell", ch.served, "error", err)
	r.count(ch.served, http.StatusBadGateway)
	if notConnected(err) {
		w.Header().Set("Retry-After", "2")
		writeError(w, http.StatusServiceUnavailable, "cell_down", "the cell of this key cannot be reached; try again later")
		return
	}
	writeError(w, http.StatusBadGateway, "cell_failed", "the cell of this key has broken off the connection; the request may have been served")
}

func (r *Router) count(cell string, status int) {
	r.requests.WithLabelValues(cell, classes[min(status/100, len(classes)-1)]).Inc()
}

// classes are the values of the label status.
var classes = [...]string{"0xx", "1xx", "2xx", "3xx", "4xx", "5xx"}

// writeError writes an error in a form that all SDKs can read.
func writeError(w http.ResponseWriter, status int, code, message string) {
	text, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": code, "code": code, "message": message}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have left
}

// cellOf returns the cell of a request; empty if there is none.
func (c *Config) cellOf(req *http.Request) string {
	text := agents.Key(req)
	if text == "" && req.URL.RawQuery != "" {
		text = req.URL.Query().Get("key")
	}
	if id, _, ok := access.Parse(text); ok {
		if cell, ok := c.Keys[id]; ok {
			return cell
		}
		_, rest, _ := strings.Cut(text, "_")
		env, _, _ := strings.Cut(rest, "_")
		if _, ok := c.Cells[env]; ok {
			return env
		}
		return c.Default
	}
	if len(c.Issuers) > 0 && strings.Count(text, ".") == 2 {
		if cell, ok := c.Issuers[issuer(text)]; ok {
			return cell
		}
	}
	return c.Default
}

// issuer returns the issuer that a token names. The signature is not checked: the cell checks it,
// and a false issuer leads to a cell that refuses the token.
func issuer(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return ""
	}
	var claims struct {
		Iss string `json:"iss"`
	}
	_ = json.Unmarshal(text, &claims) // without it the issuer is empty
	return claims.Iss
}

// body is a request's body of which it is known whether anything was read. The transport closes it
// after a failed connection; it stays open for the next cell. The proxy closes it in the end.
//
// The transport reads once more after the last byte. By then the response may have begun, for which the server
// closes the body; the transport would take that for a failure and cut the response. So the end is remembered.
type body struct {
	io.Reader
	read  atomic.Bool
	left  int64 // -1: unknown
	ended bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.read.Store(true)
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.Reader.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	b.ended = b.left == 0 || errors.Is(err, io.EOF)
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error { return nil }

func (b *body) touched() bool { return b != nil && b.read.Load() }

// buffers is a pool of buffers for bodies.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return *b.pool.Get().(*[]byte) }

// Put implements httputil.BufferPool.
func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }
