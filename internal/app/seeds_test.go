package app

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/cloud"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// TestSeedModelTimes checks that a model's creation time is the start time of the
// process, also after a reload (K44 of docs/evidence/seeds.md).
func TestSeedModelTimes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "isogloss.yaml")
	if err := os.WriteFile(file, []byte("providers: { up: { preset: vllm } }\nmodels: { m: { targets: [up/m] } }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	observer, err := observe.New(observe.Options{Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	gateway := relay.New(all.Dialects(), observer)
	defer gateway.Close()
	w := watcher{options: Options{Config: file, Env: noEnvironment}, first: &config.Config{}, bound: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)},
		observer: observer, current: &current{clouds: cloud.NewPool(slog.New(slog.DiscardHandler)), gateway: gateway, stores: &stores{}, started: time.Unix(7, 0)}}
	if err := w.reload(); err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodGet, "http://localhost/v1/models", nil)
	rec := httptest.NewRecorder()
	gateway.ServeHTTP(rec, req)
	if got := rec.Body.String(); !strings.Contains(got, `"id":"m","object":"model","created":7,`) {
		t.Error(got)
	}
}
