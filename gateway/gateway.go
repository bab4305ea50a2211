// Package gateway runs the gateway inside another program: as an [http.Handler] for its own server, or as an
// [http.RoundTripper] by which the vendors' SDKs call any model without a server.
//
//	g, err := gateway.New(yaml, gateway.Options{})
//	defer g.Close(ctx)
//
//	http.Handle("/v1/", g)                                          // the gateway's endpoints, in all dialects
//	client := openai.NewClient(option.WithHTTPClient(g.Client()))   // an SDK whose requests the gateway answers
//
// The YAML is that of isogloss serve, with its providers, models, keys, retries, failover, limits and stores. Settings of
// listeners have no effect: nothing listens. The environment is read for ${VARIABLE} only.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/config"
)

// Options are what the YAML does not say. The zero value is ready for use.
type Options struct {
	Env     func(name string) (value string, ok bool) // for ${NAME} in the YAML; nil: os.LookupEnv
	Log     io.Writer                                 // nil: standard error
	Version string                                    // in the log and in metrics; empty: "embedded"
}

// Gateway is a running gateway. It may be used by several goroutines.
type Gateway struct {
	handler   *httputil.ReverseProxy
	transport *Transport
	stop      context.CancelFunc
	ended     chan struct{} // closed when the gateway has ended
	err       error         // set before ended is closed
}

// New starts a gateway. It returns when the gateway serves, or with all mistakes of the YAML.
func New(yaml []byte, o Options) (*Gateway, error) {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if yaml == nil {
		yaml = []byte{}
	}
	cfg, err := config.Parse("isogloss.yaml", yaml, o.Env)
	if err != nil {
		return nil, err
	}
	if cfg.TLS.Cert != "" || cfg.H2C {
		return nil, errors.New("gateway: tls and h2c are settings of a listener; leave them out, and set them at the server that has the handler")
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &process{data: newListener(), ready: make(chan struct{})}
	g := &Gateway{stop: stop, ended: make(chan struct{})}
	g.transport = newTransport(p.data, cfg.BasePath, cfg.Limits.Body)
	g.handler = &httputil.ReverseProxy{
		Transport:     g.transport.pipe,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "localhost", r.In.Host
			r.SetXForwarded()
		},
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // the gateway logs its requests
		ErrorHandler: unavailable,
	}
	go func() {
		defer close(g.ended)
		g.err = app.Run(ctx, app.Options{YAML: yaml, Env: o.Env, Log: o.Log, Version: cmp.Or(o.Version, "embedded"), Process: p})
		g.transport.pipe.CloseIdleConnections()
	}()
	select {
	case <-p.ready:
		return g, nil
	case <-g.ended:
		stop()
		return nil, fmt.Errorf("gateway: %w", cmp.Or(g.err, io.ErrUnexpectedEOF))
	}
}

// ServeHTTP serves a request of a client. The client's address is in X-Forwarded-For, which the gateway believes if the
// YAML has trusted_proxies: ["127.0.0.1"].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := r.Clone(r.Context())
	if err := g.transport.readBody(in); err != nil { // before the response: a server closes the body when the response begins
		http.Error(w, "the body of the request cannot be read", http.StatusBadRequest)
		return
	}
	in.TransferEncoding = nil
	g.handler.ServeHTTP(w, in)
}

// Transport returns a round tripper for the SDKs of vendors.
func (g *Gateway) Transport() *Transport { return g.transport }

// Client returns an HTTP client with the Transport.
func (g *Gateway) Client() *http.Client { return &http.Client{Transport: g.transport} }

// Close ends the gateway: new requests fail, open ones may finish within shutdown.drain of the YAML. It returns when all
// of it has ended, or with the context's error; the rest then ends in the background.
func (g *Gateway) Close(ctx context.Context) error {
	g.stop()
	select {
	case <-g.ended:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unavailable answers a request that the gateway did not.
func unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		http.Error(w, "the gateway does not serve: "+strconv.Quote(err.Error()), http.StatusServiceUnavailable)
	}
}

// process is an app.Process that listens in memory.
type process struct {
	data  *listener
	ready chan struct{}
}

// Listen returns the listener of clients, or one that nobody can dial.
func (p *process) Listen(_ context.Context, name, _ string) (net.Listener, error) {
	if name == "data" {
		return p.data, nil
	}
	return newListener(), nil
}

// Ready says that the gateway serves.
func (p *process) Ready(context.Context, *slog.Logger) error {
	close(p.ready)
	return nil
}

// Replaced is never closed.
func (p *process) Replaced() <-chan struct{} { return nil }
