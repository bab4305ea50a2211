package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// rig is what the attacks of a group work with.
type rig struct {
	gateway     *testrig.Gateway // nil in groups without one
	up          *testrig.Upstream
	trap        *trap             // of discovered workers
	clouds      *cloudRig         // nil in groups without clouds
	stores      *stores           // nil in groups without real ones
	issuer      *issuer           // nil in groups without people
	ledger      *ledger           // nil in groups without a log of usage events
	documents   []*hostile.Server // of issuers
	credentials *credentials      // nil in groups without sources of credentials
	alerts      *alertServers     // nil in groups without alerts
	alarmed     sync.Once         // that an alert was caused
	local       *place            // nil in groups without a socket for commands
	tls         *tls.Config       // of the admin port; nil: plain HTTP
	bin         string
	weak        bool
	keys        map[string]string         // client and operator keys by the names that attacks use
	ids         map[string]string         // their ids
	scripts     map[string]testrig.Script // of the upstream, by model

	mu       sync.Mutex
	seen     []seen
	searched int // bytes of the log that were searched for secrets
}

// seen is a request that the upstream received.
type seen struct {
	method, uri, model string
	header             http.Header
	body               string
}

func (s seen) String() string {
	return fmt.Sprintf("%s %s with model %q and body %s", s.method, s.uri, s.model, testrig.Clip(s.body, 300))
}

// The operator's secrets. They must not be in any response, log, metric or file.
const (
	providerKey   = "sk-redteam-7f3a9c51d2-e8b4f60a"
	headerSecret  = "hdr-redteam/4c1d+88e0-a5b7"
	querySecret   = "qry-redteam-93be17c2_d04f"
	workerKey     = "wrk-redteam-51fe0d77-6a2c"
	promptCanary  = "prompt-canary-b6d2e9"
	answerCanary  = "answer-canary-c2f4a1" // of an upstream's response
	valueCanary   = "value-canary-9e07d3"  // of a client's header
	operatorNotes = "the operator's secret"
)

// secretForms returns the forms in which a secret may appear in a text.
func secretForms(s string) []string {
	unicode := ""
	for _, c := range s {
		unicode += fmt.Sprintf(`\u%04x`, c)
	}
	reversed := []byte(s)
	slices.Reverse(reversed)
	return []string{s, url.QueryEscape(s), url.PathEscape(s), strings.ReplaceAll(s, "-", `\u002d`), strings.ReplaceAll(s, "-", "%2D"), strings.ReplaceAll(s, "-", "%2d"), unicode,
		hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))), base64.StdEncoding.EncodeToString([]byte(s)), base64.URLEncoding.EncodeToString([]byte(s)),
		base64.RawStdEncoding.EncodeToString([]byte(s)), strings.ReplaceAll(s, "-", `\u002D`)}
}

// findSecrets returns a problem if a text has a secret in any form.
func (r *rig) findSecrets(place, text string) string {
	for _, s := range []string{providerKey, headerSecret, querySecret, workerKey} {
		for _, form := range secretForms(s) {
			if i := strings.Index(text, form); i >= 0 {
				return fmt.Sprintf("%s has %s: %q", place, operatorNotes, testrig.Clip(text[max(0, i-40):], 160))
			}
		}
	}
	return ""
}

// config is a gateway's configuration without listen and admin.
type config struct {
	top       []string
	providers []string
	models    []string
	env       []string
	keys      []keySpec // that the rig creates
}

// keySpec is a key of a rig.
type keySpec struct {
	name string
	role string // of an operator; empty for a client
	body string // members of the admin API's create-key besides the name
}

// dialects returns the dialects whose streams are text. The attacks of clouds.go speak Converse.
func dialects() []testrig.Dialect {
	return []testrig.Dialect{testrig.Chat, testrig.Responses, testrig.Messages, testrig.Gemini}
}

// names of the upstream's targets, one for each dialect.
func targetName(d testrig.Dialect) string {
	return map[testrig.Dialect]string{testrig.Chat: "chat", testrig.Responses: "resp", testrig.Messages: "msgs", testrig.Gemini: "gem"}[d]
}

// provider returns the configuration of a provider.
func provider(name string, d testrig.Dialect, base string, more ...string) string {
	parts := append([]string{"protocol: " + string(d), fmt.Sprintf("base_url: %q", base), "api_key: " + providerKey}, more...)
	return "  " + name + ": { " + strings.Join(parts, ", ") + " }"
}

// standard adds a provider for every dialect and the models NAME/* that lead to it.
func (c *config) standard(up *testrig.Upstream) *config {
	for _, d := range dialects() {
		name := targetName(d)
		more := []string{fmt.Sprintf("headers: { X-Operator-Token: %q }", headerSecret), "retries: 0"}[:1]
		if d == testrig.Chat {
			more = append(more, `paths: ["POST /v1/audio/speech", "GET /v1/files", "POST /v1/files"]`)
		}
		c.providers = append(c.providers, provider(name, d, up.URL(name, d), more...))
		c.models = append(c.models, fmt.Sprintf("  %q: { targets: [%q] }", name+"/*", name+"/*"))
	}
	return c
}

func (c *config) yaml() string {
	lines := append(slices.Clone(c.top), "log: { level: debug, format: json }", "retries: { attempts: 1 }", "providers:")
	lines = append(append(append(lines, c.providers...), "models:"), c.models...)
	return strings.Join(lines, "\n") + "\n"
}

// newRig starts an upstream.
func newRig(o options) (*rig, error) {
	up, err := testrig.NewUpstream()
	if err != nil {
		return nil, err
	}
	up.Lenient = true // whatever reaches it is what counts
	r := &rig{up: up, bin: o.bin, weak: o.prove, keys: map[string]string{}, ids: map[string]string{}, scripts: map[string]testrig.Script{}}
	up.Handle("", r.respond)
	return r, nil
}

// start starts a rig. build returns the configuration of its gateway.
func start(build func(*rig) *config) func(context.Context, options) (*rig, error) {
	return func(ctx context.Context, o options) (*rig, error) {
		r, err := newRig(o)
		if err != nil {
			return nil, err
		}
		c := build(r)
		if r.gateway, err = r.launch(ctx, c); err == nil {
			err = testrig.Run(func() { r.createKeys(ctx, c.keys) })
		}
		if err != nil {
			r.close()
			return nil, err
		}
		return r, nil
	}
}

// launch starts a gateway.
func (r *rig) launch(ctx context.Context, c *config) (*testrig.Gateway, error) {
	env := c.env
	if r.weak {
		env = append(slices.Clone(env), weakVariable+"=1")
	}
	return testrig.StartGateway(ctx, r.bin, c.yaml(), env...)
}

func (r *rig) close() {
	if r.gateway != nil {
		r.gateway.Close()
	}
	r.up.Close()
	if r.clouds != nil {
		r.clouds.server.Close()
	}
	if r.trap != nil {
		_ = r.trap.Close() // it only counts
	}
	if r.stores != nil {
		r.stores.close()
	}
	if r.issuer != nil {
		r.issuer.close()
	}
	if r.ledger != nil {
		r.ledger.close()
	}
	if r.credentials != nil {
		r.credentials.close()
	}
	if r.alerts != nil {
		r.alerts.close()
	}
	if r.local != nil {
		r.local.close()
	}
}

// createKeys creates an owner's key on the command line and the others with it.
func (r *rig) createKeys(ctx context.Context, specs []keySpec) {
	if len(specs) == 0 {
		return
	}
	var owner struct{ ID, Key string }
	out := testrig.Must(r.gateway.Command(ctx, "keys", "create", "-c", r.gateway.Config, "--json", "--role", "owner", "--name", "owner"))
	testrig.NoError(json.Unmarshal(out, &owner))
	r.keys["owner"], r.ids["owner"] = owner.Key, owner.ID
	for _, org := range []string{"a", "b"} {
		r.admin(ctx, "POST", "/api/v1/orgs", fmt.Sprintf(`{"id":%q,"name":"canary-org-%s"}`, org, org))
		r.admin(ctx, "POST", "/api/v1/orgs/"+org+"/teams", fmt.Sprintf(`{"id":"t","name":"canary-team-%s"}`, org))
	}
	for _, s := range specs {
		body := fmt.Sprintf(`"name":"canary-key-%s"`, s.name)
		if s.role != "" {
			body += fmt.Sprintf(`,"role":%q`, s.role)
		}
		if s.body != "" {
			body += "," + s.body
		}
		answer := r.admin(ctx, "POST", "/api/v1/keys", "{"+body+"}")
		r.keys[s.name], r.ids[s.name] = answer.Str("text"), answer.Obj("key").Str("id")
		if r.keys[s.name] == "" {
			testrig.NoError(fmt.Errorf("the key %s was not created: %v", s.name, answer))
		}
	}
}

// admin calls the admin API as the owner.
func (r *rig) admin(ctx context.Context, method, path, body string) testrig.Object {
	e := r.send(ctx, request{method: method, path: path, body: body, key: "owner", admin: true})
	if e.status < 200 || e.status > 299 {
		testrig.NoError(fmt.Errorf("%s %s: status %d: %s", method, path, e.status, testrig.Clip(e.body, 400)))
	}
	return testrig.Parse([]byte(e.body))
}

// respond answers a request at the upstream, by the script of its model.
func (r *rig) respond(c *testrig.Call) bool {
	r.mu.Lock()
	r.seen = append(r.seen, seen{c.Method, c.URI, c.Model, c.Header, string(c.Body)})
	script := r.scripts[c.Model]
	r.mu.Unlock()
	if script != nil {
		return script(c)
	}
	path, _, _ := strings.Cut(c.URI, "?")
	for suffix, body := range otherReplies {
		if strings.HasSuffix(path, suffix) {
			return c.Respond(http.StatusOK, testrig.JSONMedia, body)
		}
	}
	return testrig.Answer("up")(c)
}

// otherReplies are responses of endpoints that generate nothing.
var otherReplies = map[string]string{
	"/completions/":       "",
	"/v1/completions":     `{"id":"c1","object":"text_completion","created":1,"model":"up","choices":[{"index":0,"text":"hi","logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
	"/v1/embeddings":      `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"up","usage":{"prompt_tokens":1,"total_tokens":1}}`,
	"/v1/rerank":          `{"id":"r1","results":[{"index":0,"relevance_score":0.9}]}`,
	"/count_tokens":       `{"input_tokens":3}`,
	":countTokens":        `{"totalTokens":3}`,
	":embedContent":       `{"embedding":{"values":[0.1]}}`,
	":batchEmbedContents": `{"embeddings":[{"values":[0.1]}]}`,
	"/v1/audio/speech":    `{"audio":"x"}`,
	"/v1/files":           `{"data":[]}`,
}

// take returns the requests that the upstream received since the last call.
func (r *rig) take() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.seen
	r.seen = nil
	return all
}

// address returns the host and port of the data port or of the admin port.
func (r *rig) address(admin bool) string {
	if admin {
		return strings.TrimPrefix(r.gateway.Admin, "http://")
	}
	return strings.TrimPrefix(r.gateway.URL, "http://")
}

// dial connects to the gateway, from another loopback address if one is given.
func (r *rig) dial(ctx context.Context, admin bool, from string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := d.DialContext(ctx, "tcp", r.address(admin))
	if err != nil || !admin || r.tls == nil {
		return conn, err
	}
	return tls.Client(conn, r.tls), nil
}
