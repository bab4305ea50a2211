package relay

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

const upstreamKey = "sk-upstream-canary"

// gateway is a relay on a real socket in front of a scripted upstream.
type gateway struct {
	URL      string
	relay    *Relay
	observer *observe.Observer
	state    *State
	provider *provider.Provider
	log      *logBuffer
	up       *upstreamtest.Server
	dialer   func(ctx context.Context, network, address string) (net.Conn, error) // for clients
	client   *http.Client
	extra    []string // further models that go to the upstream under their own name
	dialects []*codec.Dialect
	params   *params.Set // of every model
}

// bubble is a test in a synctest bubble. Its gateways and upstreams are connected by a
// network in memory, so that the bubble's clock advances when all of them wait: timeouts
// cost no time, and all times are exact.
type bubble struct {
	*testing.T
	network *testrig.Network
}

// inBubble runs a test in a synctest bubble.
func inBubble(t *testing.T, f func(t bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(bubble{t, &testrig.Network{}}) })
}

// listen opens a listener: of the bubble's network, or else on a socket.
func listen(t testing.TB) net.Listener {
	t.Helper()
	if b, ok := t.(bubble); ok {
		return b.network.Listen()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newUpstream starts a scripted upstream.
func newUpstream(t testing.TB) *upstreamtest.Server {
	t.Helper()
	return upstreamtest.Serve(t, listen(t))
}

// newGateway serves the models real-chat, alias-chat (an alias of real-chat),
// "vendor/slashed" and "any/*". It applies the changes before it starts.
func newGateway(t testing.TB, changes ...func(*gateway)) *gateway {
	t.Helper()
	g := &gateway{log: &logBuffer{}, up: newUpstream(t), dialects: all.Dialects(), dialer: new(net.Dialer).DialContext, client: http.DefaultClient}
	base, err := url.Parse(g.up.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	g.provider = &provider.Provider{
		Name: "up", Protocol: protocol.OpenAIChat, BaseURL: base, Auth: provider.Bearer, Key: secret.String(upstreamKey),
		UpstreamStream: provider.Mirror, Extensions: provider.RefuseExtensions,
		Timeouts: provider.Timeouts{Connect: never, FirstByte: never, Idle: never, Total: never},
	}
	g.state = &State{
		Keys:     access.NewKeys(nil),
		Settings: exchange.Settings{Limits: exchange.Limits{Body: 64 << 20, Event: 16 << 20, Answer: 64 << 20}},
		Models:   models.View{Created: time.Unix(1_770_000_000, 0)},
	}
	g.observer, err = observe.New(observe.Options{Log: g.log, Level: slog.LevelDebug, Format: "json", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(g)
	}
	g.state.Routes = route.New(g.routes())
	g.relay = New(g.dialects, g.observer)
	if b, ok := t.(bubble); ok {
		g.useNetwork(b.network)
	}
	g.relay.Use(g.state)
	g.URL = g.serveHTTP(t, &http.Server{Handler: g.relay})
	return g
}

// useNetwork connects the gateway's clients and upstreams by a network in memory.
func (g *gateway) useNetwork(n *testrig.Network) {
	connect := g.provider.Timeouts.Connect
	toUpstream := upstream.NewTransport(connect)
	toUpstream.Proxy, toUpstream.DialContext = nil, n.DialContext
	g.relay.client.SetTransport(connect, toUpstream)
	g.dialer, g.client = n.DialContext, &http.Client{Transport: &http.Transport{DialContext: n.DialContext}}
}

// serveHTTP runs a server of the gateway's relay until the test ends, and returns its URL.
func (g *gateway) serveHTTP(t testing.TB, srv *http.Server) string {
	l := listen(t)
	var served sync.WaitGroup
	served.Go(func() { _ = srv.Serve(l) }) // it fails when it is closed
	t.Cleanup(func() {
		g.client.CloseIdleConnections()
		_ = srv.Close() // closes the listener and every connection
		served.Wait()
		g.relay.Close()
	})
	return "http://" + l.Addr().String()
}

func (g *gateway) routes() []*route.Route {
	target := func(model string) []route.Target {
		return []route.Target{{Provider: g.provider, Model: model, Timeouts: g.provider.Timeouts}}
	}
	routes := []*route.Route{
		{Name: "real-chat", OwnedBy: "up", Targets: target("real-chat")},
		{Name: "alias-chat", OwnedBy: "up", Targets: target("real-chat")},
		{Name: "vendor/slashed", OwnedBy: "vendor", Targets: target("vendor/slashed")},
		{Name: "any/*", OwnedBy: "up", Targets: target("*")},
	}
	for _, name := range g.extra {
		routes = append(routes, &route.Route{Name: name, OwnedBy: "up", Targets: target(name)})
	}
	for _, r := range routes {
		r.Params = g.params
	}
	return routes
}

// post sends a body and reads the whole response. The error is that of reading.
func (g *gateway) post(t testing.TB, path, body string, headers ...string) (*http.Response, string, error) {
	t.Helper()
	resp := g.open(t, path, body, headers...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// open sends a body and returns the response with an unread body.
func (g *gateway) open(t testing.TB, path, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// metrics returns the text of the metrics page.
func (g *gateway) metrics() string {
	rec := httptest.NewRecorder()
	g.observer.Metrics().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return rec.Body.String()
}

// line waits for the log line of an exchange, which the gateway writes after the
// response.
func (g *gateway) line(t testing.TB) (line string) {
	t.Helper()
	eventually(t, "the exchange is logged", func() bool {
		for line = range strings.Lines(g.log.String()) {
			if strings.Contains(line, `"msg":"exchange"`) {
				return true
			}
		}
		return false
	})
	return line
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testrig.Eventually(t, what, ok)
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
