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
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
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
	settings := g.call(t, http.MethodGet, "/managed/settings", token, "", "")
	g.kept["settings"] = settings
	g.kept["settings: unchanged"] = g.call(t, http.MethodGet, "/managed/settings", token, "", "", "If-None-Match", settings.header.Get("Etag"))
	g.kept["settings: is there one"] = g.call(t, http.MethodGet, "/managed/settings", token, "", "", "If-None-Match", "*")
	time.Sleep(2 * time.Second) // for so long the reference keeps what it read
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

// probeFree makes requests of a person without a budget and without settings.
func (g *party) probeFree(t *testing.T, token string) {
	t.Helper()
	const js = "application/json"
	message := func(model string) string {
		return `{"model":"` + model + `","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`
	}
	g.up.Always(spends(0))
	g.kept["settings: none"] = g.call(t, http.MethodGet, "/managed/settings", token, "", "")
	g.kept["usage without a cap"] = g.call(t, http.MethodGet, "/api/oauth/usage", token, "", "")
	g.kept["message without a cap"] = g.call(t, http.MethodPost, "/v1/messages?beta=true", token, js, message(soldModel), "Anthropic-Version", "2023-06-01")
	g.kept["message that is not JSON"] = g.call(t, http.MethodPost, "/v1/messages", token, js, "nonsense", "Anthropic-Version", "2023-06-01")
	g.kept["message for a model that is not allowed"] = g.call(t, http.MethodPost, "/v1/messages", token, js, message("nonsense"), "Anthropic-Version", "2023-06-01")
	if g.name == "isogloss" { // the reference has no upstream that cannot count
		e := g.call(t, http.MethodPost, "/v1/messages/count_tokens", token, js, `{"model":"`+claude().modelOn(rig.DialectNamed("openai-chat"))+`","messages":[{"role":"user","content":"x"}]}`)
		if e.status != http.StatusNotImplemented || e.header.Get("X-Should-Retry") != "false" || testrig.Parse(e.body).Obj("error").Str("type") != "not_supported" {
			t.Errorf("tokens that cannot be counted: %d, x-should-retry %q, %s", e.status, e.header.Get("X-Should-Retry"), e.body)
		}
	}
}

// contractHeaders are the headers that the contract names, or that guard what is secret.
var contractHeaders = []string{
	"Cache-Control", "Retry-After", "X-Should-Retry", "Etag", "Vary", "Content-Type",
	"Anthropic-Ratelimit-Unified-Status", "Anthropic-Ratelimit-Unified-Representative-Claim", "Anthropic-Ratelimit-Unified-Overage-Status",
	"Anthropic-Ratelimit-Unified-Overage-Utilization", "Anthropic-Ratelimit-Unified-Overage-Surpassed-Threshold", "Anthropic-Ratelimit-Unified-Reset",
	"Anthropic-Ratelimit-Unified-Overage-Reset", "Anthropic-Ratelimit-Unified-Overage-Period", "Anthropic-Ratelimit-Unified-Overage-Disabled-Reason",
}

// exactly are the facts whose values are part of the contract. Of others only the kind is compared.
var exactly = []string{
	"status", "Cache-Control", "X-Should-Retry", "Anthropic-Ratelimit-Unified-Status", "Anthropic-Ratelimit-Unified-Representative-Claim", "Anthropic-Ratelimit-Unified-Overage-Status",
	"Anthropic-Ratelimit-Unified-Overage-Surpassed-Threshold", "Anthropic-Ratelimit-Unified-Overage-Period", "Anthropic-Ratelimit-Unified-Overage-Disabled-Reason",
	".error", ".token_type", ".type", ".error.type", ".interval", ".login_notice", ".checksum", ".settings.permissions.deny[]", "Etag",
	".extra_usage.is_enabled", ".extra_usage.monthly_limit", ".extra_usage.currency", ".limits[].kind", ".limits[].group", ".limits[].severity", ".limits[].is_active",
}

// facts are the parts of a response that are compared, by their names.
func (e *exchange) facts() map[string]string {
	out := map[string]string{"status": fmt.Sprint(e.status)}
	for _, name := range contractHeaders {
		if v := e.header.Get(name); v != "" {
			out[name] = worth(name, v, "present")
		}
	}
	kind, _, _ := strings.Cut(e.header.Get("Content-Type"), ";")
	var body any
	if kind == "application/json" && json.Unmarshal(e.body, &body) == nil {
		members(out, "", body)
	}
	return out
}

// worth is the value of a fact if that is part of the contract, or else what kind of value it is.
func worth(name, value, kind string) string {
	if slices.Contains(exactly, name) {
		return value
	}
	return kind
}

// members adds the members of a JSON value by their paths.
func members(out map[string]string, path string, v any) {
	switch v := v.(type) {
	case object:
		for name, member := range v {
			members(out, path+"."+name, member)
		}
	case []any:
		out[path] = "list"
		for _, member := range v {
			members(out, path+"[]", member)
		}
	case string:
		out[path] = worth(path, v, "text")
	case float64:
		out[path] = worth(path, fmt.Sprint(v), "number")
	case bool:
		out[path] = worth(path, fmt.Sprint(v), "flag")
	default:
		out[path] = "null"
	}
}

// A difference is a fact in which this gateway differs from the reference, on purpose.
type difference struct{ exchange, fact, theirs, ours, reason string }

// deliberate are the differences. An exchange or a fact that ends in "*" stands for all that begin so.
var deliberate = []difference{
	{"discovery", ".revocation_endpoint", "", "text", "signing out ends the token at once"},
	{"discovery", ".gateway_protocol_version", "number", "", "Claude Code does not read it"},
	{"discovery", ".scopes_supported*", "*", "", "clients request none"},
	{"token", ".email", "", "text", "Claude Code has the person confirm the account"},
	{"token: *", ".error_description", "", "text", "says what to do"},
	{"token: too fast", "status", "429", "400", "RFC 8628; the contract permits both"},
	{"*", "X-Should-Retry", "", "false", "as the contract says; the reference leaves it out with 401"},
	{"*", ".request_id", "text", "", "it is in the header `request-id`"},
	{"*", ".error.details.error_code", "", "text", "which of the gateway's errors it is"},
	{"message*", "Cache-Control", "", "no-cache", "proxies must not keep a stream"},
	{"*", "Cache-Control", "", "no-store", "the response is for one person"},
	{"settings*", "Vary", "present", "", "settings do not depend on the client"},
	{"settings: unchanged", "Etag", "", "*", "RFC 9110: a 304 has the `ETag` of a 200"},
	{"settings: none", ".*", "", "*", "an error as of the API; the reference sends text"},
	{"telemetry: *", "Content-Type", "", "present", "an empty OTLP response"},
	{"models", ".data[].created_at", "", "text", "as Anthropic's API"},
	{"models", ".data[].max_input_tokens", "number", "", "where it is known"},
	{"models", ".*_id", "null", "text", "as Anthropic's API"},
}

func matches(pattern, s string) bool {
	before, after, open := strings.Cut(pattern, "*")
	return s == pattern || open && strings.HasPrefix(s, before) && strings.HasSuffix(s, after) && len(s) >= len(before)+len(after)
}

// compare compares all exchanges, and publishes their number and the differences.
func compare(t *testing.T, theirs, ours *party) {
	names := slices.Sorted(maps.Keys(theirs.kept))
	if len(names) < 25 {
		t.Fatalf("only %d exchanges are known", len(names))
	}
	same, used := 0, map[int]bool{}
	for _, name := range names {
		other := ours.kept[name]
		if other == nil {
			t.Errorf("%s: there is none here", name)
			continue
		}
		a, b := theirs.kept[name].facts(), other.facts()
		all := maps.Clone(a)
		maps.Copy(all, b)
		for _, fact := range slices.Sorted(maps.Keys(all)) {
			at := slices.IndexFunc(deliberate, func(d difference) bool {
				return matches(d.exchange, name) && matches(d.fact, fact) && matches(d.theirs, a[fact]) && matches(d.ours, b[fact])
			})
			switch {
			case a[fact] == b[fact]:
				same++
			case at >= 0:
				used[at] = true
			default:
				t.Errorf("%s: %s is %q at the reference and %q here\n%s\n%s", name, fact, a[fact], b[fact], theirs.kept[name].body, other.body)
			}
		}
	}
	for i, d := range deliberate {
		if !used[i] {
			t.Errorf("the difference of %s in %s does not exist", d.fact, d.exchange)
		}
	}
	t.Logf("%d exchanges, %d facts are the same", len(names), same)
	if !t.Failed() {
		rig.Page(t, "sign-in", differences(names))
	}
}

// differences is the section of the page.
func differences(names []string) string {
	rows := [][]string{{"response", "part", "reference", "Isogloss", "why"}}
	value := func(s string) string {
		switch s {
		case "":
			return "–"
		case "*":
			return "present"
		}
		return s
	}
	for _, d := range deliberate {
		rows = append(rows, []string{strings.Replace(d.exchange, "*", "…", 1), "`" + strings.TrimPrefix(strings.Replace(d.fact, "*", "…", 1), ".") + "`", value(d.theirs), value(d.ours), d.reason})
	}
	return fmt.Sprintf(`Claude Code %s signs in with a company account: by `+"`/login`"+` and the device flow, over TLS, at a Keycloak 26.4 with a browser. Signed in, it does the task
of the table above on Chat, Responses, Messages and Gemini upstreams, renews its token, shows "You've used 79%% of your usage credits" for a person
with a budget, is stopped at the end of the budget, and signs out, after which its token is refused. The same is done with the
reference gateway that is part of Claude Code (`+"`claude gateway`"+`, with PostgreSQL). codex and gemini-cli do the task with tokens of `+"`isogloss token`"+`.

%d responses of both gateways are compared: status, headers of the contract, and members of the JSON with their types. These are
the differences, all on purpose. The responses: %s.

`, claude().version, len(names), strings.Join(names, ", ")) + testrig.MarkdownTable(rows)
}
