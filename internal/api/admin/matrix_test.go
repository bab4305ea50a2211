package admin

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

var update = flag.Bool("update", false, "write docs/admin-api.md")

// operation is an operation of the served document.
type operation struct {
	name, method, path, summary string
	query                       []string
	body                        bool
}

// operations reads the operations from the served document.
func (w *world) operations() []operation {
	w.t.Helper()
	type described struct {
		OperationID string `json:"operationId"`
		Summary     string `json:"summary"`
		Parameters  []struct {
			Name string `json:"name"`
			In   string `json:"in"`
		} `json:"parameters"`
		RequestBody *struct{} `json:"requestBody"`
	}
	document := read[struct {
		Paths map[string]map[string]described `json:"paths"`
	}](w.t, w.send("", "GET", openapiPath, ""), 200)
	var list []operation
	for path, methods := range document.Paths {
		for method, d := range methods {
			op := operation{name: d.OperationID, method: strings.ToUpper(method), path: path, summary: d.Summary, body: d.RequestBody != nil}
			for _, p := range d.Parameters {
				if p.In == "query" {
					op.query = append(op.query, p.Name)
				}
			}
			list = append(list, op)
		}
	}
	order := map[string]int{}
	for i, r := range (&server{}).allRoutes() {
		order[r.Name] = i
	}
	slices.SortFunc(list, func(a, b operation) int { return order[a.name] - order[b.name] })
	return list
}

// bodies are valid bodies. TENANT is replaced by an organisation and N by a new number.
var bodies = map[string]string{
	"create-key":      `{"name":"n","org":"TENANT","models":["*"]}`,
	"update-key":      `{"name":"N"}`,
	"rotate-key":      `{"overlap_seconds":1}`,
	"set-key-budget":  `{"budget":"1","window_seconds":0}`,
	"create-org":      `{"id":"new-N"}`,
	"update-org":      `{"name":"N"}`,
	"set-org-budget":  `{"budget":"1","window_seconds":0}`,
	"create-team":     `{"id":"new-N"}`,
	"update-team":     `{"name":"N"}`,
	"set-team-budget": `{"budget":"1","window_seconds":0}`,
	"run-request":     `{"path":"/v1/chat/completions","request":"{}"}`,
	"explain":         `{"dialect":"openai-chat","model":"m"}`,
	"translate":       `{"dialect":"anthropic","kind":"request","body":"{}"}`,
}

const (
	nobody = "zzz" // an organisation that does not exist
	unsaid = ""    // no organisation is named
)

// about reports whether the request names an organisation or an object in one.
func (op operation) about() bool {
	return strings.Contains(op.path, "{") || slices.Contains(op.query, "org") || strings.Contains(bodies[op.name], "TENANT")
}

// ask calls an operation for an object of a tenant.
func (w *world) ask(op operation, key, tenant string, n int) got {
	w.t.Helper()
	if tenant == unsaid && (strings.Contains(op.path, "{") || op.body) {
		tenant = "a"
	}
	target := strings.Repeat("0", 22)
	if strings.Contains(op.path, "{key}") && tenant != nobody {
		if w.keys[tenant] == "" {
			w.keys[tenant] = w.client(tenant)
		}
		if target = w.keys[tenant]; op.name == "revoke-key" {
			target = w.client(tenant)
		}
	}
	node := fakeSelf{}.Node().ID
	if tenant == nobody {
		node = "gw-9.a"
	}
	path := strings.NewReplacer("{org}", tenant, "{team}", "t", "{key}", target, "{request}", requestOf(tenant), "{node}", node).Replace(op.path)
	if tenant != unsaid && slices.Contains(op.query, "org") {
		path += "?org=" + tenant
	}
	body, ok := bodies[op.name]
	if ok != op.body {
		w.t.Fatalf("%s: the test needs a valid body for it, or has one too many", op.name)
	}
	body = strings.NewReplacer("TENANT", tenant, "N", fmt.Sprint(n)).Replace(body)
	return w.send(key, op.method, path, body)
}

// who is an operator of the matrix.
type who struct {
	role   access.Role
	org    string // that the key or the token's rule names
	person bool   // the credentials are tokens
	keys   map[string]string
	states map[string]int // of the credentials
}

// states are the states of a key, with the status that every route returns for any role and tenant. With
// 0 the role decides.
var states = map[string]int{"valid": 0, "for SCIM": 403, "expired": 401, "revoked": 401, "client": 403, "none": 401}

func (w *world) operators() []who {
	w.t.Helper()
	past := time.Now().Add(-time.Hour)
	var list []who
	for _, role := range allRoles {
		for _, org := range []string{"a", ""} {
			o := who{role: role, org: org, keys: map[string]string{"none": ""}, states: states}
			_, o.keys["valid"] = w.key(access.Record{Role: role, Org: org})
			_, o.keys["expired"] = w.key(access.Record{Role: role, Org: org, Expires: past})
			_, o.keys["revoked"] = w.key(access.Record{Role: role, Org: org, Revoked: past})
			_, o.keys["for SCIM"] = w.key(access.Record{Role: role, Org: org, Endpoints: []string{access.SCIMAPI}})
			_, o.keys["client"] = w.key(access.Record{Org: "a", Models: []string{"*"}})
			list = append(list, o)
		}
	}
	return list
}

func (o who) isBound() bool {
	return o.org != "" && o.role != access.Owner && o.role != access.Admin
}

// leaks reports whether a response contains data of organisation b. Problems may quote its id, because
// the request had it.
func leaks(body string) bool {
	for _, sign := range []string{`"Org b"`, `"org":"b"`, `"id":"b"`, `"kb"`, `"object":"org:b`, `"object":"team:b`} {
		if strings.Contains(body, sign) {
			return true
		}
	}
	return false
}

// want returns the status for a valid key: it depends on the role, on the organisation that the operator
// is bound to, and on whether the object is visible.
func want(op operation, o who, tenant string) int {
	rule := rules[op.name]
	isBound := o.isBound()
	filtered := !strings.Contains(op.path, "{") && slices.Contains(op.query, "org") // a list that may be empty
	switch {
	case !slices.Contains(rule.roles, o.role), rule.scope == gatewayScope && isBound:
		return http.StatusForbidden
	case !op.about():
	case isBound && tenant != o.org && tenant != unsaid, tenant == nobody && !filtered:
		return http.StatusNotFound
	}
	if strings.HasPrefix(op.name, "create-") {
		return http.StatusCreated
	}
	return http.StatusOK
}

// TestMatrix calls every route as every role, bound to an organisation and not, for its own
// organisation, another one and none, with a key in every state, and with a token in every state.
func TestMatrix(t *testing.T) {
	w := newWorld(t)
	everybody := append(w.operators(), w.people()...)
	w.serve()
	ops := w.operations()
	seen := map[string]int{} // name, role, held, tenant: the status that a valid key got
	cells := 0
	for _, op := range ops {
		if _, ok := rules[op.name]; !ok {
			t.Errorf("%s has no row in the table of roles", op.name)
		}
		for _, o := range everybody {
			for _, tenant := range []string{"a", "b", nobody, unsaid} {
				for state, status := range o.states {
					cells++
					g := w.ask(op, o.keys[state], tenant, cells)
					if status == 0 {
						status = want(op, o, tenant)
						if at := cell(op.name, o, tenant); !o.person {
							seen[at] = g.status
						} else if g.status != seen[at] {
							t.Errorf("%s for the person %s of %q about %s: %d, and %d for a key", op.name, o.role, o.org, tenant, g.status, seen[at])
						}
					}
					limited := o.person && status == http.StatusUnauthorized && g.status == http.StatusTooManyRequests // of wrong credentials
					if g.status != status && !limited {
						t.Errorf("%s for %s of %q about %s with a credential that is %s: %d, want %d: %s", op.name, o.role, o.org, tenant, state, g.status, status, g.body)
					}
					if o.isBound() && leaks(g.body) {
						t.Errorf("%s for %s of %q about %s tells of another organisation: %s", op.name, o.role, o.org, tenant, g.body)
					}
					if g.status >= 400 && g.header.Get("Content-Type") != "application/problem+json" {
						t.Errorf("%s: %s", op.name, g.header.Get("Content-Type"))
					}
				}
			}
		}
	}
	t.Logf("%d routes, %d cells", len(ops), cells)
	writePage(t, ops, seen)
}

func cell(name string, o who, tenant string) string {
	return fmt.Sprint(name, "/", o.role, "/", o.org, "/", tenant)
}

// TestTableIsComplete checks that the table of roles, the routes and the served operations are the same set.
func TestTableIsComplete(t *testing.T) {
	w := newWorld(t).serve()
	served := map[string]bool{}
	for _, op := range w.operations() {
		served[op.name] = true
		if !strings.HasPrefix(op.path, prefix+"/") {
			t.Errorf("%s is served at %s", op.name, op.path)
		}
	}
	for _, r := range (&server{}).allRoutes() {
		if !served[r.Name] {
			t.Errorf("%s is not served", r.Name)
		}
	}
	for name := range rules {
		if !served[name] {
			t.Errorf("%s has a row and is not served", name)
		}
	}
	if p := Permit(access.Record{Role: access.Owner}, "new-route"); p == nil || p.Status != http.StatusForbidden {
		t.Error("a route without a row is not refused")
	}
	if p := Permit(access.Record{Role: "surprise"}, "whoami"); p == nil || p.Status != http.StatusForbidden {
		t.Error("a role that is not known is not refused")
	}
}

// besides are the paths outside of the API, with the route whose row they share.
var besides = map[string]string{"/metrics": "list-targets", "/models": "list-models", "/explain": "explain"}

// writePage writes the observed table into docs/admin-api.md, or checks that it is up to date.
func writePage(t *testing.T, ops []operation, seen map[string]int) {
	t.Helper()
	const page, begin, end = "../../../docs/admin-api.md", "<!-- generated: go test ./internal/api/admin -update -->\n", "<!-- end -->"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/admin-api.md has lost its markers")
	}
	var b strings.Builder
	b.WriteString("| operation | | what it does | owner | admin | billing | auditor | key-manager |\n|---|---|---|---|---|---|---|---|\n")
	for _, op := range ops {
		fmt.Fprintf(&b, "| `%s` | `%s %s` | %s |", op.name, op.method, op.path, op.summary)
		for _, role := range allRoles {
			fmt.Fprintf(&b, " %s |", reach(op, role, seen))
		}
		b.WriteString("\n")
	}
	for _, path := range slices.Sorted(maps.Keys(besides)) { // internal/app calls them
		fmt.Fprintf(&b, "| – | `%s` | Outside of the API, if other machines can reach the port |", path)
		for _, role := range allRoles {
			free, bound := Permit(access.Record{Role: role}, besides[path]) == nil, Permit(access.Record{Role: role, Org: "a"}, besides[path]) == nil
			fmt.Fprintf(&b, " %s |", map[[2]bool]string{{true, true}: "all", {true, false}: "all, not bound"}[[2]bool{free, bound}]+map[bool]string{false: "–"}[free])
		}
		b.WriteString("\n")
	}
	text := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != string(old) {
		t.Error("docs/admin-api.md differs from the API; run go test ./internal/api/admin -update and read the difference")
	}
}

// reach describes what a role reaches by a route.
func reach(op operation, role access.Role, seen map[string]int) string {
	status := func(org, tenant string) int { return seen[cell(op.name, who{role: role, org: org}, tenant)] }
	free, own, other := status("", "b")/100 == 2, status("a", "a")/100 == 2, status("a", "b")/100 == 2
	switch {
	case rules[op.name].scope == selfScope && free && own:
		return "itself"
	case rules[op.name].scope == noScope && free && own && other:
		return "yes"
	case free && other && (op.about() || rules[op.name].scope == gatewayScope || role == access.Owner || role == access.Admin):
		return "all"
	case free && own:
		return "all, or own"
	case free:
		return "all, not bound"
	case own:
		return "own"
	}
	return "–"
}

// TestDocument checks that every referenced schema exists and is used, and that every operation describes
// its errors and its security.
func TestDocument(t *testing.T) {
	w := newWorld(t).serve()
	text := w.send("", "GET", openapiPath, "").body
	document := read[struct {
		Security   []map[string][]string `json:"security"`
		Components struct {
			Schemas         map[string]any `json:"schemas"`
			SecuritySchemes map[string]any `json:"securitySchemes"`
		} `json:"components"`
		Paths map[string]map[string]struct {
			Responses map[string]any `json:"responses"`
			Security  []any          `json:"security"`
		} `json:"paths"`
	}](t, got{200, nil, text}, 200)
	used := map[string]bool{"Problem": true}
	for _, part := range strings.Split(text, `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		used[name] = true
		if document.Components.Schemas[name] == nil {
			t.Errorf("there is no schema %s", name)
		}
	}
	for name := range document.Components.Schemas {
		if !used[name] {
			t.Errorf("nothing uses the schema %s", name)
		}
	}
	if len(document.Security) != 1 || document.Security[0]["operator"] == nil || document.Components.SecuritySchemes["operator"] == nil {
		t.Errorf("%+v", document.Security)
	}
	for path, methods := range document.Paths {
		for method, op := range methods {
			if op.Responses["default"] == nil || len(op.Responses) != 2 || op.Security != nil {
				t.Errorf("%s %s: %+v", method, path, op)
			}
		}
	}
}

// TestOnlyTheDocumentIsOpen checks that only the document is served without a key.
func TestOnlyTheDocumentIsOpen(t *testing.T) {
	w := newWorld(t).serve()
	g := w.send("", "GET", openapiPath, "")
	var document map[string]any
	if err := json.Unmarshal([]byte(g.body), &document); err != nil || document["openapi"] != "3.1.0" {
		t.Errorf("%v: %.100s", err, g.body)
	}
	for path, status := range map[string]int{
		"/": 404, "/api": 404, "/api/": 404, "/api/v1": 404, "/api/v1/": 404, "/api/v2/keys": 404, "/docs": 404, "/schemas/KeyView.json": 404,
		"/openapi.json": 404, "/api/openapi.yaml": 404, "/api/openapi-3.0.json": 404, "/metrics": 404, "/debug/pprof/": 404,
		"/api/v1/whoami": 401, "/api/v1/keys": 401, "/api/v1/targets": 401, "/api/v1/keys/": 404, "/api/v1/KEYS": 404,
	} {
		if g := w.send("", "GET", path, ""); g.status != status {
			t.Errorf("%s: %d, want %d", path, g.status, status)
		}
	}
	g = w.send("", "DELETE", "/api/v1/keys", "")
	if g.status != http.StatusMethodNotAllowed || g.header.Get("Allow") != "GET, POST" {
		t.Errorf("%d %q %s", g.status, g.header.Get("Allow"), g.body)
	}
}
