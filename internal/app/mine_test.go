package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// ownKeyRules lets people of a group have two keys with a prefix of models, and a budget of five dollars.
const ownKeyRules = `{ when: { groups: search }, org: acme, team: search, budget: "5", own_keys: { max: 2, expires: 48h, models: [fast, "sm*"] } }, { when: { groups: sales }, org: acme }`

// onBoth runs a test with a gateway on SQLite and one on PostgreSQL.
func onBoth(t *testing.T, more string, test func(t *testing.T, g *gateway, keys *Keyring, up *upstreamtest.Server)) {
	for name, store := range map[string]string{"sqlite": "sqlite", "postgres": ""} {
		t.Run(name, func(t *testing.T) {
			if store == "" {
				store = fmt.Sprintf("{ url: %q, peppers: [%q] }", storetest.Postgres(t).URL, strings.Repeat("0", 64))
			}
			up := upstreamtest.New(t)
			up.Answer(expensive)
			configuration := stored(up, t.TempDir(), store, "  smart: { targets: [up/real] }\n  other: { targets: [up/real] }\n"+more)
			keys := keyringOf(t, configuration)
			test(t, start(t, configuration, quick()), keys, up)
		})
	}
}

// mine calls an endpoint about the client itself and decodes the result.
func (g *gateway) mine(t *testing.T, key secret.String, method, path, body string, want int, out any) string {
	t.Helper()
	r := g.call(t, method, path, key, body, "Content-Type", "application/json")
	if r.status != want {
		t.Fatalf("%s %s: %d %s, want %d", method, path, r.status, r.body, want)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(r.body), out); err != nil {
			t.Fatal(err, r.body)
		}
	}
	return r.body
}

type ownKey struct {
	Key struct {
		ID, Name, State string
		Expires         time.Time
		Models          []string
	}
	Text secret.String
}

// TestOwnUsage shows a client's key what it has used, its limits and its last refusals, and nothing of another key.
func TestOwnUsage(t *testing.T) {
	onBoth(t, "", func(t *testing.T, g *gateway, keys *Keyring, _ *upstreamtest.Server) {
		limit := quota.Limit{Requests: 2, Tokens: 1_000_000}
		if err := limit.SetBudgets([]budget.Budget{{Amount: 9 * usage.Dollar, Window: 24 * time.Hour}}); err != nil {
			t.Fatal(err)
		}
		mine, others := keys.must(t, limit), keys.must(t, quota.Limit{})
		g.want(t, "fast", mine.Text, 200, "choices")
		g.want(t, "smart", mine.Text, 200, "choices")
		g.want(t, "fast", mine.Text, 429, "rate_limit_requests")
		g.want(t, "other", others.Text, 200, "choices")
		var used struct {
			Total struct {
				Requests, Refused int64
				Cost              string
			}
			Days     []struct{ Day, Model, Cost string }
			Refused  []struct{ Reason string }
			Refusals []struct{ Request, Code, Message, Remedy string }
		}
		testrig.EventuallyNil(t, "usage has the requests", func() error {
			body := g.mine(t, mine.Text, "GET", "/v1/usage", "", 200, &used)
			if used.Total.Requests != 2 || used.Total.Refused != 1 || len(used.Days) != 2 || len(used.Refusals) != 1 {
				return fmt.Errorf("%s", body)
			}
			if strings.Contains(body, "other") || strings.Contains(body, others.ID) {
				t.Errorf("it tells of another key: %s", body)
			}
			return nil
		})
		if used.Total.Cost != "2" && used.Total.Cost != "2.00002" && !strings.HasPrefix(used.Total.Cost, "2") {
			t.Errorf("%+v", used)
		}
		if r := used.Refusals[0]; r.Code != "rate_limit_requests" || r.Message == "" || r.Remedy == "" {
			t.Errorf("%+v", r)
		}
		var shown struct {
			ID     string
			Person bool
			Models []string
			Limits []struct {
				Of       string
				Requests int64 `json:"requests_per_minute"`
			}
			Budgets []struct{ Of, Name, Budget, Spent, Left string }
			OwnKeys any `json:"own_keys"`
		}
		g.mine(t, mine.Text, "GET", "/v1/key", "", 200, &shown)
		if shown.ID != mine.ID || shown.Person || len(shown.Limits) != 1 || shown.Limits[0].Requests != 2 || len(shown.Budgets) != 1 || shown.Budgets[0].Budget != "9" || shown.Budgets[0].Spent == "0" || shown.OwnKeys != nil {
			t.Errorf("%+v", shown)
		}
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/v1/key", `{"name":"n"}`}, {"POST", "/v1/key/" + mine.ID + "/rotate", ""}, {"DELETE", "/v1/key/" + mine.ID, ""}, {"DELETE", "/v1/key/" + others.ID, ""},
		} { // a key is not a person
			if body := g.mine(t, mine.Text, c.method, c.path, c.body, 403, nil); !strings.Contains(body, "person_only") {
				t.Errorf("%s %s: %s", c.method, c.path, body)
			}
		}
		for _, path := range []string{"/v1/usage?days=0", "/v1/usage?days=93", "/v1/usage?days=x"} {
			g.mine(t, mine.Text, "GET", path, "", 400, nil)
		}
		for _, path := range []string{"/v1/usage", "/v1/key"} {
			g.mine(t, "", "GET", path, "", 401, nil)
			g.mine(t, staticKey, "GET", path, "", 404, nil)
		}
	})
}

// TestOwnKeys lets people create, rotate and revoke their own keys: within the rule, also if they create them at once; the
// requests are the person's, with the person's budget; and the keys end with the person.
func TestOwnKeys(t *testing.T) {
	s := newSigner(t)
	onBoth(t, s.configuration(ownKeyRules), func(t *testing.T, g *gateway, keys *Keyring, _ *upstreamtest.Server) {
		ann, bob, eve := s.token(t, "ann", "search"), s.token(t, "bob", "search"), s.token(t, "eve", "sales")
		for body, code := range map[string]string{
			`{"name":"n","models":["other"]}`: "model_not_allowed", `{"name":"n","models":["*"]}`: "model_not_allowed", `{"name":"n","models":["s*"]}`: "model_not_allowed",
			`{"name":"n","models":["fast","fast*"]}`:                                                    "model_not_allowed",
			fmt.Sprintf(`{"name":"n","expires":%q}`, time.Now().Add(49*time.Hour).Format(time.RFC3339)): "expires_too_late",
		} {
			if text := g.mine(t, ann, "POST", "/v1/key", body, 403, nil); !strings.Contains(text, code) {
				t.Errorf("%s: %s", body, text)
			}
		}
		for _, body := range []string{`{}`, `{"name":""}`, `{"name":"\u0007"}`, `{"name":"n","owner":"person_x"}`, `{"name":"n","org":"default"}`, `{"name":"n","expires":"never"}`,
			`{"name":"n","expires":"2001-01-01T00:00:00Z"}`, `{"name":"n","models":[""]}`, `[]`, `{"name":"` + strings.Repeat("n", 20<<10) + `"}`} {
			g.mine(t, ann, "POST", "/v1/key", body, 400, nil)
		}
		if text := g.mine(t, eve, "POST", "/v1/key", `{"name":"n"}`, 403, nil); !strings.Contains(text, "own_keys_not_allowed") {
			t.Error(text)
		}

		var made [8]ownKey // of which two may exist
		var all sync.WaitGroup
		var created atomic.Int64
		for i := range made {
			all.Go(func() {
				r := g.call(t, "POST", "/v1/key", ann, fmt.Sprintf(`{"name":"key %d"}`, i), "Content-Type", "application/json")
				switch {
				case r.status == 201 && json.Unmarshal([]byte(r.body), &made[i]) == nil:
					created.Add(1)
				case r.status != 403 || !strings.Contains(r.body, "too_many_keys"):
					t.Errorf("%d %s", r.status, r.body)
				}
			})
		}
		all.Wait()
		if created.Load() != 2 {
			t.Fatalf("%d keys at once, and 2 are allowed", created.Load())
		}
		var valid []ownKey
		for _, k := range made {
			if k.Text != "" {
				valid = append(valid, k)
			}
		}
		first, second := valid[0], valid[1]
		if d := time.Until(first.Key.Expires); d > 48*time.Hour || d < 47*time.Hour || strings.Join(first.Key.Models, " ") != "fast sm*" {
			t.Errorf("%+v", first.Key)
		}

		g.want(t, "fast", first.Text, 200, "choices")
		g.want(t, "smart", first.Text, 200, "choices")
		g.want(t, "other", first.Text, 403, "model_not_allowed")
		g.want(t, "other", ann, 200, "choices")
		g.want(t, "fast", second.Text, 200, "choices")
		g.want(t, "fast", second.Text, 200, "choices") // the fifth dollar
		for _, k := range []secret.String{first.Text, second.Text, ann} {
			g.want(t, "fast", k, 429, "budget")
		}
		g.want(t, "fast", bob, 200, "choices")
		var used struct{ Total struct{ Requests int64 } }
		testrig.Eventually(t, "usage of the person has all requests", func() bool {
			g.mine(t, first.Text, "GET", "/v1/usage", "", 200, &used)
			return used.Total.Requests == 5
		})

		// Keys of others, and such that do not exist, cannot be told apart.
		unknown := strings.Repeat("0", len(first.Key.ID))
		for _, c := range []struct{ method, suffix string }{{"DELETE", ""}, {"POST", "/rotate"}} {
			foreign := g.mine(t, bob, c.method, "/v1/key/"+first.Key.ID+c.suffix, "", 404, nil)
			if none := g.mine(t, bob, c.method, "/v1/key/"+unknown+c.suffix, "", 404, nil); none != foreign {
				t.Errorf("%s: %s\n%s", c.method, foreign, none)
			}
		}
		owner := keys.operator(t, access.Owner)
		if r := g.run(t, owner.Text, first.Key.ID, "fast"); r.status != 403 || !strings.Contains(r.body, "person_only") {
			t.Errorf("an operator uses a person's key: %d %s", r.status, r.body)
		}
		if _, err := keys.RotateKey(t.Context(), first.Key.ID, 0); err == nil || !strings.Contains(err.Error(), "belongs to a person") {
			t.Errorf("an operator gets the secret of a person's key: %v", err)
		}

		var next ownKey
		g.mine(t, ann, "POST", "/v1/key/"+first.Key.ID+"/rotate", "", 200, &next)
		testrig.Eventually(t, "the old secret has ended", func() bool {
			status, _, _ := g.try(t, "nothing", first.Text)
			return status == 401
		})
		g.want(t, "other", next.Text, 403, "model_not_allowed")
		g.mine(t, ann, "POST", "/v1/key", `{"name":"third"}`, 403, nil)
		g.mine(t, ann, "DELETE", "/v1/key/"+second.Key.ID, "", 200, nil)
		testrig.Eventually(t, "the revoked key has ended", func() bool {
			status, _, _ := g.try(t, "nothing", second.Text)
			return status == 401
		})
		g.mine(t, ann, "POST", "/v1/key/"+second.Key.ID+"/rotate", "", 400, nil)
		var third ownKey
		g.mine(t, ann, "POST", "/v1/key", `{"name":"third","models":["fast"]}`, 201, &third)
		g.want(t, "smart", third.Text, 403, "model_not_allowed")

		if _, err := keys.RevokeKey(t.Context(), access.PersonID("acme", testIssuer, "ann")); err != nil {
			t.Fatal(err)
		}
		for _, k := range []ownKey{next, third} {
			testrig.Eventually(t, "the person's keys have ended", func() bool {
				status, body, _ := g.try(t, "fast", k.Text)
				return status == 403 && strings.Contains(body, "revoked_account")
			})
			g.mine(t, k.Text, "GET", "/v1/usage", "", 403, nil)
		}
		g.mine(t, ann, "POST", "/v1/key", `{"name":"n"}`, 403, nil)
	})
}
