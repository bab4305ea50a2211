package relay

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/internal/secret"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
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
	extra    []string // further models that go to the upstream under their own name
}

// newGateway serves the models real-chat and alias-chat (which is real-chat
// upstream), "vendor/slashed" and "any/*". Changes are made before it starts.
func newGateway(t testing.TB, changes ...func(*gateway)) *gateway {
	t.Helper()
	g := &gateway{log: &logBuffer{}, up: upstreamtest.New(t)}
	base, err := url.Parse(g.up.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	g.provider = &provider.Provider{
		Name: "up", Protocol: protocol.OpenAIChat, BaseURL: base, Auth: provider.Bearer, Key: secret.String(upstreamKey),
		UpstreamStream: provider.Mirror, NvExt: provider.NvExtRefuse,
		Timeouts: provider.Timeouts{Connect: 5 * time.Second, FirstByte: 10 * time.Second, Idle: 10 * time.Second, Total: time.Minute},
	}
	g.state = &State{
		Keys:    access.NewKeys(nil),
		Limits:  Limits{Body: 64 << 20, Event: 16 << 20, Answer: 64 << 20},
		Created: time.Unix(1_770_000_000, 0),
	}
	g.observer, err = observe.New(observe.Options{Log: g.log, Level: slog.LevelDebug, Format: "json", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(g)
	}
	g.state.Routes = route.New(g.routes())
	g.relay = New(all.Codecs(), g.observer)
	g.relay.Use(g.state)
	srv := httptest.NewServer(g.relay)
	t.Cleanup(func() {
		srv.Close()
		g.relay.Close()
	})
	g.URL = srv.URL
	return g
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
	return routes
}

// post sends a body and reads the whole answer. The error is that of reading.
func (g *gateway) post(t testing.TB, path, body string, headers ...string) (*http.Response, string, error) {
	t.Helper()
	resp := g.open(t, path, body, headers...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// open sends a body and leaves the answer to be read.
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
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// metrics is the text of the metrics page.
func (g *gateway) metrics() string {
	rec := httptest.NewRecorder()
	g.observer.Metrics().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return rec.Body.String()
}

// line waits for the log line of an exchange: it is written after the answer.
func (g *gateway) line(t testing.TB) string {
	t.Helper()
	for range 500 {
		for l := range strings.Lines(g.log.String()) {
			if strings.Contains(l, `"msg":"exchange"`) {
				return l
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("no log line: %s", g.log.String())
	return ""
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
