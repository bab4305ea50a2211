package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/nodes"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	pepperText   = "pepper-canary-0123456789abcdef-0123456789abcdef"
	providerText = "sk-provider-canary-0123456789"
)

// world is the admin API over a real store. It has two organisations with a team and a request each.
type world struct {
	t       *testing.T
	store   *store.Store
	peppers access.Peppers
	config  *fakeConfig
	options Options
	log     *testrig.Log
	url     string
	runner  *fakeRunner
	file    string            // of the SQLite store
	keys    map[string]string // a client's key of each organisation
}

// fakeConfig is a configuration with a provider's key.
type fakeConfig struct {
	key      secret.String
	mistakes []openapi.Mistake
	err      error
	reloads  int
}

func (c *fakeConfig) Effective() Configuration {
	return Configuration{Path: "isogloss.yaml", Loaded: time.Unix(1, 0).UTC(), Text: fmt.Sprintf("providers: { up: { api_key: %q } }", c.key)}
}

func (c *fakeConfig) Reload(context.Context) ([]openapi.Mistake, error) {
	c.reloads++
	return c.mistakes, c.err
}

type fakeTargets struct{}

func (fakeTargets) Targets() []Target {
	return []Target{{Target: "up/model", Models: []string{"m"}, TargetState: fleet.TargetState{State: fleet.Ready, Open: 2}}}
}

func (fakeTargets) Models(context.Context) models.Listing {
	target := models.ListedTarget{Target: "up/model", Protocol: "openai-chat", BaseURL: "http://127.0.0.1/v1", Weight: 1, TargetState: &fleet.TargetState{State: "ready", Open: 2}}
	return models.Listing{Models: []models.ListedModel{{Model: "m", Route: "m", Balance: "order", Targets: []models.ListedTarget{target}}}}
}

// Explain knows one model, which the request or the caller names.
func (fakeTargets) Explain(dialect, model string, body []byte) (*fleet.Explanation, *llm.Error) {
	var request struct {
		Model string `json:"model"`
	}
	if json.Unmarshal(body, &request) != nil || request.Model != "m" {
		return nil, &llm.Error{Kind: llm.NotFound, Message: "there is no such model"}
	}
	return &fleet.Explanation{Model: cmp.Or(request.Model, model), Dialect: dialect, Route: "m", Balance: "order", Params: []byte(`{"defaults":{}}`),
		Targets: []fleet.ExplainedTarget{{Target: "up/model", Protocol: dialect, Place: 1, Lane: "verbatim", MaxCost: "0.5", TargetState: fleet.TargetState{State: "ready"}}}}, nil
}

// fakeRunner is a client port that responds with "{}", unless serve is set.
type fakeRunner struct {
	serve func(w http.ResponseWriter, r *http.Request)
}

func (f *fakeRunner) Run(key access.Record, begin func(id, model string) *llm.Error, w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/v1/chat/completions" {
		return false
	}
	_, fault := access.NewDelegate(key, begin).Check(r)
	if fault == nil {
		fault = begin("00000000-0000-4000-8000-00000000000f", "m\n"+strings.Repeat("x", 500))
	}
	switch {
	case fault != nil:
		w.WriteHeader(fault.HTTPStatus())
		_, _ = io.WriteString(w, fault.Code)
	case f.serve != nil:
		f.serve(w, r)
	default:
		_, _ = io.WriteString(w, "{}")
	}
	return true
}

// fakeSelf is this node.
type fakeSelf struct{}

const selfConfig = `[["listen","here"],["retries.attempts","3"]]`

func (fakeSelf) Node() store.Node {
	return store.Node{ID: "gw-1.a", Name: "gw-1", Version: "1.2", Started: time.Unix(1, 0), Seen: time.Now(), Config: nodes.Digest(selfConfig), Loaded: time.Unix(2, 0), Open: 4, Waiting: 5, Oldest: time.Second}
}

func (fakeSelf) Config() string { return selfConfig }

// fakeSessions begins a session with everything.
type fakeSessions struct{}

func (fakeSessions) BeginSession(context.Context, *http.Request) (*http.Cookie, time.Time, error) {
	return &http.Cookie{Name: "session", Value: "secret"}, time.Now().Add(time.Hour), nil
}

type fakeLimits struct{}

func (fakeLimits) Use(_ context.Context, _ string, a quota.Account) (Use, error) {
	return Use{Requests: 3, Tokens: 40, Concurrency: 1, Spent: a.Limit.Budget / 2}, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "isogloss.db")
	w := newWorldAt(t, "sqlite:"+file, testrig.Patience)
	w.file = file
	return w
}

// newWorldAt uses another store. The API's calls of it have the given timeout; those of the test are patient.
func newWorldAt(t *testing.T, url string, patience time.Duration) *world {
	t.Helper()
	peppers, err := access.NewPeppers([]secret.String{pepperText})
	if err != nil {
		t.Fatal(err)
	}
	open := func(timeout time.Duration) *store.Store {
		st, err := store.Open(t.Context(), url, store.Options{Migrate: true, Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		testrig.EventuallyNil(t, "the tables are there", st.Ready)
		return st
	}
	st := open(testrig.Patience)
	own := st
	if patience != testrig.Patience {
		st = open(patience)
	}
	w := &world{t: t, keys: map[string]string{}, store: own, peppers: peppers, log: &testrig.Log{}, config: &fakeConfig{key: providerText}, runner: &fakeRunner{}}
	logger := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.options = Options{
		Operators: access.NewDirectory(access.DirectoryOptions{Source: st, Peppers: peppers, Logger: logger}),
		Peppers:   peppers, Keys: st, Tenants: st, Ledger: st, Audit: st,
		Nodes: st, Self: fakeSelf{}, Targets: fakeTargets{}, Config: w.config, Limits: fakeLimits{}, Runner: w.runner, Sessions: fakeSessions{}, Loopback: true, Logger: logger,
	}
	for _, org := range []string{"a", "b"} {
		w.must(own.CreateTenant(t.Context(), store.Tenant{Org: org, Name: "Org " + org, Created: time.Now()}))
		w.must(own.CreateTenant(t.Context(), store.Tenant{Org: org, Team: "t", Created: time.Now()}))
		w.append(org, []usage.Row{{
			ID: requestOf(org), Node: "n", Org: org, Team: "t", Key: "k" + org, Began: time.Now().Add(-time.Minute), Took: time.Second,
			Model: "m", Target: "up/model", Status: 200, Outcome: usage.Answered, Usage: llm.Usage{Input: 10, Output: 5}, Cost: new(usage.Money(1_500)),
			Fidelity: "dropped", Losses: []usage.Loss{{Code: "seed.unsupported", Path: "seed"}}, MoreLosses: 1, Client: usage.Client{Person: "Ada " + org, Agent: "curl/8", Trace: "0af7"},
			Queue: time.Millisecond, FirstByte: 2 * time.Millisecond, FirstToken: 300 * time.Millisecond,
			Attempts: []usage.Attempt{{Target: "up/other", Status: 503, Fault: "unavailable"}, {Target: "up/model", Status: 200, Charged: true, Usage: llm.Usage{Input: 10, Output: 5},
				Times: usage.Times{Connect: 1e6, FirstByte: 2e6, FirstToken: 3e6}, Rates: usage.Rates{Input: 100e6, Output: 100e6}}},
		}})
	}
	return w
}

// append adds rows to the ledger as a log.
func (w *world) append(log string, rows []usage.Row) {
	_, err := w.store.Append(w.t.Context(), usage.Batch{Log: log, To: int64(len(rows)), Rows: rows})
	w.must(err)
}

// requestOf returns the id of an organisation's request.
func requestOf(org string) string {
	n := map[string]string{"a": "1", "b": "2"}[org]
	return "00000000-0000-4000-8000-00000000000" + cmp.Or(n, "0")
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// serve starts the API with the current options.
func (w *world) serve() *world {
	server := httptest.NewServer(New(w.options))
	w.t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	w.url = server.URL
	return w
}

// key creates a key and returns its id and its text.
func (w *world) key(r access.Record) (id, text string) {
	w.t.Helper()
	env := access.EnvLive
	if r.Role != "" {
		env = access.EnvAdmin
	}
	id, sec, whole := access.Mint(env)
	r.ID, r.Digests, r.Created = id, []access.Digest{w.peppers.Digest(id, sec)}, time.Now()
	if r.Name == "" {
		r.Name = "test"
	}
	w.must(w.store.CreateKey(w.t.Context(), r))
	return id, whole.Reveal()
}

func (w *world) operator(role access.Role, org string) string {
	w.t.Helper()
	_, text := w.key(access.Record{Role: role, Org: org})
	return text
}

func (w *world) client(org string) string {
	w.t.Helper()
	id, _ := w.key(access.Record{Org: org, Team: "t", Models: []string{"*"}})
	return id
}

// got is a response.
type got struct {
	status int
	header http.Header
	body   string
}

// send sends a request; an empty body sends none.
func (w *world) send(key, method, path, body string, edit ...func(*http.Request)) got {
	w.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, reader)
	w.must(err)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edit {
		e(r)
	}
	resp, err := http.DefaultClient.Do(r)
	w.must(err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	w.must(err)
	return got{resp.StatusCode, resp.Header, string(text)}
}

// read decodes a response that must have the status.
func read[T any](t *testing.T, g got, status int) T {
	t.Helper()
	var v T
	if g.status != status {
		t.Fatalf("status %d, want %d: %s", g.status, status, g.body)
	}
	if err := json.Unmarshal([]byte(g.body), &v); err != nil {
		t.Fatalf("%v: %s", err, g.body)
	}
	return v
}

// refusal checks that a response is a problem with the status, the code and a detail.
func (w *world) refusal(g got, status int, code string) {
	w.t.Helper()
	p := read[openapi.Problem](w.t, g, status)
	if p.Code != code || p.Status != status || p.Detail == "" || p.Title == "" || g.header.Get("Content-Type") != "application/problem+json" {
		w.t.Errorf("%s %s, want code %s", g.header.Get("Content-Type"), g.body, code)
	}
}
