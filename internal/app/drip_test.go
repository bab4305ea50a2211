package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// pipes is a Process whose listeners belong to a network of pipes.
type pipes struct {
	alone
	network *testrig.Network
}

func (p pipes) Listen(context.Context, string, string) (net.Listener, error) {
	return p.network.Listen(), nil
}

// TestDrippedBody checks that no port is held by a client that sends an endless body a
// byte at a time to a path that responds without reading it.
func TestDrippedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &testrig.Network{}
		cfg := config.Default()
		cfg.Data, cfg.Metrics.Listen, cfg.BasePath, cfg.CORS.Origins = t.TempDir(), "metrics", "/llm", []string{"https://app.example.com"}
		observer, err := observe.New(observe.Options{Log: io.Discard, Level: slog.LevelError, Format: "json"})
		if err != nil {
			t.Fatal(err)
		}
		defer closeObserver(observer)
		cfg.Store.URL = secret.String("sqlite:" + filepath.Join(cfg.Data, "isogloss.db"))
		shared, err := openStores(cfg, observer)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.close()
		gateway := relay.New(all.Dialects(), observer)
		defer gateway.Close()
		gateway.Use(newState(cfg, discover.Snapshot{}, time.Now()))
		now := &current{}
		now.clients.Store(access.NewClients(access.NewKeys([]access.Key{{Secret: staticKey}}), nil, nil))
		s, err := listen(t.Context(), pipes{network: network}, &operations{cfg: cfg, gateway: gateway, observer: observer, stores: shared, current: now, version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		l := life{servers: s, process: alone{}, gateway: gateway, logger: observer.Logger()}
		if err := l.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer l.serving.Wait()
		defer l.close()
		for port, requests := range map[*server][]string{
			s.data: {"OPTIONS *", "OPTIONS /llm/v1/models", "POST /elsewhere", "POST /llm/v1/models", "GET /llm/", "GET /ready", "PUT /llm/v1/chat/completions", "POST /llm/v1/chat/completions",
				"POST /llm/v1/logs", "PUT /llm/v1/logs", "OPTIONS /llm/v1/logs", "GET /llm/managed/settings", "GET /llm/api/oauth/usage"},
			s.admin: {"OPTIONS *", "GET /metrics", "POST /metrics", "POST /explain", "GET /models", "GET /", "GET /console/keys", "POST /elsewhere", "GET /api/openapi.json", "POST /api/v1/keys", "GET /api/v1/keys",
				"DELETE /api/v1/keys", "POST /api/v1/translate", "POST /api/v1/elsewhere"},
			s.metrics: {"OPTIONS *", "GET /metrics", "GET /live", "POST /live", "POST /elsewhere"},
		} {
			for _, request := range requests {
				for _, framing := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
					if held := drip(t, network, port.addr(), request, framing); held > 20*time.Second {
						t.Errorf("%s with %s holds its connection for %v", request, framing, held)
					}
				}
			}
		}
	})
}

// drip sends a request with a byte of its body each second, for ten minutes at most, and
// returns how long its connection was open.
func drip(t *testing.T, network *testrig.Network, address, request, framing string) time.Duration {
	t.Helper()
	c, err := network.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start, closed := time.Now(), make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, bufio.NewReader(c)) // until the server closes the connection
	}()
	_, _ = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example.com\r\nAccess-Control-Request-Method: POST\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", request, staticKey, framing)
	piece := "x"
	if framing == "Transfer-Encoding: chunked" {
		piece = "1\r\nx\r\n"
	}
	for time.Since(start) < 10*time.Minute {
		if _, err := io.WriteString(c, piece); err != nil {
			break
		}
		time.Sleep(time.Second)
	}
	held := time.Since(start)
	_ = c.Close()
	<-closed
	return held
}
