package app

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// explain runs Explain for a model with a configuration whose admin address is that of a
// running gateway.
func explain(t *testing.T, configuration, address, dialect, model string) (*fleet.Explanation, bool, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "isogloss.yaml")
	configuration = strings.Replace(configuration, "admin: {listen: \"127.0.0.1:0\"", "admin: {listen: \""+address+"\"", 1)
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]string{"model": model})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: file, Env: noEnvironment}.Explain(t.Context(), dialect, model, body)
}

// adminAddress returns the host and port of the gateway's admin address.
func (g *gateway) adminAddress(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(g.metricsURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestExplainShowsTheLiveState(t *testing.T) {
	bad, good := upstreamtest.New(t), upstreamtest.New(t)
	bad.Answer(upstreamtest.JSON(http.StatusUnauthorized, `{"error":{"message":"no"}}`))
	good.Answer(echo)
	configuration := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
providers:
  bad: {protocol: openai-chat, base_url: %q, api_key: k-bad}
  good: {protocol: openai-chat, base_url: %q, api_key: k-good}
models:
  m: {targets: [bad/x, good/y]}
  single: {targets: [bad/x]}
`, bad.BaseURL(), good.BaseURL())
	g := start(t, configuration, quick())
	resp, err := g.ask("m", false)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	admin := g.adminAddress(t)
	e, live, err := explain(t, configuration, admin, "openai-chat", "m")
	if err != nil || !live || len(e.Targets) != 2 {
		t.Fatalf("%+v %t %v", e, live, err)
	}
	first, last := e.Targets[0], e.Targets[1]
	if first.Target != "good/y" || first.Place != 1 || first.Why != "" || first.State != "ready" || first.FirstToken == "" {
		t.Errorf("%+v", first)
	}
	if last.Target != "bad/x" || last.Place != 0 || last.Why != "credential refused" || last.Until.IsZero() {
		t.Errorf("%+v", last)
	}

	// The only target of a model is tried in any state, and the explanation has its
	// state.
	e, live, err = explain(t, configuration, admin, "openai-chat", "single")
	if err != nil || !live || len(e.Targets) != 1 {
		t.Fatalf("%+v %t %v", e, live, err)
	}
	if only := e.Targets[0]; only.Place != 1 || only.State != "credential refused" || only.Until.IsZero() || only.LastError != "HTTP 401" || only.LastErrorAt.IsZero() {
		t.Errorf("%+v", only)
	}

	for _, c := range []struct{ dialect, model, says string }{
		{"openai-chat", "nothing", "does not exist"}, {"klingon", "m", "dialect"}, {"gemini", "nothing", "does not exist"},
	} {
		if _, _, err := explain(t, configuration, admin, c.dialect, c.model); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// writeCertificate writes a certificate for localhost and its key, in PEM.
func writeCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "admin.crt"), filepath.Join(t.TempDir(), "admin.key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestExplainOverTLS(t *testing.T) {
	up := upstreamtest.New(t)
	cert, key := writeCertificate(t)
	configuration := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0", tls: {cert: %q, key: %q}}
providers: {u: {protocol: openai-chat, base_url: %q, auth: none}}
models: {m: {targets: [u/x]}}
`, cert, key, up.BaseURL())
	g := start(t, configuration, quick())
	e, live, err := explain(t, configuration, g.adminAddress(t), "openai-chat", "m")
	if err != nil || !live || len(e.Targets) != 1 {
		t.Errorf("%+v %t %v", e, live, err)
	}
}

// TestExplainFailsIfTheAdminAddressCannotBeRead checks that Explain assumes no running
// gateway only if nothing listens on the admin address. If a server responds with
// something else, Explain fails.
func TestExplainFailsIfTheAdminAddressCannotBeRead(t *testing.T) {
	const configuration = `
admin: {listen: "127.0.0.1:0"}
providers: {u: {protocol: openai-chat, base_url: "http://127.0.0.1:9/v1", auth: none}}
models: {m: {targets: [u/x]}}
`
	cert, key := writeCertificate(t)
	overTLS := strings.Replace(configuration, `:0"}`, fmt.Sprintf(`:0", tls: {cert: %q, key: %q}}`, cert, key), 1)
	plain := func(status int, body string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
	}
	for name, c := range map[string]struct {
		server        *httptest.Server
		configuration string
		says          string
	}{
		"another server":        {plain(200, "<html>"), configuration, "is not this gateway"},
		"a key is wanted":       {plain(401, "no key"), configuration, "ISOGLOSS_OPERATOR_KEY"},
		"an error":              {plain(500, "broken"), configuration, "broken"},
		"TLS without a setting": {httptest.NewTLSServer(http.NotFoundHandler()), configuration, "HTTP"},
		"no TLS":                {plain(200, "{}"), overTLS, "is not this gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			c.server.Config.ErrorLog = log.New(io.Discard, "", 0)
			defer c.server.Close()
			_, _, err := explain(t, c.configuration, c.server.Listener.Addr().String(), "openai-chat", "m")
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
	t.Run("nothing listens", func(t *testing.T) {
		if e, live, err := explain(t, configuration, "127.0.0.1:1", "openai-chat", "m"); err != nil || live || len(e.Targets) != 1 {
			t.Errorf("%+v %t %v", e, live, err)
		}
	})
}

func TestExplainRefusesWebPages(t *testing.T) {
	up := upstreamtest.New(t)
	g := start(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nproviders: {u: {protocol: openai-chat, base_url: %q, auth: none}}\nmodels: {m: {targets: [u/x]}}\n", up.BaseURL()), quick())
	req, err := http.NewRequest(http.MethodPost, strings.TrimSuffix(g.metricsURL, "/metrics")+explainPath+"?dialect=openai-chat", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://evil.example")
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Error(resp.Status)
	}
}

func TestTranslateWithoutStore(t *testing.T) {
	g := start(t, numbered(upstreamtest.New(t), 1), quick())
	for origin, status := range map[string]int{"": http.StatusOK, "https://evil.example": http.StatusForbidden} {
		req, err := http.NewRequest(http.MethodPost, strings.TrimSuffix(g.metricsURL, "/metrics")+admin.TranslatePath, strings.NewReader(`{"dialect":"openai-chat","kind":"request","body":"{}"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		resp, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("origin %q: %s", origin, resp.Status)
		}
	}
}
