package scim

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestFilters checks that filters select only what they name, whatever text they have.
func TestFilters(t *testing.T) {
	both(t, func(w *world) {
		odd := []string{`'; DROP TABLE keys; --`, `x" or userName eq "y`, `back\slash`, `%`, `ünï`, `a b`, `$1`, `x' OR '1'='1`}
		ids := map[string]string{}
		for _, name := range odd {
			ids[name] = w.user(name)
		}
		for _, name := range odd {
			quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
			w.has(w.want(200, `GET /v2/Users?filter=userName eq `+quoted, ""), map[string]string{"totalResults": "1", "Resources.0.id": ids[name], "Resources.0.userName": name})
			w.has(w.want(200, `GET /v2/Users?filter=USERNAME Eq `+quoted+` and externalId eq "nobody"`, ""), map[string]string{"totalResults": "0"})
		}
		for _, filter := range []string{
			`userName eq "x" or userName eq "y"`, `userName eq "x" or 1=1`, `userName co "a"`, `userName pr`, `userName eq x`, `userName eq "x`, `userName eq "x" and`, `eq "x"`, `userName eq "x")`, `(userName eq "x")`,
			`not userName eq "x"`, `password eq "x"`, `user_name eq "x"`, `issuer eq "x"`, `1=1; DROP TABLE keys`, `userName eq "\u12"`, `userName eq "\`, `emails[type eq "work"].value eq "x"`, `id eq "x" ; --`,
			`userName eq "` + strings.Repeat("x", 2000) + `"`, strings.Repeat(`id eq "x" and `, 9) + `id eq "x"`,
		} {
			w.has(w.want(400, `GET /v2/Users?filter=`+filter, ""), map[string]string{"scimType": "invalidFilter"})
		}
		w.want(400, "GET /v2/Users?filter=userName eq \"a\x00b\"", "")
		w.want(400, `GET /v2/Users?filter=userName eq "a\u0000b"`, "")
		w.want(404, "GET /v2/Users/x'%20OR%20'1'='1", "")
		w.has(w.want(200, "GET /v2/Users", ""), map[string]string{"totalResults": fmt.Sprint(len(odd))})
	})
}

// TestHugeRequests checks that each part of a request has a limit, and that a refused request changes
// nothing.
func TestHugeRequests(t *testing.T) {
	w := newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	id := w.user("ann")
	group := w.want(201, "POST /v2/Groups", `{"displayName":"g"}`).at("id")
	long := strings.Repeat("x", 2000)
	many := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+",", n), ",") }
	for name, c := range map[string]struct {
		status     int
		what, body string
	}{
		"body":               {413, "POST /v2/Users", `{"userName":"` + strings.Repeat("x", 2<<20) + `"}`},
		"depth":              {400, "POST /v2/Users", `{"userName":"x","a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`},
		"a little deep":      {400, "POST /v2/Users", `{"userName":"x","a":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`},
		"depth of objects":   {400, "POST /v2/Users", strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000)},
		"operations":         {413, "PATCH /v2/Users/" + id, patch(many(10_000, `{"op":"replace","path":"active","value":false}`))},
		"hidden operations":  {413, "PATCH /v2/Users/" + id, patch(many(30, `{"op":"replace","value":{`+strings.Join(names(100), ",")+`}}`))},
		"members":            {413, "PATCH /v2/Groups/" + group, patch(`{"op":"add","path":"members","value":[` + many(25_000, `{"value":"u"}`) + `]}`)},
		"emails":             {413, "PATCH /v2/Users/" + id, patch(`{"op":"add","path":"emails","value":[` + emails(50) + `]}`)},
		"userName":           {400, "POST /v2/Users", `{"userName":"` + long + `"}`},
		"path":               {400, "PATCH /v2/Users/" + id, patch(`{"op":"replace","path":"` + long + `","value":1}`)},
		"attribute as path":  {400, "PATCH /v2/Users/" + id, patch(`{"op":"replace","value":{"` + long + `":1}}`)},
		"member twice":       {400, "PATCH /v2/Users/" + id, patch(`{"op":"replace","path":"active","value":true,"value":false}`)},
		"zero byte":          {400, "POST /v2/Users", `{"userName":"a\u0000b"}`},
		"not UTF-8":          {400, "POST /v2/Users", "{\"userName\":\"a\xff\"}"},
		"no JSON":            {400, "POST /v2/Users", `userName=x`},
		"a list":             {400, "POST /v2/Users", `[]`},
		"null":               {400, "POST /v2/Users", `null`},
		"no userName":        {400, "POST /v2/Users", `{"active":true}`},
		"active is a number": {400, "PATCH /v2/Users/" + id, patch(`{"op":"replace","path":"active","value":0}`)},
		"active is null":     {400, "PATCH /v2/Users/" + id, patch(`{"op":"replace","path":"active","value":null}`)},
		"active is removed":  {400, "PATCH /v2/Users/" + id, patch(`{"op":"remove","path":"active"}`)},
		"name is removed":    {400, "PATCH /v2/Users/" + id, patch(`{"op":"remove","path":"userName"}`)},
		"no operations":      {400, "PATCH /v2/Users/" + id, `{"active":false}`},
		"unknown op":         {400, "PATCH /v2/Users/" + id, patch(`{"op":"move","path":"active","value":false}`)},
		"op is an object":    {400, "PATCH /v2/Users/" + id, patch(`{"op":{},"path":"active","value":false}`)},
		"open filter":        {400, "PATCH /v2/Users/" + id, patch(`{"op":"replace","path":"emails[type eq \"x\".value","value":"x"}`)},
		"filter of path":     {400, "PATCH /v2/Users/" + id, patch(`{"op":"replace","path":"emails[type eq \"x\" or 1=1].value","value":"x"}`)},
		"unknown member":     {400, "PATCH /v2/Groups/" + group, patch(`{"op":"add","path":"members","value":[{"value":"` + id + `"},{"value":"nobody"}]}`)},
		"member is a text":   {400, "PATCH /v2/Groups/" + group, patch(`{"op":"add","path":"members","value":["` + id + `"]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			g := w.want(c.status, c.what, c.body)
			if len(g.text) > 500 || strings.Contains(g.text, "xxxx") {
				t.Errorf("the error quotes the request: %.600s", g.text)
			}
		})
	}
	w.has(w.want(200, "GET /v2/Users", ""), map[string]string{"totalResults": "1", "Resources.0.active": "true", "Resources.0.emails": ""})
	w.has(w.want(200, "GET /v2/Groups/"+group, ""), map[string]string{"members": ""})
	w.want(415, "POST /v2/Users", `{"userName":"x"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
	w.want(415, "POST /v2/Users", `{"userName":"x"}`, func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") })
	w.want(201, "POST /v2/Users", `{"userName":"x"}`, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") })
}

// names returns members of an object: "n0":"v", "n1":"v", ….
func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(`"n%d":"v"`, i))
	}
	return out
}

// emails returns different addresses.
func emails(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`{"value":"a%d@example.com"}`, i))
	}
	return strings.Join(out, ",")
}

// TestFull checks the limits of a directory.
func TestFull(t *testing.T) {
	w := newWorld(t, storetest.Postgres(t).URL) // faster than SQLite with the race detector
	fill := func(insert string, n int) {
		t.Helper()
		for from := 1; from <= n; from += 5000 { // a statement may take a few seconds
			_, err := w.store.Provision(t.Context(), func(ctx context.Context, c db.Conn) (string, error) {
				return "", c.Exec(ctx, fmt.Sprintf(`WITH RECURSIVE s(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM s WHERE n < %d) `, from, min(n, from+4999))+insert)
			})
			w.must(err)
		}
	}
	ann := w.user("ann")
	first := w.want(201, "POST /v2/Groups", `{"displayName":"first"}`).at("id")
	fill(`INSERT INTO scim_users (id, issuer, org, user_name, external_id, active, deleted, data) SELECT 'u' || n, '`+entra+`', 'a', 'u' || n, '', TRUE, 0, '{}' FROM s`, maxUsers-1)
	w.want(507, "POST /v2/Users", `{"userName":"one more"}`)
	w.want(200, "PATCH /v2/Users/"+ann, patch(`{"op":"replace","path":"active","value":false}`)) // people can always be removed
	fill(`INSERT INTO scim_members (group_id, user_id) SELECT 'g' || n, '`+ann+`' FROM s`, maxUserGroups)
	w.want(507, "PATCH /v2/Groups/"+first, patch(`{"op":"add","path":"members","value":[{"value":"`+ann+`"}]}`))
	fill(`INSERT INTO scim_members (group_id, user_id) SELECT '`+first+`', 'u' || n FROM s`, maxMembers)
	w.want(507, "PATCH /v2/Groups/"+first, patch(`{"op":"add","path":"members","value":[{"value":"u90000"}]}`))
	fill(`INSERT INTO scim_groups (id, issuer, org, name, external_id, data) SELECT 'g' || n, '`+entra+`', 'a', 'g' || n, '', '{}' FROM s`, maxGroups-1)
	w.want(507, "POST /v2/Groups", `{"displayName":"one more"}`)
	w.want(201, "POST /okta/v2/Users", `{"userName":"of another directory"}`)
}

// TestOthersKeys checks that a key reaches only the directory of its organisation and issuer, and
// that only key managers have one.
func TestOthersKeys(t *testing.T) {
	both(t, func(w *world) {
		ann := w.user("ann")
		group := w.want(201, "POST /v2/Groups", `{"displayName":"g","members":[{"value":"`+ann+`"}]}`).at("id")
		w.person("a", entra, access.ExternalID, "x-ann")
		w.person("b", entra, access.ExternalID, "x-ann")
		off := patch(`{"op":"replace","path":"active","value":false}`)
		beta, all := as(w.operator(access.KeyManager, "b")), as(w.operator(access.KeyManager, ""))
		for name, c := range map[string]struct {
			path string
			key  func(*http.Request)
		}{"another organisation": {"/v2", beta}, "no organisation": {"/v2", all}, "another issuer": {"/okta/v2", as(w.key)}} {
			w.has(w.want(200, "GET "+c.path+"/Users", "", c.key), map[string]string{"totalResults": "0"})
			w.has(w.want(200, `GET `+c.path+`/Users?filter=userName eq "ann"`, "", c.key), map[string]string{"totalResults": "0"})
			w.has(w.want(200, "GET "+c.path+"/Groups", "", c.key), map[string]string{"totalResults": "0"})
			for _, what := range []string{"GET /Users/" + ann, "DELETE /Users/" + ann, "GET /Groups/" + group, "DELETE /Groups/" + group} {
				w.want(404, strings.Replace(what, " ", " "+c.path, 1), "", c.key)
			}
			w.want(404, "PATCH "+c.path+"/Users/"+ann, off, c.key)
			w.want(404, "PUT "+c.path+"/Users/"+ann, `{"userName":"ann","active":false}`, c.key)
			w.want(404, "PATCH "+c.path+"/Groups/"+group, patch(`{"op":"remove","path":"members"}`), c.key)
			own := w.want(201, "POST "+c.path+"/Groups", `{"displayName":"own"}`, c.key).at("id")
			w.want(400, "PATCH "+c.path+"/Groups/"+own, patch(`{"op":"add","path":"members","value":[{"value":"`+ann+`"}]}`), c.key)
			if !w.account("a", entra, "x-ann") {
				t.Fatalf("a key of %s removed a person", name)
			}
		}

		own := w.user("ann", beta) // the same name and externalId
		w.want(200, "PATCH /v2/Users/"+own, off, beta)
		if !w.account("a", entra, "x-ann") || w.account("b", entra, "x-ann") {
			t.Error("a key of b did not remove the person of b alone")
		}
		w.want(200, "PATCH /v2/Users/"+own, patch(`{"op":"replace","path":"active","value":true}`), beta)
		w.want(200, "PATCH /v2/Users/"+w.user("ann", all), off, all)
		if w.account("a", entra, "x-ann") || w.account("b", entra, "x-ann") {
			t.Error("a key of all organisations did not remove the person of each")
		}
		w.want(200, "PATCH /v2/Users/"+ann, patch(`{"op":"replace","path":"active","value":true}`))
		if w.account("a", entra, "x-ann") {
			t.Error("a key of one organisation restored whom a key of all has removed")
		}

		for _, role := range []access.Role{access.Owner, access.Admin, access.Billing, access.Auditor} {
			w.want(403, "GET /v2/Users", "", as(w.operator(role, "")))
			w.want(403, "DELETE /v2/Users/"+ann, "", as(w.operator(role, "a")))
		}
		w.want(200, "GET /v2/Users", "", as(w.operator(access.KeyManager, "a", "scim")))
		w.want(403, "GET /v2/Users", "", as(w.operator(access.KeyManager, "a", "admin")))
		if g := w.want(401, "GET /v2/Users", "", as("")); g.header.Get("WWW-Authenticate") == "" {
			t.Error("no challenge")
		}
		w.want(401, "GET /v2/ServiceProviderConfig", "", as("gw_admin_x"))
		w.want(401, "DELETE /v2/Users/"+ann, "", as(w.key+"x"))
		if log := w.actions(""); !slices.ContainsFunc(log, func(e string) bool { return strings.HasSuffix(e, "denied: role_not_allowed") }) {
			t.Errorf("%q: no denial", log)
		}
	})
}

// TestWebPages checks that web pages are kept out.
func TestWebPages(t *testing.T) {
	w := newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	for _, edit := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		func(r *http.Request) { r.Host = "evil.example" },
	} {
		if g := w.send("POST /v2/Users", `{"userName":"x"}`, edit); g.status != http.StatusForbidden {
			t.Errorf("%d %s", g.status, g.text)
		}
	}
}

// TestStoreDown checks that a request gets 503 while the store is down, so that the provider sends it
// again.
func TestStoreDown(t *testing.T) {
	w := newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	id := w.user("ann")
	w.must(w.store.Close())
	for _, what := range []string{"GET /v2/Users", "GET /v2/Users/" + id, "DELETE /v2/Users/" + id} {
		if g := w.want(503, what, ""); g.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", what)
		}
	}
	w.want(503, "POST /v2/Users", `{"userName":"bob"}`)
}

// FuzzPatch checks that no body of a PATCH makes it panic, and that a user stays valid.
func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		patch(`{"op":"replace","path":"active","value":"False"}`), patch(`{"op":"Add","value":{"emails[type eq \"work\"].value":"x","name":{"givenName":"a"}}}`),
		patch(`{"op":"remove","path":"emails[type eq \"work\" and primary eq true]"}`), patch(`{"op":"remove","path":"members[value eq \"x\"]"}`), `{"userName":"x","emails":[{"value":1}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 || !shallow([]byte(text)) {
			return
		}
		var body map[string]any
		if json.Unmarshal([]byte(text), &body) != nil {
			return
		}
		for _, read := range []func(map[string]any) ([]change, error){readPatch, changesOf} {
			changes, err := read(body)
			if err != nil {
				continue
			}
			u := newUser()
			u.UserName = "ann"
			if err := u.apply(changes); err == nil && (u.UserName == "" || len(u.UserName) > maxText || len(u.Emails) > maxEmails) {
				t.Errorf("%+v", u)
			}
			g := newGroup()
			g.DisplayName = "g"
			_, _ = g.apply(changes)
		}
	})
}

// TestRenames renames a user many times and removes it: a token with any of the names is refused. No
// rename is accepted whose names could not be kept, and a removal always is.
func TestRenames(t *testing.T) {
	w := newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	id := w.user("n0")
	const renames = 30
	for i := range renames {
		w.want(200, "PATCH /v2/Users/"+id, patch(fmt.Sprintf(`{"op":"replace","path":"userName","value":"n%d"}`, i+1)))
	}
	_, err := w.store.Provision(t.Context(), func(ctx context.Context, c db.Conn) (string, error) {
		for i := range maxNames {
			if err := c.Exec(ctx, `INSERT INTO scim_names (name, org, user_id, given) VALUES ($1, 'a', $2, 1)`, fmt.Sprint("filler-", i), id); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	w.must(err)
	if g := w.send("PATCH /v2/Users/"+id, patch(`{"op":"replace","path":"userName","value":"one-more"}`)); g.status < 400 {
		t.Errorf("a name that cannot be kept: %d", g.status)
	}
	w.want(200, "PATCH /v2/Users/"+id, patch(`{"op":"replace","path":"userName","value":"last"}`, `{"op":"replace","path":"active","value":false}`))
	for i := range renames + 1 {
		if w.person("a", entra, access.UserName, fmt.Sprint("n", i)) {
			t.Errorf("name %d is admitted", i)
		}
	}
}
