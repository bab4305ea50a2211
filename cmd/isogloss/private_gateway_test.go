package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// testRun is the environment variable by which a process of this test binary becomes a
// gateway: "program" is the built program, "faulty" a gateway whose dialects panic. A
// mutation of the code that the tests are built with is in them as well.
const testRun = "ISOGLOSS_TEST_RUN"

// watched is a gateway with marked texts in every possible place.
type watched struct {
	*process
	dir         string // everything that the gateway may write to
	config      string
	admin       string // URL of the admin port
	run         string // of testRun
	table       *ingress.Table
	dialects    []*codec.Dialect
	upstreams   map[protocol.Name]*upstreamtest.Server
	plain       *upstreamtest.Server // of the providers up and collected
	collector   *collector
	client      string // a client's key in the store
	operator    string // an operator's
	person      string // a person's token
	tokenFile   string // a file with it
	credentials []string
	captures    []*process
	sent        atomic.Int64 // exchanges that the client has seen
	served      sync.Map     // what the upstreams have served
}

// watchedConfiguration has a credential in every possible place.
const watchedConfiguration = `
listen: %[1]s
admin: { listen: "%[2]s" }
data: data
store: sqlite
keys: [s3cret-client-key-0001]
identity: { issuers: [{ issuer: "https://idp.example.com", audiences: [isogloss], jwks: %[3]q, name: name, rules: [{ when: { groups: search }, team: search }] }] }
traces: { endpoint: %[4]s, sample: 1 }
metrics: { endpoint: %[4]s, every: 1s, by_key: all }
log: { level: %[5]s, format: %[6]s, rate: 0, endpoint: %[4]s }
cache: { ttl: 10m }
retries: { attempts: 3 }
prices: { models: { "openai-chat/*": { input: 1, output: 1 } } }
providers:
  up:        { protocol: openai-chat, base_url: "%[7]s?sig=s3cret-query", api_key: s3cret-provider-key, headers: { X-Token: s3cret-header }, include_usage: true, paths: [POST /v1/audio/speech], timeouts: { first_byte: 1s } }
  collected: { protocol: openai-chat, base_url: "%[7]s", api_key: s3cret-provider-key, upstream_stream: always }
  away:      { protocol: openai-chat, base_url: "http://127.0.0.1:1/v1", api_key: s3cret-provider-key }
%[8]s
models:
  whole:     { targets: [up/model] }
  collected: { targets: [collected/model] }
  away:      { targets: [away/model] }
  failover:  { targets: [openai-chat/error-500, anthropic/page-502, gemini/ok] }
  hedged:    { targets: [anthropic/late, gemini/ok], hedge: { percentile: 50, share: 1 } }
%[9]s
`

// serveWatched starts a gateway with keys and a person, at a log level.
func serveWatched(t *testing.T, run, level, format string) *watched {
	t.Helper()
	dir, err := os.MkdirTemp("", "p") // short: the capture's socket is below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := &watched{dir: filepath.Join(dir, "run"), run: run, config: filepath.Join(dir, "isogloss.yaml"), tokenFile: filepath.Join(dir, "token"),
		dialects: all.Dialects(), upstreams: map[protocol.Name]*upstreamtest.Server{}, plain: upstreamtest.New(t), collector: newCollector(t)}
	g.table = ingress.NewTable(g.dialects)
	var providers, models strings.Builder
	for _, d := range g.dialects {
		up := upstreamtest.New(t)
		g.upstreams[d.Name] = up
		up.Answer(g.script(t, d))
		base := up.BaseURL()
		if d.Name != protocol.OpenAIChat && d.Name != protocol.OpenAIResponses {
			base = strings.TrimSuffix(base, "/v1")
		}
		fmt.Fprintf(&providers, "  %s: { protocol: %[1]s, base_url: \"%s?sig=s3cret-query\", api_key: %s, headers: { X-Token: s3cret-header } }\n", d.Name, base, credentialOf(d.Name))
		fmt.Fprintf(&models, "  \"%s--*\": { targets: [\"%[1]s/*\"] }\n", d.Name)
	}
	data, admin := freePair(t)
	keys := filepath.Join(dir, "jwks.json")
	for _, sub := range []string{"tmp", "home"} {
		if err := os.MkdirAll(filepath.Join(g.dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g.person = g.newPerson(t, keys)
	text := fmt.Sprintf(watchedConfiguration, data, admin, keys, g.collector.URL, level, format, g.plain.BaseURL(), providers.String(), models.String())
	for file, text := range map[string]string{g.config: strings.Replace(text, "data: data", "data: "+filepath.Join(g.dir, "data"), 1), g.tokenFile: g.person} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.client, g.operator = g.newKey(t, "client", "--models", "*"), g.newKey(t, "operator", "--role", "owner")
	g.credentials = append(g.credentials, g.client, g.operator)
	g.process = watch(t, g.cmd(t, "serve", "-c", g.config))
	g.url, g.admin = "http://"+data, "http://"+admin
	testrig.Eventually(t, "the gateway is ready", func() bool {
		select {
		case <-g.ended:
			t.Fatalf("the gateway has ended:\n%s", g.log)
		default:
		}
		return testrig.Page(context.Background(), g.url+"/ready") != ""
	})
	g.admit(t)
	return g
}

// admit asks as the person until the store has the account. A busy store may refuse the first request of somebody new.
func (g *watched) admit(t *testing.T) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/v1/models", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.person)
	testrig.Eventually(t, "the person has an account", func() bool {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func credentialOf(d protocol.Name) string { return "s3cret-" + string(d) + "-key" }

// cmd returns a command of the program. Its files are below the folder that is searched.
func (g *watched) cmd(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(own, args...)
	cmd.Dir = g.dir
	cmd.Env = environment([]string{testRun + "=" + g.run, "HOME=" + filepath.Join(g.dir, "home"), "TMPDIR=" + filepath.Join(g.dir, "tmp"),
		"ISOGLOSS_OPERATOR_KEY=" + g.operator, "OTEL_EXPORTER_OTLP_HEADERS=authorization=s3cret-collector"})
	return cmd
}

// command runs a command of the program until it exits.
func (g *watched) command(t *testing.T, args ...string) result {
	t.Helper()
	cmd := g.cmd(t, args...)
	cmd.Env[0] = testRun + "=program"
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code is in the result
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// newKey creates a key in the store and returns its text.
func (g *watched) newKey(t *testing.T, name string, flags ...string) string {
	t.Helper()
	r := g.command(t, append([]string{"keys", "create", "-c", g.config, "--json", "--name", name}, flags...)...)
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(r.stdout), &made); err != nil || made.Key == "" {
		t.Fatalf("keys create: %v, %s", err, r.stderr)
	}
	return made.Key
}

// newPerson writes the keys of an issuer to a file and returns a token of one of its people.
func (g *watched) newPerson(t *testing.T, file string) string {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k", Use: "sig", Algorithm: "EdDSA"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, set, 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(map[string]any{"iss": "https://idp.example.com", "aud": "isogloss", "sub": "pr1vate-subject", "email": "pr1vate-person@example.com",
		"name": named + "-person", "groups": []string{"search"}, "exp": time.Now().Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	jws, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	g.credentials = append(g.credentials, strings.Split(token, ".")[1:]...)
	return token
}

// startCaptures attaches two captures, one of them without redaction.
func (g *watched) startCaptures(t *testing.T) {
	t.Helper()
	for _, flags := range [][]string{{"--out", filepath.Join(g.dir, "captures")}, {"--clear", "--out", filepath.Join(filepath.Dir(g.dir), "clear")}} {
		p := watch(t, g.cmd(t, append([]string{"capture", "-c", g.config, "--all", "--count", "100000"}, flags...)...))
		p.log.WaitFor(t, "attached to the gateway", 1, p.ended)
		g.captures = append(g.captures, p)
	}
}

// stopCaptures ends the captures. The files of the first are searched with those of the
// gateway. Those of the second have the texts of prompts and no credential.
func (g *watched) stopCaptures(t *testing.T) {
	t.Helper()
	for _, p := range g.captures {
		p.signal(t, syscall.SIGINT)
		p.exit(t)
		g.wantNone(t, "output of capture", p.log.String()+p.out.String(), private, secret)
	}
	if n := len(g.files(t, filepath.Join(g.dir, "captures"))); n < 50 {
		t.Errorf("there are %d captures", n)
	}
	var clear strings.Builder
	for _, file := range g.files(t, filepath.Join(filepath.Dir(g.dir), "clear")) {
		clear.WriteString(read(t, file))
	}
	g.wantNone(t, "capture without redaction", clear.String(), secret)
	if !strings.Contains(clear.String(), private) {
		t.Error("the captures without redaction have no text")
	}
}

// collector receives telemetry and stores its bytes. It refuses the first request to each
// path with a response that echoes the credentials.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	b     bytes.Buffer
	paths map[string]bool
}

func newCollector(t *testing.T) *collector {
	c := &collector{paths: map[string]bool{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	text, _ := io.ReadAll(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(&c.b, r.URL)
	c.b.Write(text)
	if !c.paths[r.URL.Path] {
		c.paths[r.URL.Path] = true
		http.Error(w, fmt.Sprint(r.Header), http.StatusBadRequest)
	}
}

func (c *collector) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}
