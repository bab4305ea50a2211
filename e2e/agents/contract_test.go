//go:build signin

package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

// call sends a request to the gateway and returns the exchange.
func (g *party) call(t *testing.T, method, path, token, kind, body string, header ...string) *exchange {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.rec.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.place.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &exchange{method: method, path: path, status: resp.StatusCode, header: resp.Header, body: text}
}

// probe makes the requests that the agent makes only when something is wrong.
func (g *party) probe(t *testing.T, token string) {
	t.Helper()
	const js, form, device = "application/json", "application/x-www-form-urlencoded", "urn:ietf:params:oauth:grant-type:device_code"
	message := `{"model":"` + soldModel + `","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`
	grant := func(kind, name, value string) string {
		v := url.Values{"grant_type": {kind}}
		if name != "" {
			v.Set(name, value)
		}
		return v.Encode()
	}
	g.kept["message without a token"] = g.call(t, http.MethodPost, "/v1/messages", "", js, message)
	g.kept["message with a wrong token"] = g.call(t, http.MethodPost, "/v1/messages", "nonsense", js, message)
	g.kept["settings without a token"] = g.call(t, http.MethodGet, "/managed/settings", "", "", "")
	g.kept["usage without a token"] = g.call(t, http.MethodGet, "/api/oauth/usage", "", "", "")
	g.kept["metrics without a token"] = g.call(t, http.MethodPost, "/v1/metrics", "", js, "{}")
	for _, signal := range []string{"metrics", "logs", "traces"} {
		g.kept["telemetry: "+signal] = g.call(t, http.MethodPost, "/v1/"+signal, token, js, "{}")
	}
	g.kept["usage at the cap"] = g.call(t, http.MethodGet, "/api/oauth/usage", token, "", "")
	g.kept["models"] = g.call(t, http.MethodGet, "/v1/models?limit=1000", token, "", "", "Anthropic-Version", "2023-06-01")
	g.kept["token: unknown grant"] = g.call(t, http.MethodPost, "/oauth/token", "", form, grant("nonsense", "", ""))
	g.kept["token: no device code"] = g.call(t, http.MethodPost, "/oauth/token", "", form, grant(device, "", ""))
	g.kept["token: unknown device code"] = g.call(t, http.MethodPost, "/oauth/token", "", form, grant(device, "device_code", "nonsense"))
	g.kept["token: no refresh token"] = g.call(t, http.MethodPost, "/oauth/token", "", form, grant("refresh_token", "", ""))
	g.kept["token: unknown refresh token"] = g.call(t, http.MethodPost, "/oauth/token", "", form, grant("refresh_token", "refresh_token", "nonsense"))
	started := g.call(t, http.MethodPost, "/oauth/device_authorization", "", form, "surface=claude_code&unknown=1")
	code := testrig.Parse(started.body).Str("device_code")
	g.kept["token: pending"] = g.call(t, http.MethodPost, "/oauth/token", "", form, grant(device, "device_code", code))
	g.kept["token: too fast"] = g.call(t, http.MethodPost, "/oauth/token", "", form, grant(device, "device_code", code))
}

// contractHeaders are the headers that the contract names, or that guard what is secret.
var contractHeaders = []string{
	"Cache-Control", "Retry-After", "X-Should-Retry", "Etag", "Vary", "Content-Type",
	"Anthropic-Ratelimit-Unified-Status", "Anthropic-Ratelimit-Unified-Representative-Claim", "Anthropic-Ratelimit-Unified-Overage-Status",
	"Anthropic-Ratelimit-Unified-Overage-Utilization", "Anthropic-Ratelimit-Unified-Overage-Surpassed-Threshold", "Anthropic-Ratelimit-Unified-Reset",
	"Anthropic-Ratelimit-Unified-Overage-Reset", "Anthropic-Ratelimit-Unified-Overage-Period", "Anthropic-Ratelimit-Unified-Overage-Disabled-Reason",
}

// exactly are the headers and members whose values are part of the contract. Of others only the
// presence and the type are compared.
var exactly = []string{
	"status", "X-Should-Retry", "Anthropic-Ratelimit-Unified-Status", "Anthropic-Ratelimit-Unified-Representative-Claim", "Anthropic-Ratelimit-Unified-Overage-Status",
	"Anthropic-Ratelimit-Unified-Overage-Surpassed-Threshold", "Anthropic-Ratelimit-Unified-Overage-Period", "Anthropic-Ratelimit-Unified-Overage-Disabled-Reason",
	".error", ".token_type", ".type", ".error.type", ".interval", ".expires_in of device authorization", ".login_notice",
	".extra_usage.is_enabled", ".extra_usage.monthly_limit", ".extra_usage.currency", ".limits[].kind", ".limits[].group", ".limits[].severity", ".limits[].is_active",
}

// facts are the parts of a response that are compared, by their names.
func (e *exchange) facts(name string) map[string]string {
	out := map[string]string{"status": fmt.Sprint(e.status)}
	for _, h := range contractHeaders {
		if v := e.header.Get(h); v != "" {
			out[h] = v
		}
	}
	if kind := out["Content-Type"]; kind != "" {
		out["Content-Type"], _, _ = strings.Cut(kind, ";")
	}
	var body any
	if strings.HasPrefix(out["Content-Type"], "application/json") && json.Unmarshal(e.body, &body) == nil {
		members(out, "", body)
	}
	for k, v := range out {
		if !slices.Contains(exactly, k) && !slices.Contains(exactly, k+" of "+name) && k != "Content-Type" && !strings.HasPrefix(v, "a ") && !strings.HasPrefix(v, "an ") {
			out[k] = "present"
		}
	}
	return out
}

// members adds the members of a JSON value by their paths: texts, numbers and flags as they are, and
// "a TYPE" where the value does not matter.
func members(out map[string]string, path string, v any) {
	switch v := v.(type) {
	case object:
		for name, member := range v {
			members(out, path+"."+name, member)
		}
	case []any:
		out[path] = "a list"
		for _, member := range v {
			members(out, path+"[]", member)
		}
	default:
		out[path] = fmt.Sprint(v)
		if !slices.Contains(exactly, path) && !slices.Contains(exactly, path+" of device authorization") {
			out[path] = map[bool]string{true: "a number", false: "a text"}[fmt.Sprintf("%T", v) == "float64"]
			if _, flag := v.(bool); flag {
				out[path] = "a flag"
			}
			if v == nil {
				out[path] = "null"
			}
		}
	}
}

// A difference is where the two gateways answer differently, on purpose.
type difference struct{ exchange, fact, theirs, ours, reason string }

// compare compares all exchanges and writes the table of the differences.
func compare(t *testing.T, theirs, ours *party) {
	names := slices.Sorted(maps.Keys(theirs.kept))
	if len(names) < 20 {
		t.Fatalf("only %d exchanges are known", len(names))
	}
	var found []difference
	same := 0
	for _, name := range names {
		other := ours.kept[name]
		if other == nil {
			t.Errorf("%s is missing here", name)
			continue
		}
		a, b := theirs.kept[name].facts(name), other.facts(name)
		for _, fact := range slices.Sorted(maps.Keys(merge(a, b))) {
			if a[fact] == b[fact] {
				same++
				continue
			}
			found = append(found, difference{exchange: name, fact: fact, theirs: a[fact], ours: b[fact]})
		}
	}
	t.Logf("%d exchanges, %d facts are the same", len(names), same)
	for _, d := range found {
		t.Errorf("%s: %s: reference %q, here %q", d.exchange, d.fact, d.theirs, d.ours)
	}
}

func merge(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
