package app

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const testIssuer = "https://idp.example.com/realms/main"

// signer makes tokens of testIssuer. Its public key is in a file.
type signer struct {
	key  ed25519.PrivateKey
	file string
}

func newSigner(t *testing.T) *signer {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{private, filepath.Join(t.TempDir(), "jwks.json")}
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k", Use: "sig", Algorithm: "EdDSA"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *signer) token(t *testing.T, subject string, groups ...string) secret.String {
	t.Helper()
	js, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: s.key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"iss": testIssuer, "aud": "isogloss", "sub": subject, "groups": groups, "exp": time.Now().Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	jws, err := js.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return secret.String(token)
}

func (s *signer) configuration(rules string) string {
	return fmt.Sprintf("identity: { issuers: [{ issuer: %q, audiences: [isogloss], jwks: %q, rules: [%s] }] }\n", testIssuer, s.file, rules)
}

// TestPeople checks that people with tokens are admitted by the rules, have an account with a limit
// and rows in the ledger, use the admin API by their role, and are locked out when revoked.
func TestPeople(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusOK, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`))
	s := newSigner(t)
	data := t.TempDir()
	configuration := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
data: %q
store: sqlite
providers: { chat: { protocol: openai-chat, base_url: "http://%s/v1" } }
models: { m: { targets: [chat/m] }, n: { targets: [chat/n] } }
prices: { models: { "chat/*": { input: 1, output: 1 } } }
%s`, data, up.Addr, s.configuration(`{ when: { groups: ops }, org: acme, role: auditor }, { when: { groups: search }, org: acme, team: search, models: [m], requests_per_minute: 3 }`))
	keys := keyringOf(t, configuration)
	g := start(t, configuration, pace{})

	ann, eve, ops := s.token(t, "ann", "search"), s.token(t, "eve", "sales"), s.token(t, "olga", "ops")
	g.want(t, "m", ann, 200, "")
	g.want(t, "n", ann, 403, "model_not_allowed")
	g.want(t, "m", eve, 403, "not_admitted")
	g.want(t, "m", ann[:len(ann)-2], 401, "invalid_token")
	g.want(t, "m", "", 401, "no API key was sent")
	g.want(t, "m", ann, 200, "")
	g.want(t, "m", ann, 200, "")
	g.want(t, "m", ann, 429, "")

	id := access.PersonID("acme", testIssuer, "ann")
	eventually(t, "the ledger has the requests", func() bool {
		n := 0
		for _, r := range rowsOf(t, data) {
			if r.Key == id && r.Team == "search" && r.Org == "acme" {
				n++
			}
		}
		return n >= 3
	})

	for token, want := range map[secret.String]int{ops: 200, ann: 403, eve: 403} {
		req, _ := http.NewRequest(http.MethodGet, "http://"+g.adminAddress(t)+"/api/v1/keys?org=acme", http.NoBody)
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
		resp, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("admin API: %d, want %d", resp.StatusCode, want)
		}
	}

	if _, err := keys.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a revoked person is refused", func() bool {
		status, body, _ := g.try(t, "m", ann)
		return status == 403 && strings.Contains(body, "revoked_account")
	})
}

// TestPeopleWithoutStore checks that identity alone opens the gateway, and only to those whom it
// admits.
func TestPeopleWithoutStore(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusOK, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`))
	s := newSigner(t)
	g := start(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nproviders: { chat: { protocol: openai-chat, base_url: \"http://%s/v1\" } }\nmodels: { m: { targets: [chat/m] } }\n%s",
		up.Addr, s.configuration("{ when: { groups: search }, team: search }")), quick())
	g.want(t, "m", s.token(t, "ann", "search"), 200, "")
	g.want(t, "m", s.token(t, "eve"), 403, "not_admitted")
	g.want(t, "m", "sk-any", 401, "invalid_api_key")
	g.want(t, "m", "", 401, "")
}

// TestExplainToken checks the words of explain.
func TestExplainToken(t *testing.T) {
	s := newSigner(t)
	file := filepath.Join(t.TempDir(), "isogloss.yaml")
	if err := os.WriteFile(file, []byte(minimal+s.configuration("{ when: { groups: search }, team: search }")), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Config: file, Env: noEnvironment}
	for token, want := range map[secret.String]string{
		s.token(t, "ann", "x", "search"): "team search, because groups contains search",
		s.token(t, "eve", "x"):           "refused: the token is valid, but no rule",
		"eyJ.a.b":                        "refused: the token's issuer is not configured",
	} {
		if got, err := o.ExplainToken(t.Context(), token.Reveal()+"\n"); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

// TestBudgetsOfARule checks that one budget of a rule and several of them become limits.
func TestBudgetsOfARule(t *testing.T) {
	for text, want := range map[string]quota.Limit{
		"budget: 50, window: 720h": {Budget: 50 * usage.Dollar, Window: 720 * time.Hour},
		"budget: 0":                {},
		"budgets: [{ budget: 5, window: 24h }, { budget: 50, window: 720h }, { budget: 500 }]": {Budget: 5 * usage.Dollar, Window: 24 * time.Hour, More: "50000000000/2592000000000000 500000000000/0"},
	} {
		file := filepath.Join(t.TempDir(), "isogloss.yaml")
		configuration := "store: sqlite\nidentity: { issuers: [{ issuer: https://idp.example.com, audiences: [a], rules: [{ " + text + " }] }] }\n" +
			"providers: { up: { protocol: openai-chat, base_url: http://127.0.0.1:1/v1 } }\nmodels: { m: { targets: [up/m] } }\n"
		if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Options{Config: file, Env: noEnvironment}.LoadConfig()
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Identity[0].Rules[0].Grant.Limit; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}
