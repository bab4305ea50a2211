//go:build testunit

package app

import (
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestUnit follows the amount of a unit that only one row of the table of units and a codec know: it is priced,
// reserved, charged, stored in SQLite and PostgreSQL, and shown by the admin API, exports, metrics and the log.
// TestEveryFieldArrives sends it through events and ClickHouse.
func TestUnit(t *testing.T) {
	server, err := storetest.RunPostgres(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	for name, store := range map[string]string{"sqlite": "sqlite", "postgres": server.URL} {
		t.Run(name, func(t *testing.T) { followUnit(t, store) })
	}
}

// unitModels is the end of a configuration. A piece of the unit costs a quarter of a dollar.
const unitModels = `
prices: { models: { "up/*": { input: 1, output: 10, units: { test_unit: 0.25 } } } }
providers: { up: { protocol: openai-chat, base_url: "http://%s/v1" } }
models: { fast: { targets: [up/real] } }
`

// unitAnswer is a response with two pieces of the unit: 100 and 10 tokens cost $0.0002, and the pieces $0.50.
const unitAnswer = `{"id":"c","object":"chat.completion","created":1,"model":"real","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"test_unit":2}}`

const unitCost = "0.5002"

func followUnit(t *testing.T, store string) {
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusOK, unitAnswer))
	configuration := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\ndata: %q\nstore: { url: %q, peppers: [0123456789abcdef0123456789abcdef] }\n", t.TempDir(), store) + fmt.Sprintf(unitModels, up.Addr)
	keys := keyringOf(t, configuration)
	owner := keys.operator(t, access.Owner)
	key := keys.must(t, quota.Limit{Budget: usage.Dollar})
	g := start(t, configuration, quick())
	send := func(most int) reply {
		return g.call(t, http.MethodPost, "/v1/chat/completions", key.Text, fmt.Sprintf(`{"model":"fast","max_tokens":20,"test_unit_max":%d,"messages":[{"role":"user","content":"hi"}]}`, most), "Content-Type", "application/json")
	}
	if r := send(5); r.status != http.StatusTooManyRequests || !strings.Contains(r.body, "budget_exceeded") {
		t.Fatalf("five pieces of $1.25 are reserved from a budget of $1: %+v", r)
	}
	if r := send(3); r.status != http.StatusOK {
		t.Fatalf("three pieces of $0.75 are not reserved: %+v", r)
	}
	if r := send(2); r.status != http.StatusTooManyRequests {
		t.Fatalf("two pieces of $0.50 are reserved from the $0.4998 that a charge of $%s leaves: %+v", unitCost, r)
	}
	g.shows(t, owner.Text, "/api/v1/requests?limit=10", `"units":[{"unit":"test_unit","label":"Test unit","amount":2}]`, `"cost":"`+unitCost+`"`,
		`"units":[{"unit":"test_unit","label":"Test unit","price":"0.25","per":"piece"}]`)
	for _, group := range []string{"", "?group=hour", "?group=day,model", "?group=key", "?group=org,team", "?group=target", "?group=user"} {
		g.shows(t, owner.Text, "/api/v1/usage"+group, `"units":[{"unit":"test_unit","label":"Test unit","amount":2}]`, `"cost":"`+unitCost+`"`)
	}
	for _, path := range []string{"/api/v1/requests?format=csv", "/api/v1/usage?group=model&format=csv"} {
		records, err := csv.NewReader(strings.NewReader(g.shows(t, owner.Text, path))).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		at := slices.Index(records[0], "units")
		if at < 0 || !slices.ContainsFunc(records[1:], func(r []string) bool { return r[at] == `{"test_unit":2}` }) {
			t.Errorf("%s is %v", path, records)
		}
	}
	_, metrics := g.get(t, g.metricsURL)
	for _, line := range []string{`isogloss_units_total{model="fast",provider="up",unit="test_unit"} 2`, `isogloss_usage_units_total{key="` + key.ID + `",model="fast",org="o1",team="t1",unit="test_unit"} 2`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics do not have %s", line)
		}
	}
	if !strings.Contains(g.log.String(), `"units":{"test_unit":2}`) {
		t.Error("the log does not have the unit")
	}
}

// shows waits until a page of the admin API has texts, and returns it.
func (g *gateway) shows(t *testing.T, operator secret.String, path string, texts ...string) (page string) {
	t.Helper()
	testrig.EventuallyNil(t, path, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.adminAddress(t)+path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+operator.Reveal())
		resp, err := g.client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		page = string(text)
		for _, text := range texts {
			if err == nil && !strings.Contains(page, text) {
				err = fmt.Errorf("%s does not have %s: %s", path, text, page)
			}
		}
		return err
	})
	return page
}
