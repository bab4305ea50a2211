package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// operation is a route of the admin API and who may use it, as docs/admin-api.md says.
type operation struct {
	name, method, path string
	body               string
	roles              string // that may use it besides owner and admin
	whole              bool   // concerns the whole gateway: refused to keys that are bound to an organisation
}

// operations returns the routes of the admin API. {org} and {key} are those of an
// organisation that bound operators do not belong to.
func operations() []operation {
	const all, usage, key, budget = "billing auditor key-manager", "billing auditor", "key-manager", "billing"
	money := `{"budget":"1","window_seconds":0}`
	return []operation{
		{"list-keys", "GET", "/keys?org={org}", "", all, false},
		{"create-key", "POST", "/keys", `{"name":"n","org":"{org}","models":["*"]}`, key, false},
		{"get-key", "GET", "/keys/{key}", "", all, false},
		{"update-key", "PATCH", "/keys/{key}", `{"name":"changed"}`, key, false},
		{"revoke-key", "POST", "/keys/{key}/revoke", "", key, false},
		{"rotate-key", "POST", "/keys/{key}/rotate", `{"overlap_seconds":1}`, key, false},
		{"set-key-budget", "PUT", "/keys/{key}/budget", money, budget, false},
		{"get-key-limits", "GET", "/keys/{key}/limits", "", all, false},
		{"run-request", "POST", "/keys/{key}/run", `{"path":"/v1/chat/completions","request":"{}"}`, key, false},
		{"create-org", "POST", "/orgs", `{"id":"new"}`, "", true},
		{"get-org", "GET", "/orgs/{org}", "", all, false},
		{"update-org", "PATCH", "/orgs/{org}", `{"name":"changed"}`, "", true},
		{"set-org-budget", "PUT", "/orgs/{org}/budget", money, budget, true},
		{"get-org-limits", "GET", "/orgs/{org}/limits", "", all, false},
		{"list-teams", "GET", "/orgs/{org}/teams", "", all, false},
		{"create-team", "POST", "/orgs/{org}/teams", `{"id":"new"}`, key, false},
		{"get-team", "GET", "/orgs/{org}/teams/t", "", all, false},
		{"update-team", "PATCH", "/orgs/{org}/teams/t", `{"name":"changed"}`, key, false},
		{"set-team-budget", "PUT", "/orgs/{org}/teams/t/budget", money, budget, false},
		{"get-team-limits", "GET", "/orgs/{org}/teams/t/limits", "", all, false},
		{"get-usage", "GET", "/usage?org={org}", "", usage, false},
		{"list-requests", "GET", "/requests?org={org}", "", usage, false},
		{"list-refusals", "GET", "/refusals?org={org}", "", usage, false},
		{"list-targets", "GET", "/targets", "", "auditor", true},
		{"list-models", "GET", "/models", "", "auditor", true},
		{"explain", "POST", "/explain", `{"dialect":"openai-chat","model":"m"}`, "auditor", true},
		{"translate", "POST", "/translate", `{"dialect":"anthropic","kind":"request","body":"{}"}`, all, false},
		{"get-config", "GET", "/config", "", "auditor", true},
		{"list-nodes", "GET", "/nodes", "", "auditor", true},
		{"reload-config", "POST", "/config/reload", "", "", true},
		{"list-audit", "GET", "/audit?org={org}", "", "auditor", false},
		{"verify-audit", "GET", "/audit/verify", "", "auditor", true},
		{"whoami", "GET", "/whoami", "", all, false},
		{"create-session", "POST", "/session", "", all, false},
		{"list-orgs", "GET", "/orgs", "", all, false},
	}
}

// operators are the keys of the matrix besides the owner's.
func operators() []keySpec {
	var all []keySpec
	for _, role := range []string{"admin", "billing", "auditor", "key-manager"} {
		all = append(all, keySpec{name: role, role: role})
		if role != "admin" {
			all = append(all, keySpec{name: role + "-a", role: role, body: `"org":"a"`})
		}
	}
	return append(all, keySpec{name: "gone", role: "owner"}, keySpec{name: "second-owner", role: "owner"})
}

// canaries of organisation b, which keys of organisation a must not see.
var canariesOfB = []string{"canary-org-b", "canary-team-b", "canary-key-foreign"}

func roleAttacks() (all []attack) {
	try := func(name string, op operation, key string, holds ...oracle) {
		do := func(ctx context.Context, r *rig) *evidence { return r.send(ctx, op.request(r, key)) }
		all = append(all, attack{name: "roles/" + op.name + "/" + name, do: do, holds: append(holds, lacks(canariesOfB...))})
	}
	for _, op := range operations() {
		try("no-key", op, "", refuses(401))
		try("client-key", op, "foreign", refuses(403))
		try("revoked-owner", op, "gone", refuses(401))
		for _, role := range []string{"billing", "auditor", "key-manager"} {
			if !slices.Contains(strings.Fields(op.roles), role) {
				try(role, op, role, refuses(403))
			} else if !slices.Contains([]string{"whoami", "create-session", "translate"}, op.name) { // which concern no organisation
				try(role+"-of-a", op, role+"-a", boundHolds(op))
			}
		}
	}
	return append(append(all, escalations()...), methodAttacks()...)
}

// boundHolds returns the oracle for an operator who is bound to another organisation.
func boundHolds(op operation) oracle {
	switch {
	case op.whole:
		return refuses(403)
	case op.name == "list-orgs":
		return serves(200)
	}
	return refuses(404, 403)
}

// request returns the request of an operation on organisation b.
func (op operation) request(r *rig, key string) request {
	fill := strings.NewReplacer("{org}", "b", "{key}", r.ids["foreign"])
	return request{method: op.method, path: "/api/v1" + fill.Replace(op.path), body: fill.Replace(op.body), key: key, admin: true, from: "127.9.0.1"}
}

// escalations are changes by which operators try to get more rights than they have.
func escalations() (all []attack) {
	add := func(name, key, method, path, body string, statuses ...int) {
		do := func(ctx context.Context, r *rig) *evidence {
			fill := strings.NewReplacer("{full}", r.ids["full"], "{owner}", r.ids["second-owner"], "{manager}", r.ids["key-manager-a"], "{foreign}", r.ids["foreign"])
			return r.send(ctx, request{method: method, path: "/api/v1" + fill.Replace(path), body: fill.Replace(body), key: key, admin: true})
		}
		all = append(all, attack{name: "escalate/" + name, do: do, holds: []oracle{refuses(statuses...)}})
	}
	for _, who := range []string{"admin", "key-manager", "key-manager-a", "billing", "auditor"} {
		add(who+"/create-owner", who, "POST", "/keys", `{"name":"n","role":"owner"}`, 403, 422)
		add(who+"/create-owner-in-org", who, "POST", "/keys", `{"name":"n","org":"a","role":"owner"}`, 403, 422)
		add(who+"/rotate-owner", who, "POST", "/keys/{owner}/rotate", `{"overlap_seconds":1}`, 403, 404)
		add(who+"/revoke-owner", who, "POST", "/keys/{owner}/revoke", "", 403, 404)
		add(who+"/rename-owner", who, "PATCH", "/keys/{owner}", `{"name":"mine"}`, 403, 404)
		add(who+"/give-role", who, "PATCH", "/keys/{full}", `{"role":"owner"}`, 400, 403, 422)
		add(who+"/move-org", who, "PATCH", "/keys/{full}", `{"org":"b"}`, 400, 403, 422)
	}
	for _, role := range []string{"auditor", "billing", "key-manager"} { // it would count for nothing
		add("team-of-operator/"+role, "owner", "POST", "/keys", `{"name":"n","org":"a","team":"t","role":"`+role+`"}`, 422)
	}
	run := func(path string) string { return `{"path":"` + path + `","request":"{\"model\":\"m\"}"}` }
	for name, path := range map[string]string{"admin-api": "/api/v1/config/reload", "host": "//127.0.0.1/v1/chat/completions", "url": "http://127.0.0.1/v1/chat/completions", "dots": "/v1/../v1/chat/completions", "probe": "/ready", "sign-in": "/device"} {
		add("run/"+name, "owner", "POST", "/keys/{full}/run", run(path), 422)
	}
	add("run/operator", "owner", "POST", "/keys/{owner}/run", run("/v1/chat/completions"), 409)
	add("run/headers", "owner", "POST", "/keys/{full}/run", `{"path":"/v1/chat/completions","request":"{}","headers":{"x-api-key":"x"}}`, 422)
	for _, who := range []string{"key-manager", "key-manager-a"} {
		for name, limits := range map[string]string{"lift": `"budget":"0"`, "raise": `"budget":"999999"`, "window": `"window_seconds":1`, "negative": `"budget":"-1"`, "null": `"budget":null`} {
			add(who+"/budget-"+name, who, "PATCH", "/keys/{full}", `{"limits":{`+limits+`}}`, 400, 403, 422)
			add(who+"/team-budget-"+name, who, "PATCH", "/orgs/a/teams/t", `{"limits":{`+limits+`}}`, 400, 403, 422)
		}
		add(who+"/create-with-budget-role", who, "POST", "/keys", `{"name":"n","org":"a","models":["*"],"role":"billing"}`, 403, 422)
	}
	for name, body := range map[string]string{"duplicate": `{"name":"x","name":"y"}`, "case": `{"NAME":"x"}`, "unknown": `{"is_admin":true}`, "digest": `{"digests":["x"]}`, "id": `{"id":"x"}`, "revoked": `{"revoked":null}`,
		"array": `[]`, "trailing": `{"name":"x"}{"name":"y"}`, "depth": strings.Repeat(`{"limits":`, 2000) + "1" + strings.Repeat("}", 2000), "utf8": "{\"name\":\"\xff\"}", "big": `{"name":"` + strings.Repeat("a", 80<<10) + `"}`,
		"nul": `{"name":"a\u0000b"}`, "newline": `{"name":"a\nb"}`, "surrogate": `{"name":"\ud800"}`, "huge-number": `{"limits":{"requests_per_minute":1e999}}`, "negative": `{"limits":{"requests_per_minute":-1}}`, "fraction": `{"limits":{"concurrency":1.5}}`} {
		add("input/"+name, "owner", "PATCH", "/keys/{full}", body, 400, 413, 422)
	}
	for name, path := range map[string]string{"nul": "/keys/%00", "nul-org": "/orgs/a%00b", "nul-query": "/keys?org=%00", "nul-after": "/audit?after=%00", "sql": "/keys/'%20OR%201=1%20--", "dots": "/keys/..%2f..%2fconfig",
		"like": "/orgs/%25", "long": "/keys/" + strings.Repeat("a", 5000), "utf8": "/orgs/%ff%fe", "unknown-query": "/keys?admin=true", "limit": "/keys?limit=-1", "limit-big": "/keys?limit=99999999999999999999"} {
		add("path/"+name, "owner", "GET", path, "", 400, 404, 422)
	}
	for name, path := range map[string]string{"sql": "/keys?org='%20OR%201=1%20--", "sql-union": "/keys?org=a'%20UNION%20SELECT%20*%20FROM%20keys%20--", "two-orgs": "/keys?org=a&org=b", "two-orgs-reversed": "/keys?org=b&org=a", "semicolon": "/keys?org=a;org=b",
		"no-org": "/keys", "usage-no-org": "/usage", "audit-no-org": "/audit", "after": "/keys?after=0", "case": "/keys?ORG=b", "array": "/keys?org[]=b", "encoded": "/keys?%6frg=b"} {
		q := request{method: "GET", path: "/api/v1" + path, key: "auditor-a", admin: true}
		all = append(all, attack{name: "escalate/query/" + name, do: sends(q), holds: []oracle{serves(200, 400, 403, 404, 422), lacks(canariesOfB...)}})
	}
	return all
}

// methodAttacks call every route with methods that it does not have, and by paths that a
// careless router treats as the same.
func methodAttacks() (all []attack) {
	for _, op := range operations() {
		for _, method := range []string{"DELETE", "TRACE"} {
			do := func(ctx context.Context, r *rig) *evidence {
				q := op.request(r, "")
				q.method = method
				return r.send(ctx, q)
			}
			all = append(all, attack{name: "roles/" + op.name + "/method-" + method, do: do, holds: []oracle{refuses(401, 404, 405), lacks(canariesOfB...)}})
		}
	}
	for _, path := range []string{"/api/v1//config", "/api/v1/./config", "/api/v1/x/../config", "/api/v1/%63onfig", "/api/v1/config/", "/api/v1/config;x", "/API/V1/CONFIG", "/api/v1/config%2f", "/api/v1/config%00", "/api/v1/config?", "//api/v1/config", "/api/v2/config", "/api/config", "/api/v1/config.json", "/api/v1/debug/pprof/heap",
		"/debug/pprof/heap", "/debug/vars", "/api/v1/..%2f..%2fmetrics", "/config", "/keys", "/.env", "/isogloss.yaml", "/data/pepper", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"} {
		for _, key := range []string{"", "foreign"} {
			q := request{method: "GET", path: path, key: key, admin: true, from: "127.9.0.2"}
			name := "roles/path/" + path
			if key != "" {
				name += "/client-key"
			}
			all = append(all, attack{name: name, do: sends(q), holds: []oracle{refusesOrMoves, lacks("providers:", "base_url", "root:")}})
		}
	}
	return all
}

// refusesOrMoves allows the redirect to a cleaned path, which has nothing in it.
func refusesOrMoves(r *rig, e *evidence) string {
	if e.status == 301 || e.status == 307 || e.status == 308 {
		return testrig.When(!strings.HasPrefix(e.header.Get("Location"), "/") || strings.HasPrefix(e.header.Get("Location"), "//"), "it redirects to %q", e.header.Get("Location"))
	}
	return refuses(400, 401, 403, 404, 405)(r, e)
}

// roleRig starts a gateway with a key for every role.
func roleRig(ctx context.Context, o options) (*rig, error) {
	r, err := start(func(r *rig) *config {
		c := tenantStore(r)
		c.keys = append(c.keys, operators()...)
		return c
	})(ctx, o)
	if err != nil {
		return nil, err
	}
	err = testrig.Run(func() {
		r.revokeGone(ctx)
		r.checkOperations(ctx)
	})
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// revokeGone revokes the key gone. Every node refuses it within two seconds, longer on a busy machine. The weak
// gateway never does.
func (r *rig) revokeGone(ctx context.Context) {
	r.admin(ctx, "POST", "/api/v1/keys/"+r.ids["gone"]+"/revoke", "")
	testrig.NoError(testrig.Until(ctx, patience, "a revoked key is accepted", func() bool {
		return r.weak || r.send(ctx, request{method: "GET", path: "/api/v1/keys", key: "gone", admin: true}).status == 401
	}))
}

// checkOperations fails if the served document has an operation that is not in the table.
func (r *rig) checkOperations(ctx context.Context) {
	document := r.admin(ctx, "GET", "/api/openapi.json", "")
	for path, methods := range document.Obj("paths") {
		for method, described := range methods.(map[string]any) {
			name := testrig.Object(described.(map[string]any)).Str("operationId")
			known := slices.ContainsFunc(operations(), func(op operation) bool { return op.name == name })
			if !known && name != "get-request" && name != "compare-node" { // whose ids are random
				testrig.NoError(fmt.Errorf("%s %s (%s) is not in the table of operations", method, path, name))
			}
		}
	}
}
