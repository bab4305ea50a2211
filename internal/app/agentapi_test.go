package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// reply is a response that was read.
type reply struct {
	status int
	header http.Header
	body   string
}

// call sends a request with a credential, unless it is empty.
func (g *gateway) call(t *testing.T, method, path string, key secret.String, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const settingsPath = "/managed/settings"

// TestManagedSettings checks that people get the settings of their rule, from all nodes the same, and
// after a reload the new ones.
func TestManagedSettings(t *testing.T) {
	s := newSigner(t)
	dir := t.TempDir()
	file, same := filepath.Join(dir, "search.json"), filepath.Join(dir, "same.json")
	writeText(t, file, `{"permissions":{"deny":["WebFetch"]},"env":{"B":"2","A":"1"}}`)
	writeText(t, same, "{\n  \"env\": {\"A\": \"1\", \"B\": \"2\"},\n  \"permissions\": {\"deny\": [\"WebFetch\"]}\n}\n")
	configuration := func(file string) string {
		return minimal + "keys: [" + staticKey + "]\n" + s.configuration(fmt.Sprintf(`{ when: { groups: search }, settings: %q }, { when: { groups: sales } }`, file))
	}
	g, other := start(t, configuration(file), quick()), start(t, configuration(same), quick())
	ann := s.token(t, "ann", "search")

	got := g.call(t, http.MethodGet, settingsPath, ann, "")
	var doc struct {
		UUID, Checksum string
		Settings       json.RawMessage
	}
	if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
		t.Fatal(got, err)
	}
	tag := got.header.Get("ETag")
	if got.status != http.StatusOK || tag != `"`+doc.Checksum+`"` || doc.UUID == "" || string(doc.Settings) != `{"env":{"A":"1","B":"2"},"permissions":{"deny":["WebFetch"]}}` || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%+v", got)
	}
	if again := other.call(t, http.MethodGet, settingsPath, ann, ""); again.body != got.body {
		t.Errorf("another node: %s, want %s", again.body, got.body)
	}

	for name, c := range map[string]struct {
		method string
		key    secret.String
		known  string // If-None-Match
		status int
	}{
		"known":              {http.MethodGet, ann, tag, http.StatusNotModified},
		"known, weak":        {http.MethodGet, ann, `"x", W/` + tag, http.StatusNotModified},
		"another is known":   {http.MethodGet, ann, `"sha256:00"`, http.StatusOK},
		"any":                {http.MethodGet, ann, "*", http.StatusOK},
		"head":               {http.MethodHead, ann, "", http.StatusOK},
		"options":            {http.MethodOptions, "", "", http.StatusNoContent},
		"another method":     {http.MethodPost, ann, "", http.StatusMethodNotAllowed},
		"rule without":       {http.MethodGet, s.token(t, "sam", "sales"), "", http.StatusNotFound},
		"rule without, any":  {http.MethodGet, s.token(t, "sam", "sales"), "*", http.StatusNotFound},
		"a key of the file":  {http.MethodGet, staticKey, "", http.StatusNotFound},
		"nobody":             {http.MethodGet, "", "", http.StatusUnauthorized},
		"a changed token":    {http.MethodGet, ann[:len(ann)-2], "", http.StatusUnauthorized},
		"not admitted":       {http.MethodGet, s.token(t, "eve", "x"), "", http.StatusForbidden},
		"nobody, and method": {http.MethodPut, "", "", http.StatusUnauthorized},
	} {
		got := g.call(t, c.method, settingsPath, c.key, "", "If-None-Match", c.known)
		if got.status != c.status {
			t.Errorf("%s: %+v, want %d", name, got, c.status)
		}
		if c.status >= 400 && !strings.HasPrefix(got.body, `{"type":"error","error":{"type":"`) {
			t.Errorf("%s: %s", name, got.body)
		}
		if (c.status == http.StatusUnauthorized) != (got.header.Get("X-Should-Retry") == "false") {
			t.Errorf("%s: %v", name, got.header)
		}
		if wrong := c.status == http.StatusMethodNotAllowed || c.status == http.StatusNoContent; wrong && got.header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("%s: %v", name, got.header)
		}
	}

	writeText(t, file, `{}`)
	g.replace(t, configuration(file)+"keep_alive: 5s\n")
	eventually(t, "the settings are read again", func() bool {
		got := g.call(t, http.MethodGet, settingsPath, ann, "", "If-None-Match", tag)
		return got.status == http.StatusOK && strings.HasSuffix(got.body, `"settings":{}}`)
	})
	writeText(t, file, `[]`)
	g.replace(t, configuration(file))
	g.log.waitFor(t, "the changed configuration is refused", 1)
	if got := g.call(t, http.MethodGet, settingsPath, ann, ""); got.status != http.StatusOK {
		t.Errorf("after a refused reload: %+v", got)
	}
	if _, err := (Options{Config: g.file, Env: noEnvironment}).Check(); err == nil || !strings.Contains(err.Error(), "is not an object") {
		t.Errorf("check: %v", err)
	}
}

const usagePath = "/api/oauth/usage"

// messages answers as the Messages API does, with a cost of a cent at a dollar for a million tokens.
func messages(c *upstreamtest.Conn) {
	c.KeepAlive()
	c.Whole(http.StatusOK, "application/json", `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":10000}}`)
}

// TestSpending checks what a person learns about the own budget: in the headers of Messages responses,
// at the cap, and from another node.
func TestSpending(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(messages)
	s := newSigner(t)
	redis, dir := storetest.Redis(t), t.TempDir()
	configuration := func(node string) string {
		return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
node: %s
data: %q
store: { url: "sqlite:%s/isogloss.db", peppers: ["0123456789012345678901234567890123456789"] }
redis: { url: %q }
providers: { up: { protocol: anthropic, base_url: "http://%s" } }
models: { m: { targets: [up/m] } }
prices: { models: { "up/*": { input: 1, output: 1 } } }
keys: [%s]
%s`, node, filepath.Join(dir, node), dir, redis.URL, up.Addr, staticKey, s.configuration(`{ when: { groups: search }, budget: "0.055", window: 24h }, { when: { groups: free } }`))
	}
	keys := keyringOf(t, configuration("keys"))
	one := start(t, configuration("one"), quick())
	two := start(t, configuration("two"), quick())
	ann, joe := s.token(t, "ann", "search"), s.token(t, "joe", "free")
	ask := func(g *gateway, key secret.String) reply {
		t.Helper()
		return g.call(t, http.MethodPost, "/v1/messages", key, `{"model":"m","max_tokens":10000,"messages":[{"role":"user","content":"hi"}]}`, "Content-Type", "application/json", "Anthropic-Version", "2023-06-01")
	}
	type usageReply struct {
		Extra struct {
			Limit  *int64 `json:"monthly_limit"`
			Used   int64  `json:"used_credits"`
			Part   *int64 `json:"utilization"`
			Weekly *struct {
				Used int64 `json:"used_credits"`
			} `json:"weekly"`
		} `json:"extra_usage"`
		Limits []struct {
			Group    string
			Percent  int64
			Resets   time.Time `json:"resets_at"`
			Severity string
			Active   bool `json:"is_active"`
		}
	}
	read := func(g *gateway, key secret.String) (u usageReply, raw reply) {
		t.Helper()
		raw = g.call(t, http.MethodGet, usagePath, key, "")
		if raw.status == http.StatusOK {
			if err := json.Unmarshal([]byte(raw.body), &u); err != nil {
				t.Fatal(raw, err)
			}
		}
		return u, raw
	}

	if u, raw := read(two, ann); raw.status != http.StatusOK || u.Extra.Used != 0 || *u.Extra.Limit != 5 || len(u.Limits) != 1 || u.Limits[0].Severity != "normal" {
		t.Errorf("before the first request: %+v", raw)
	}
	for i := range 5 {
		got := ask(one, ann)
		if got.status != http.StatusOK || got.header.Get("Anthropic-Ratelimit-Unified-Status") == "" {
			t.Fatalf("request %d: %+v", i, got)
		}
	}
	eventually(t, "another node knows what was spent", func() bool {
		u, _ := read(two, ann)
		return u.Extra.Used == 5 && *u.Extra.Part == 90 && u.Limits[0].Group == "daily" && u.Limits[0].Severity == "warning" && u.Limits[0].Active
	})
	refused := ask(two, ann)
	reset := refused.header.Get("Anthropic-Ratelimit-Unified-Overage-Reset")
	if refused.status != http.StatusTooManyRequests || !strings.Contains(refused.body, `"billing_error"`) || refused.header.Get("Anthropic-Ratelimit-Unified-Status") != "rejected" || refused.header.Get("Retry-After") == "" {
		t.Errorf("at the cap: %+v", refused)
	}
	if u, raw := read(one, ann); strconv.FormatInt(u.Limits[0].Resets.Unix(), 10) != reset {
		t.Errorf("%s, want a reset at %s", raw.body, reset)
	}

	if got := ask(one, joe); got.status != http.StatusOK || got.header.Get("Anthropic-Ratelimit-Unified-Status") != "" {
		t.Errorf("without a budget: %+v", got)
	}
	eventually(t, "spending without a budget", func() bool {
		u, raw := read(two, joe)
		return u.Extra.Limit == nil && u.Extra.Used == 1 && u.Extra.Weekly != nil && u.Extra.Weekly.Used <= 1 && len(u.Limits) == 0 && strings.Contains(raw.body, `"limits":[]`)
	})
	if _, raw := read(one, staticKey); raw.status != http.StatusNotFound {
		t.Errorf("a key of the file: %+v", raw)
	}
	made := keys.must(t, quota.Limit{Budget: 2 * usage.Dollar})
	if u, raw := read(one, made.Text); raw.status != http.StatusOK || *u.Extra.Limit != 200 || u.Limits[0].Group != "total" || !strings.Contains(raw.body, `"resets_at":null`) {
		t.Errorf("a key of the store: %+v", raw)
	}
	limited, err := keys.Create(t.Context(), access.Record{Name: "limited", Org: "o1", Models: []string{"*"}, Endpoints: []string{"usage"}, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{usagePath: http.StatusOK, settingsPath: http.StatusForbidden} {
		if got := one.call(t, http.MethodGet, path, limited.Text, ""); got.status != want {
			t.Errorf("a key for one endpoint: %s: %+v, want %d", path, got, want)
		}
	}
	lost := start(t, strings.Replace(configuration("three"), redis.URL, "redis://127.0.0.1:1", 1), quick())
	if _, raw := read(lost, ann); raw.status != 529 || !strings.Contains(raw.body, "usage_unavailable") || raw.header.Get("Retry-After") == "" {
		t.Errorf("without Redis: %+v", raw)
	}
}

// collector is an OTLP receiver.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	got    []*http.Request
	bodies [][]byte
	status int
	wait   chan struct{} // nil: does not wait
}

func newCollector(t *testing.T) *collector {
	c := &collector{status: http.StatusOK}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		c.got, c.bodies = append(c.got, r), append(c.bodies, body)
		status, wait := c.status, c.wait
		c.mu.Unlock()
		if wait != nil {
			<-wait
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("not for clients"))
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) set(status int, wait chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.wait = status, wait
}

func (c *collector) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

// TestTelemetry checks that telemetry of clients reaches the collector as it is, without their
// credentials, and that a collector which fails or hangs is no concern of theirs.
func TestTelemetry(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	c := newCollector(t)
	base := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nkeys: ["+staticKey+"]\nproviders: {p: {protocol: openai-chat, base_url: %q}}\nmodels: {m: {targets: [p/m]}}\n", up.BaseURL())
	relaying, discarding := start(t, base+fmt.Sprintf("telemetry: {endpoint: %q}\n", c.URL), quick()), start(t, base, quick())
	binary := string([]byte{0x0a, 0x00, 0xff})

	for _, g := range []*gateway{relaying, discarding} {
		for _, path := range []string{"/v1/metrics", "/v1/logs", "/v1/traces"} {
			if got := g.call(t, http.MethodPost, path, staticKey, `{"x": 1 }`, "Content-Type", "application/json; charset=utf-8"); got.status != http.StatusOK || got.body != "{}" || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %+v", path, got)
			}
			if got := g.call(t, http.MethodPost, path, staticKey, binary, "Content-Type", "application/x-protobuf", "Content-Encoding", "gzip"); got.status != http.StatusOK || got.body != "" || got.header.Get("Content-Type") != "application/x-protobuf" {
				t.Errorf("%s: %+v", path, got)
			}
		}
		for name, want := range map[string]struct {
			got    reply
			status int
		}{
			"nobody":      {g.call(t, http.MethodPost, "/v1/logs", "", "{}", "Content-Type", "application/json"), http.StatusUnauthorized},
			"wrong key":   {g.call(t, http.MethodPost, "/v1/logs", "sk-other", "{}", "Content-Type", "application/json"), http.StatusUnauthorized},
			"text":        {g.call(t, http.MethodPost, "/v1/logs", staticKey, "{}", "Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
			"too large":   {g.call(t, http.MethodPost, "/v1/logs", staticKey, strings.Repeat("x", 4<<20+1), "Content-Type", "application/json"), http.StatusRequestEntityTooLarge},
			"read":        {g.call(t, http.MethodGet, "/v1/logs", staticKey, ""), http.StatusMethodNotAllowed},
			"options":     {g.call(t, http.MethodOptions, "/v1/logs", "", ""), http.StatusNoContent},
			"another one": {g.call(t, http.MethodPost, "/v1/profiles", staticKey, "{}"), http.StatusNotFound},
		} {
			if want.got.status != want.status {
				t.Errorf("%s: %+v, want %d", name, want.got, want.status)
			}
		}
	}
	if len(c.got) != 6 {
		t.Fatalf("the collector got %d requests, want 6", len(c.got))
	}
	for i, r := range c.got {
		kind, body := "application/json; charset=utf-8", `{"x": 1 }`
		if i%2 == 1 {
			kind, body = "application/x-protobuf", binary
		}
		if r.Header.Get("Content-Type") != kind || string(c.bodies[i]) != body || r.Header.Get("Authorization") != "" || (r.Header.Get("Content-Encoding") == "gzip") != (i%2 == 1) || bytes.Contains(c.bodies[i], []byte("sk-")) {
			t.Errorf("%s: %v %q", r.URL, r.Header, c.bodies[i])
		}
	}

	send := func() reply {
		return relaying.call(t, http.MethodPost, "/v1/traces", staticKey, "{}", "Content-Type", "application/json")
	}
	c.set(http.StatusServiceUnavailable, nil)
	for range 2 {
		if got := send(); got.status != http.StatusOK || got.body != "{}" {
			t.Errorf("while the collector fails: %+v", got)
		}
	}
	c.set(http.StatusOK, nil)
	if got := send(); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	relaying.log.waitFor(t, "telemetry of clients is relayed again", 1)
	if n := strings.Count(relaying.log.String(), "telemetry of clients is lost"); n != 1 {
		t.Errorf("the loss is logged %d times", n)
	}

	// Requests to a collector that hangs take all slots. Others and inference do not wait for them.
	hang := make(chan struct{})
	c.set(http.StatusOK, hang)
	before := c.requests()
	var hanging sync.WaitGroup
	for range 8 {
		hanging.Go(func() { send() })
	}
	eventually(t, "all slots are taken", func() bool { return c.requests() == before+8 })
	if got := send(); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	relaying.want(t, "m", staticKey, http.StatusOK, "")
	if c.requests() != before+8 { // a request that had waited would have had a slot when another one timed out
		t.Errorf("%d requests, want 8", c.requests()-before)
	}
	close(hang)
	hanging.Wait()
}
