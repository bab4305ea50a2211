package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// source is a server that issues credentials of a cloud.
type source struct {
	name     string
	provider string // settings of the provider
	honest   string // with END and UNIX for its end
	members  []string
	fits     []string // answers that have a credential; the AWS SDK reads no further than its end, the library of Azure reads dates
	behind   func(r *http.Request) string
	env      func(u, dir string) []string
}

// failPause is a little more than the time for which the gateway repeats a failed fetch's error.
const failPause = 1200 * time.Millisecond

func sources() []source {
	none := func(*http.Request) string { return "" }
	const keys = `{"AccessKeyId":"ASIAREDTEAM","SecretAccessKey":"secret-of-test","Token":"token-of-test","Expiration":"END","Code":"Success"}`
	aws := "auth: aws, region: eu-central-1"
	return []source{
		{"container", aws, keys, []string{"AccessKeyId", "SecretAccessKey", "Expiration"}, []string{"two", "cut by the connection", "Expiration is missing", `Expiration is "null"`, `Expiration is "\"9999-12-31T23:59:59Z\""`}, none, func(u, dir string) []string {
			token := filepath.Join(dir, "pod-token")
			testrig.NoError(os.WriteFile(token, []byte(headerSecret), 0o600))
			return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + u + "/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=" + token}
		}},
		{"instance", aws, keys, []string{"AccessKeyId", "SecretAccessKey", "Expiration", "Code"}, []string{"two", `Expiration is "\"9999-12-31T23:59:59Z\""`}, func(r *http.Request) string {
			return map[bool]string{true: "role-of-instance"}[strings.HasSuffix(r.URL.Path, "/security-credentials/")] + map[bool]string{true: headerSecret}[r.Method == http.MethodPut]
		}, func(u, _ string) []string { return []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + u} }},
		{"google", "auth: google", `{"access_token":"token-of-test","expires_in":LIFE,"token_type":"Bearer"}`, []string{"access_token", "expires_in"}, []string{`expires_in is "9223372036854775807"`}, none,
			func(u, _ string) []string { return []string{"GCE_METADATA_HOST=" + strings.TrimPrefix(u, "http://")} }},
		{"azure", "auth: azure", `{"access_token":"token-of-test","expires_on":"UNIX","resource":"r","token_type":"Bearer"}`, []string{"access_token", "expires_on"}, []string{`expires_on is "\"9999-12-31T23:59:59Z\""`}, none,
			func(u, _ string) []string {
				return []string{"IDENTITY_ENDPOINT=" + u + "/token", "IDENTITY_HEADER=" + headerSecret}
			}},
	}
}

// filled returns the honest answer with an end after a time.
func (s source) filled(life time.Duration) string {
	end := time.Now().Add(life)
	return strings.NewReplacer("END", end.UTC().Format(time.RFC3339), "UNIX", fmt.Sprint(end.Unix()), "LIFE", fmt.Sprint(int(life.Seconds()))).Replace(s.honest)
}

// credentials is the server of a source.
type credentials struct {
	source            source
	server, elsewhere *httptest.Server
	astray            atomic.Int64
	dir               string // of its files

	mu     sync.Mutex
	answer *hostile.Server
}

func newCredentials(s source) *credentials {
	c := &credentials{source: s, dir: testrig.Must(os.MkdirTemp("", "redteam-metadata-"))}
	c.elsewhere = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.astray.Add(1) }))
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		w.Header().Set("Content-Type", testrig.JSONMedia)
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		if text := s.behind(r); text != "" {
			_, _ = w.Write([]byte(text)) // a gateway that has gone
			return
		}
		c.mu.Lock()
		answer := c.answer
		c.mu.Unlock()
		answer.ServeHTTP(w, r)
	}))
	return c
}

func (c *credentials) close() {
	c.server.CloseClientConnections()
	c.server.Close()
	c.elsewhere.Close()
	_ = os.RemoveAll(c.dir)
}

// set sets the answer to all requests from now on.
func (c *credentials) set(a hostile.Answer) *hostile.Server {
	h := hostile.New()
	h.Answer = a
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = h
	return h
}

// metadataAttacks have a source answer anything. No request may be sent with a credential from
// that answer.
func metadataAttacks(s source) (all []attack) {
	for _, a := range hostile.Answers(s.filled(time.Hour), "http://elsewhere") {
		member, value, changed := strings.Cut(a.Name, " is ")
		text := strings.HasPrefix(value, `"\"`) && value != `"\"\""` && member != "Expiration" && member != "expires_in" && member != "expires_on" && member != "Code"
		if changed && (!slices.Contains(s.members, member) || text) || slices.Contains(s.fits, a.Name) {
			continue
		}
		do := func(ctx context.Context, r *rig) *evidence {
			var h *hostile.Server
			for _, real := range hostile.Answers(s.filled(time.Hour), r.credentials.elsewhere.URL) {
				if real.Name == a.Name {
					h = r.credentials.set(real)
				}
			}
			testrig.Pause(ctx, failPause)
			e := r.send(ctx, request{path: "/v1/chat/completions", body: `{"model":"cloud/m","messages":[{"role":"user","content":"hi"}]}`})
			e.sent = "the answer " + a.Name + " of " + s.name + " for " + e.sent
			e.problem(h.Sent.Load() > mostRead, "%d bytes of an answer without an end were read", h.Sent.Load())
			n := r.credentials.astray.Swap(0)
			e.problem(n > 0, "%d requests went to another server", n)
			return e
		}
		all = append(all, attack{name: "metadata/" + s.name + "/" + a.Name, do: do, holds: []oracle{serves(400, 401, 403, 500, 502, 503, 504), forwardsNothing}})
	}
	return all
}

// metadataRig starts a gateway with a cloud's credential, which is served at first and then ends.
func metadataRig(s source) func(context.Context, options) (*rig, error) {
	return func(ctx context.Context, o options) (*rig, error) {
		var c *credentials
		if err := testrig.Run(func() { c = newCredentials(s) }); err != nil {
			return nil, err
		}
		c.set(hostile.Fixed("none", "{}"))
		r, err := start(func(r *rig) *config {
			r.credentials = c
			built := &config{env: s.env(c.server.URL, c.dir)}
			if r.weak {
				built.env = append(built.env, weakCredentials+"="+c.server.URL+"/token")
			}
			built.providers = []string{fmt.Sprintf("  cloud: { protocol: openai-chat, base_url: %q, %s }", r.up.URL("cloud", testrig.Chat), s.provider)}
			built.models = []string{`  "cloud/*": { targets: ["cloud/*"] }`}
			return built
		})(ctx, o)
		if err != nil {
			c.close()
			return nil, err
		}
		if err := testrig.Run(func() { r.endCredential(ctx) }); err != nil {
			r.close()
			return nil, err
		}
		return r, nil
	}
}

// endCredential checks that an honest credential is used, and waits until it has ended.
func (r *rig) endCredential(ctx context.Context) {
	ask := func() int {
		return r.send(ctx, request{path: "/v1/chat/completions", body: `{"model":"cloud/m","messages":[{"role":"user","content":"hi"}]}`}).status
	}
	s := r.credentials.source
	testrig.NoError(testrig.Until(ctx, patience, "an honest credential is not used", func() bool {
		r.credentials.set(hostile.Fixed("honest", s.filled(5*time.Second)))
		return ask() == 200
	}))
	r.credentials.set(hostile.Fixed("none", "{}"))
	testrig.NoError(testrig.Until(ctx, patience, "a credential that has ended is used", func() bool { return ask() != 200 || r.weak }))
}
