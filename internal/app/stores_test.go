package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const staticKey = "sk-of-the-configuration"

// stored returns a configuration with a store. A response of the upstream expensive costs
// a dollar.
func stored(up *upstreamtest.Server, data, store, more string) string {
	return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
node: n1
data: %q
store: %s
keys: [%s]
prices: { models: { "up/*": { input: 0, output: 10 } } }
providers:
  up: { protocol: openai-chat, base_url: %q }
models:
  fast: { targets: [up/real] }
%s`, data, store, staticKey, up.BaseURL(), more)
}

// unreachable returns the configuration of a store that does not respond, with the pepper
// of the data folder.
func unreachable(t *testing.T, data string) string {
	t.Helper()
	pepper, err := os.ReadFile(filepath.Join(data, "pepper"))
	if err != nil {
		pepper = []byte(strings.Repeat("0", 64))
	}
	return fmt.Sprintf("{ url: %q, peppers: [%q] }", "postgres://u:p@127.0.0.1:1/isogloss?sslmode=disable", strings.TrimSpace(string(pepper)))
}

// expensive responds with a usage of a hundred thousand tokens.
func expensive(c *upstreamtest.Conn) {
	c.KeepAlive()
	c.Whole(http.StatusOK, "application/json", `{"id":"c1","object":"chat.completion","model":"real","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":1,"completion_tokens":100000,"total_tokens":100001}}`)
}

// keyringOf opens the keyring of a configuration, even if a gateway runs with it.
func keyringOf(t *testing.T, configuration string) *Keyring {
	t.Helper()
	file := filepath.Join(t.TempDir(), "isogloss.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := Options{Config: file, Env: noEnvironment}.OpenKeyring(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// madeKey is a new key.
type madeKey struct {
	ID   string
	Text secret.String
}

// Create creates a key like a record, as `isogloss keys create` does.
func (k *Keyring) Create(ctx context.Context, r access.Record) (madeKey, error) {
	budgets := []admin.Budget{}
	for _, b := range r.Limit.Budgets() {
		budgets = append(budgets, admin.Budget{Budget: b.Amount.Decimal(), Window: int64(b.Window / time.Second)})
	}
	limits := admin.LimitsChange{Requests: &r.Limit.Requests, Tokens: &r.Limit.Tokens, Concurrency: &r.Limit.Concurrency, Budgets: &budgets}
	made, err := k.CreateKey(ctx, admin.KeyBody{Name: r.Name, Org: r.Org, Team: r.Team, Role: string(r.Role), Models: r.Models, Endpoints: r.Endpoints, Limits: &limits})
	return madeKey{made.Key.ID, secret.String(made.Text)}, err
}

func (k *Keyring) must(t *testing.T, limit quota.Limit) madeKey {
	t.Helper()
	made, err := k.Create(t.Context(), access.Record{Name: "a key", Org: "o1", Team: "t1", Models: []string{"*"}, Created: time.Now(), Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// try sends a request for a model with a key and returns the status, body and headers.
func (g *gateway) try(t *testing.T, model string, key secret.String) (int, string, http.Header) {
	t.Helper()
	resp, err := g.ask(model, false, "Authorization", "Bearer "+key.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

func (g *gateway) want(t *testing.T, model string, key secret.String, status int, text string) {
	t.Helper()
	if got, body, _ := g.try(t, model, key); got != status || !strings.Contains(body, text) {
		t.Errorf("%s: %d %s, want %d with %q", model, got, body, status, text)
	}
}

func rowsOf(t *testing.T, data string) []usage.Row {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(data, "isogloss.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var rows []usage.Row
	eventually(t, "the rows can be read", func() bool { // the gateway may hold the lock
		rows, err = s.Rows(t.Context(), store.RowQuery{Limit: 100})
		return err == nil
	})
	return rows
}

func runsIn(t *testing.T, data string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(data, "spool", "run-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestStoreOutlivesTheProcess checks that keys, spent budgets and ledger rows survive a
// restart.
func TestStoreOutlivesTheProcess(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(expensive)
	configuration := stored(up, data, "sqlite", "")
	keys := keyringOf(t, configuration)
	poor, rich := keys.must(t, quota.Limit{Budget: 3 * usage.Dollar / 2}), keys.must(t, quota.Limit{})

	g := start(t, configuration, quick())
	g.want(t, "fast", poor.Text, 200, "choices") // $1
	g.want(t, "fast", poor.Text, 200, "choices") // exceeds the budget: a non-streaming response is delivered in full
	g.want(t, "fast", poor.Text, 429, "budget_exceeded")
	g.want(t, "fast", rich.Text, 200, "choices")
	g.want(t, "fast", staticKey, 200, "choices")
	g.want(t, "fast", "sk-of-nobody", 401, "error")
	g.want(t, "fast", poor.Text+"x", 401, "error")
	if resp, err := g.ask("fast", false); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %v %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	g.wait(t)

	byKey, refused := map[string]int{}, map[string]int{}
	for _, r := range rowsOf(t, data) {
		if r.Outcome == usage.Refused {
			refused[r.Key]++
			continue
		}
		byKey[r.Key]++
		if r.Node != "n1" || r.Outcome != usage.Answered || r.Cost == nil || *r.Cost != usage.Dollar || r.Target != "up/real" || r.Model != "fast" {
			t.Errorf("%+v", r)
		}
	}
	if refused[poor.ID] != 1 || len(refused) != 1 {
		t.Errorf("refused rows by key: %v", refused)
	}
	if byKey[poor.ID] != 2 || byKey[rich.ID] != 1 || byKey[""] != 1 || len(byKey) != 3 {
		t.Errorf("rows by key: %v", byKey)
	}

	g = start(t, configuration, quick())
	g.want(t, "fast", poor.Text, 429, "budget_exceeded")
	g.want(t, "fast", rich.Text, 200, "choices")
	g.want(t, "fast", staticKey, 200, "choices")
}

// TestSeveralBudgets checks that a key with a daily and a monthly budget is stopped by the smaller one,
// also after a restart, and that its alerts arrive once.
func TestSeveralBudgets(t *testing.T) {
	var mu sync.Mutex
	got, seen := map[string]int{}, map[string]bool{}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			Data struct {
				Account, Budget string
				Threshold       int
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
			t.Errorf("%v, %v", err, r.Header)
		}
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("webhook-id")
		if seen[id] { // the gateway was stopped before it had the response
			return
		}
		seen[id] = true
		got[fmt.Sprint(body.Data.Account, " ", body.Data.Budget, " ", body.Data.Threshold)]++
	}))
	defer hook.Close()
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(expensive)
	configuration := stored(up, data, "sqlite", fmt.Sprintf("alerts: { url: %q, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=, thresholds: [60, 80] }\n", hook.URL))
	var limit quota.Limit
	if err := limit.SetBudgets([]budget.Budget{{Amount: 5 * usage.Dollar, Window: 720 * time.Hour}, {Amount: 3 * usage.Dollar / 2, Window: 24 * time.Hour}}); err != nil {
		t.Fatal(err)
	}
	made := keyringOf(t, configuration).must(t, limit)
	for restart := range 2 {
		g := start(t, configuration, quick())
		if restart == 0 {
			g.want(t, "fast", made.Text, 200, "choices") // $1 each
			g.want(t, "fast", made.Text, 200, "choices")
		}
		status, body, header := g.try(t, "fast", made.Text)
		wait, err := strconv.Atoi(header.Get("Retry-After"))
		if status != 429 || !strings.Contains(body, "the daily budget of key:"+made.ID+" does not cover") || err != nil || wait < 17*3600 || wait > 24*3600 {
			t.Errorf("restart %d: %d %s, Retry-After %v", restart, status, body, header["Retry-After"])
		}
		g.wait(t)
	}
	start(t, configuration, quick())
	want := map[string]int{"key:" + made.ID + " 1.5 60": 1, "key:" + made.ID + " 1.5 80": 1}
	eventually(t, "the alerts have arrived", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) >= len(want)
	})
	mu.Lock()
	defer mu.Unlock()
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestKeysChangeWhileItRuns checks that a running gateway applies a created or revoked
// key. That it does so within two seconds is checked in access, with a fake clock.
func TestKeysChangeWhileItRuns(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(expensive)
	configuration := stored(up, data, "sqlite", "")
	keys := keyringOf(t, configuration)
	g := start(t, configuration, quick())
	made := keys.must(t, quota.Limit{})
	g.want(t, "fast", made.Text, 200, "choices") // an unknown key is looked up in the store

	if _, err := keys.RevokeKey(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key is refused", func() bool {
		status, _, _ := g.try(t, "fast", made.Text)
		return status != 200
	})
	g.want(t, "fast", made.Text, 401, "error")
	g.want(t, "fast", staticKey, 200, "choices")
}

// TestReloadKeepsTheStores checks that a reload of the configuration keeps the ledger and
// the spent budgets.
func TestReloadKeepsTheStores(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(expensive)
	configuration := stored(up, data, "sqlite", "")
	made := keyringOf(t, configuration).must(t, quota.Limit{Budget: usage.Dollar})
	g := start(t, configuration, quick())
	g.want(t, "fast", made.Text, 200, "choices")
	before := runsIn(t, data)
	g.replace(t, stored(up, data, "sqlite", "  slow: { targets: [up/real] }\n"))
	g.log.waitFor(t, loaded, 1)
	g.want(t, "slow", made.Text, 429, "budget_exceeded")
	g.want(t, "slow", staticKey, 200, "choices")
	if after := runsIn(t, data); len(before) != 1 || len(after) != 1 || before[0] != after[0] {
		t.Errorf("the spool was %v and is %v", before, after)
	}
	g.replace(t, strings.Replace(stored(up, data, "sqlite", "  slow: { targets: [up/real] }\n"), staticKey, "sk-another-one-of-them", 1))
	g.log.waitFor(t, loaded, 2)
	g.want(t, "slow", staticKey, 401, "error")
	g.want(t, "slow", "sk-another-one-of-them", 200, "choices")
}

// TestStartWithoutTheStore checks that a gateway with neither its store nor a snapshot
// refuses to start, because it could authenticate no one, and that its error explains
// what to do.
func TestStartWithoutTheStore(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	file := filepath.Join(t.TempDir(), "isogloss.yaml")
	if err := os.WriteFile(file, []byte(stored(up, data, unreachable(t, data), "")), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	log, done := newLogBuffer(), make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Config: file, Env: noEnvironment, Log: log, Version: "test", pace: quick()})
	}()
	log.waitFor(t, "store is not ready", 1)
	stop() // it would try for ten seconds
	err := <-done
	if err == nil || !strings.Contains(err.Error(), "no key is known") || !strings.Contains(err.Error(), "start the store") || strings.Contains(err.Error(), "u:p@") {
		t.Errorf("it says %v", err)
	}
}

// TestStartFromTheSnapshot checks that a gateway without its store serves the keys of its
// snapshot, writes rows to the spool and rejects unknown keys with a retryable error.
func TestStartFromTheSnapshot(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(expensive)
	configuration := stored(up, data, "sqlite", "")
	keys := keyringOf(t, configuration)
	known := keys.must(t, quota.Limit{})
	g := start(t, configuration, quick())
	g.want(t, "fast", known.Text, 200, "choices")
	g.wait(t)
	unknown := keys.must(t, quota.Limit{})
	if _, err := os.Stat(filepath.Join(data, "keys.snapshot")); err != nil {
		t.Fatal(err)
	}

	g = start(t, stored(up, data, unreachable(t, data), ""), quick())
	g.want(t, "fast", known.Text, 200, "choices")
	g.want(t, "fast", staticKey, 200, "choices")
	status, body, header := g.try(t, "fast", unknown.Text)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("an unknown key: %d %s %v", status, body, header)
	}
	g.wait(t)
	if left := runsIn(t, data); len(left) != 2 { // the first is kept for a while although the store has its rows
		t.Errorf("the usage is not on disk: %v", left)
	}

	g = start(t, configuration, quick()) // the store is back
	eventually(t, "the rows of the time without a store are written", func() bool { return len(rowsOf(t, data)) >= 3 })
	if rows := rowsOf(t, data); len(rows) != 3 {
		t.Errorf("%+v", rows)
	}
	g.want(t, "fast", unknown.Text, 200, "choices")
}
