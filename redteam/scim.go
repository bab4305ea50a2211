package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// scim calls a SCIM endpoint, such as "GET /scim/v2/Users", with a key.
func (r *rig) scim(ctx context.Context, key, what, body string) *evidence {
	method, path, _ := strings.Cut(what, " ")
	return r.send(ctx, request{method: method, path: path, body: body, key: key, admin: true, media: "application/scim+json"})
}

// provision creates a user and returns its id.
func (r *rig) provision(ctx context.Context, base, name string) string {
	e := r.scim(ctx, "scim", "POST "+base+"/Users", fmt.Sprintf(`{"userName":%q,"externalId":%q,"active":true}`, name, name))
	id := testrig.Parse([]byte(e.body)).Str("id")
	if !r.weak && id == "" {
		testrig.NoError(errorStatus("a user is not created", e))
	}
	return id
}

// changed checks that a step before the attack worked.
func (r *rig) changed(e *evidence) {
	if !r.weak && (e.status < 200 || e.status > 299) {
		testrig.NoError(errorStatus("a change by SCIM", e))
	}
}

const (
	people = "/scim/v2"
	strict = "/scim/strict"
)

func patchOf(operations string) string {
	return `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[` + operations + `]}`
}

func scimAttacks() (all []attack) {
	for _, list := range [][]attack{removedAttacks(), claimlessAttacks(), lookAlikes(), renamedAttacks(), directoryAttacks(), scimGroupAttacks(), scimBodies(), scimFilters()} {
		all = append(all, list...)
	}
	return all
}

// notAdmitted sends a token until its owner is refused, which takes a second at most on an idle machine. The weak
// gateway never refuses.
func (r *rig) notAdmitted(ctx context.Context, token string) *evidence {
	e := &evidence{}
	_ = testrig.Until(ctx, idlePatience, "", func() bool { // the last evidence is judged
		e = r.withToken(ctx, token)
		return e.status != 200 || r.weak
	})
	return e
}

// removedAttacks use the token of a person whom the identity provider has removed.
func removedAttacks() (all []attack) {
	ways := map[string]func(id, name string) (what, body string){
		"patch": func(id, _ string) (string, string) {
			return "PATCH /Users/" + id, patchOf(`{"op":"replace","path":"active","value":false}`)
		},
		"patch-value": func(id, _ string) (string, string) {
			return "PATCH /Users/" + id, patchOf(`{"op":"replace","value":{"active":false}}`)
		},
		"patch-text": func(id, _ string) (string, string) {
			return "PATCH /Users/" + id, patchOf(`{"op":"Replace","path":"active","value":"False"}`)
		},
		"put": func(id, n string) (string, string) {
			return "PUT /Users/" + id, fmt.Sprintf(`{"userName":%q,"externalId":%q,"active":false}`, n, n)
		},
		"delete": func(id, _ string) (string, string) { return "DELETE /Users/" + id, "" },
	}
	for way, change := range ways {
		for _, when := range []string{"before", "after"} { // its first request
			for _, alg := range []string{"EdDSA", "ES256"} {
				do := func(ctx context.Context, r *rig) *evidence {
					name := "removed-" + way + "-" + when + alg
					id := r.provision(ctx, people, name)
					token := r.issuer.sign(alg, r.issuer.claims("hr", map[string]any{"oid": name, "sub": name}))
					if when == "before" && r.withToken(ctx, token).status != 200 {
						testrig.NoError(fmt.Errorf("a person is not admitted before the removal"))
					}
					what, body := change(id, name)
					r.changed(r.scim(ctx, "scim", strings.Replace(what, " ", " "+people, 1), body))
					if alg == "ES256" {
						token = otherSignature(token)
					}
					return r.notAdmitted(ctx, token)
				}
				all = append(all, attack{name: "scim/removed/" + way + "/" + when + "/" + alg, do: do, holds: []oracle{refuses(401, 403)}})
			}
		}
	}
	return all
}

// claimlessAttacks use tokens of removed people that lack the claim by which SCIM knows them, or have it as
// something else than a text.
func claimlessAttacks() (all []attack) {
	values := map[string]string{
		"missing": ``, "null": `"oid":null`, "number": `"oid":17`, "true": `"oid":true`, "empty": `"oid":""`, "list": `"oid":["NAME"]`, "two": `"oid":["NAME","x"]`, "empty-list": `"oid":[]`, "object": `"oid":{"value":"NAME"}`, "case": `"OID":"NAME"`, "twice": `"oid":"x","oid":"NAME"`, "twice-reversed": `"oid":"NAME","oid":"x"`,
		"escaped-twice": `"oid":"NAME","\u006fid":"x"`, "dot": `"oid.value":"NAME"`, "space-name": `" oid":"NAME"`, "infinite": `"oid":1e999`,
	}
	for kind, member := range values {
		do := func(ctx context.Context, r *rig) *evidence {
			name := "claimless-" + kind
			id := r.provision(ctx, people, name)
			if first := r.withToken(ctx, r.issuer.sign("EdDSA", r.issuer.claims("hr", map[string]any{"oid": name, "sub": name}))); first.status != 200 {
				testrig.NoError(errorStatus("a person is not admitted before the removal", first))
			}
			r.changed(r.scim(ctx, "scim", "DELETE "+people+"/Users/"+id, ""))
			text := testrig.Compact(r.issuer.claims("hr", map[string]any{"sub": name}))
			if member != "" {
				text = "{" + strings.ReplaceAll(member, "NAME", name) + "," + text[1:]
			}
			return r.withToken(ctx, r.issuer.signText(header("EdDSA"), text))
		}
		all = append(all, attack{name: "scim/claim/" + kind, do: do, holds: []oracle{refuses(401, 403)}})
	}
	return all
}

// lookAlikes use tokens with names that look like a user's name, or that a careless comparison takes for
// it.
func lookAlikes() (all []attack) {
	for kind, name := range map[string]string{
		"kelvin": "\u212aatesmith", "long-s": "kate\u017fmith", "fullwidth": "\uff4batesmith", "cyrillic": "k\u0430tesmith", "dotless": "katesm\u0131th", "dotted": "KATESM\u0130TH", "zero-width": "kate\u200bsmith", "space-after": "katesmith ", "space-before": " katesmith", "nul": "katesmith\x00", "nul-inside": "kate\x00smith", "soft-hyphen": "kate\u00adsmith",
		"combining": "katesmith\u0301", "mathematical": "\U0001d424atesmith", "like": "kate%", "underscore": "kate_mith", "quote": "katesmith'", "domain": "katesmith@example.com", "newline": "katesmith\n", "ligature": "kate\ufb05mith", "unknown": "nobody", "wildcard": "*",
	} {
		do := func(ctx context.Context, r *rig) *evidence {
			r.scim(ctx, "scim", "POST "+strict+"/Users", `{"userName":"katesmith","externalId":"k","active":true}`) // it is there after the first
			control := r.withToken(ctx, r.issuer.sign("EdDSA", r.issuer.claims("strict", map[string]any{"upn": "katesmith", "sub": "kate"})))
			if control.status != 200 {
				testrig.NoError(errorStatus("the user herself is not admitted", control))
			}
			return r.withToken(ctx, r.issuer.sign("EdDSA", r.issuer.claims("strict", map[string]any{"upn": name, "sub": "other-" + kind})))
		}
		all = append(all, attack{name: "scim/look-alike/" + kind, do: do, holds: []oracle{refuses(401, 403)}})
	}
	return all
}

// renamedAttacks rename a user, remove it, and use a token with an earlier name.
func renamedAttacks() (all []attack) {
	for _, renames := range []int{1, 11, 12, 13, 40} {
		for _, kept := range []string{"first", "middle", "last"} {
			do := func(ctx context.Context, r *rig) *evidence {
				name := func(i int) string { return fmt.Sprintf("renamed-%d-%s-%d", renames, kept, i) }
				id := r.provision(ctx, people, name(0))
				for i := 1; i <= renames; i++ {
					r.changed(r.scim(ctx, "scim", "PATCH "+people+"/Users/"+id, patchOf(fmt.Sprintf(`{"op":"replace","path":"externalId","value":%q}`, name(i)))))
				}
				r.changed(r.scim(ctx, "scim", "DELETE "+people+"/Users/"+id, ""))
				used := map[string]int{"first": 0, "middle": renames / 2, "last": renames}[kept]
				return r.notAdmitted(ctx, r.issuer.sign("EdDSA", r.issuer.claims("hr", map[string]any{"oid": name(used), "sub": name(0)})))
			}
			all = append(all, attack{name: fmt.Sprintf("scim/renamed/%d-%s", renames, kept), do: do, holds: []oracle{refuses(401, 403)}})
		}
	}
	return all
}

// directoryAttacks call the endpoints with keys that have no directory, or another one.
func directoryAttacks() (all []attack) {
	calls := map[string]string{"list": "GET /Users", "read": "GET /Users/{id}", "remove": "DELETE /Users/{id}", "disable": "PATCH /Users/{id}", "create": "POST /Users", "groups": "GET /Groups", "schemas": "GET /Schemas"}
	for key, statuses := range map[string][]int{"": {401}, "full": {403}, "gone": {401}, "owner": {403}, "admin": {403}, "billing": {403}, "auditor": {403}, "auditor-a": {403}, "no-scim": {403}} {
		for name, call := range calls {
			do := func(ctx context.Context, r *rig) *evidence {
				id := r.canaryUser(ctx)
				body := map[string]string{"disable": patchOf(`{"op":"replace","path":"active","value":false}`), "create": `{"userName":"x-` + key + `"}`}[name]
				return r.scim(ctx, key, strings.Replace(strings.ReplaceAll(call, "{id}", id), " ", " "+people, 1), body)
			}
			who := key
			if who == "" {
				who = "no-key"
			}
			all = append(all, attack{name: "scim/key/" + who + "/" + name, do: do, holds: []oracle{refuses(statuses...), lacks("canary-user")}})
		}
	}
	for name, call := range map[string]string{"read": "GET /Users/{id}", "remove": "DELETE /Users/{id}", "disable": "PATCH /Users/{id}"} {
		do := func(ctx context.Context, r *rig) *evidence {
			return r.scim(ctx, "scim-b", strings.Replace(strings.ReplaceAll(call, "{id}", r.canaryUser(ctx)), " ", " "+people, 1), map[string]string{"disable": patchOf(`{"op":"replace","path":"active","value":false}`)}[name])
		}
		all = append(all, attack{name: "scim/other-organisation/" + name, do: do, holds: []oracle{refuses(404), lacks("canary-user")}})
	}
	return all
}

// canaryUser returns the id of a user whom only the key scim may see.
func (r *rig) canaryUser(ctx context.Context) string {
	r.mu.Lock()
	id := r.ids["canary-user"]
	r.mu.Unlock()
	if id == "" {
		id = r.provision(ctx, people, "canary-user")
		r.mu.Lock()
		r.ids["canary-user"] = id
		r.mu.Unlock()
	}
	return id
}

// scimBodies are bodies that no identity provider sends.
func scimBodies() (all []attack) {
	many := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+",", n), ",") }
	user, active := "PATCH "+people+"/Users/{id}", `{"op":"replace","path":"active","value":VALUE}`
	for name, c := range map[string]struct{ what, body string }{
		"big": {"POST " + people + "/Users", `{"userName":"` + strings.Repeat("x", 2<<20) + `"}`}, "deep-list": {"POST " + people + "/Users", `{"userName":"x","a":` + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000) + `}`}, "deep-object": {"POST " + people + "/Users", strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000)},
		"operations": {user, patchOf(many(5000, strings.Replace(active, "VALUE", "true", 1)))}, "member-twice": {user, patchOf(`{"op":"replace","path":"active","value":true,"value":false}`)}, "nul": {"POST " + people + "/Users", `{"userName":"a\u0000b"}`}, "not-utf8": {"POST " + people + "/Users", "{\"userName\":\"a\xff\"}"},
		"form": {"POST " + people + "/Users", `userName=x`}, "list": {"POST " + people + "/Users", `[]`}, "null": {"POST " + people + "/Users", `null`}, "no-name": {"POST " + people + "/Users", `{"active":true}`}, "name-number": {"POST " + people + "/Users", `{"userName":17}`}, "name-list": {"POST " + people + "/Users", `{"userName":["a","b"]}`}, "name-long": {"POST " + people + "/Users", `{"userName":"` + strings.Repeat("x", 2000) + `"}`},
		"active-number": {user, patchOf(strings.Replace(active, "VALUE", "0", 1))}, "active-null": {user, patchOf(strings.Replace(active, "VALUE", "null", 1))}, "active-list": {user, patchOf(strings.Replace(active, "VALUE", "[true,false]", 1))}, "active-word": {user, patchOf(strings.Replace(active, "VALUE", `"no"`, 1))}, "active-removed": {user, patchOf(`{"op":"remove","path":"active"}`)},
		"name-removed": {user, patchOf(`{"op":"remove","path":"userName"}`)}, "no-operations": {user, `{"active":false}`}, "op-unknown": {user, patchOf(`{"op":"move","path":"active","value":false}`)}, "op-object": {user, patchOf(`{"op":{},"path":"active"}`)}, "path-open": {user, patchOf(`{"op":"replace","path":"emails[type eq \"x\".value","value":"x"}`)}, "path-or": {user, patchOf(`{"op":"replace","path":"emails[type eq \"x\" or 1=1].value","value":"x"}`)},
		"path-long": {user, patchOf(`{"op":"replace","path":"` + strings.Repeat("a", 3000) + `","value":1}`)}, "emails": {user, patchOf(`{"op":"add","path":"emails","value":[` + emails(200) + `]}`)}, "taken": {"POST " + people + "/Users", `{"userName":"canary-user"}`}, "taken-case": {"POST " + people + "/Users", `{"userName":"CANARY-USER"}`},
		"bulk": {"POST " + people + "/Bulk", `{"Operations":[]}`}, "me": {"GET " + people + "/Me", ""}, "search": {"POST " + people + "/.search", `{"filter":"userName pr"}`}, "id-sql": {"GET " + people + "/Users/x'%20OR%20'1'='1", ""}, "id-dots": {"GET " + people + "/Users/..%2fGroups", ""}, "id-nul": {"GET " + people + "/Users/%00", ""},
		"method": {"TRACE " + people + "/Users", ""}, "other-path": {"GET /scim/v3/Users", ""}, "member-unknown": {"POST " + people + "/Groups", `{"displayName":"g","members":[{"value":"nobody"}]}`}, "member-text": {"POST " + people + "/Groups", `{"displayName":"g","members":["x"]}`}, "two-bodies": {"POST " + people + "/Users", `{"userName":"x"}{"userName":"y"}`},
	} {
		do := func(ctx context.Context, r *rig) *evidence {
			return r.scim(ctx, "scim", strings.ReplaceAll(c.what, "{id}", r.canaryUser(ctx)), c.body)
		}
		all = append(all, attack{name: "scim/body/" + name, do: do, holds: []oracle{refuses(400, 404, 405, 409, 413)}})
	}
	return all
}

// emails returns different mail addresses.
func emails(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"value":"a%d@example.com"}`, i)
	}
	return strings.Join(list, ",")
}

// scimFilters are filters that would select more than they name.
func scimFilters() (all []attack) {
	for name, filter := range map[string]string{
		"or": `userName eq "x" or userName eq "canary-user"`, "sql": `userName eq "x" or 1=1`, "quote": `userName eq "x' OR '1'='1"`, "comment": `userName eq "x" --`, "statement": `1=1; DROP TABLE keys`, "contains": `userName co "canary"`, "starts": `userName sw "c"`, "present": `userName pr`, "not": `not userName eq "x"`, "not-equal": `userName ne "x"`, "greater": `userName gt "a"`,
		"bare": `userName eq canary-user`, "open": `userName eq "canary-user`, "brackets": `(userName eq "canary-user")`, "column": `user_name eq "canary-user"`, "issuer": `issuer eq "x"`, "nul": "userName eq \"canary-user\x00\"", "like": `userName eq "canary%"`, "star": `userName eq "*"`, "empty": `userName eq ""`, "long": `userName eq "` + strings.Repeat("x", 2000) + `"`, "terms": strings.Repeat(`id eq "x" and `, 9) + `id eq "x"`,
		"path": `emails[type eq "work"].value eq "x"`, "backslash": `userName eq "\`, "escape": `userName eq "\u12"`, "union": `userName eq "x') UNION SELECT * FROM keys --"`,
	} {
		do := func(ctx context.Context, r *rig) *evidence {
			r.canaryUser(ctx)
			e := r.scim(ctx, "scim", "GET "+people+"/Users?filter="+url.QueryEscape(filter), "")
			e.problem(e.status != 400 && e.status != 200, "status %d", e.status)
			e.problem(e.status == 200 && testrig.Parse([]byte(e.body)).Num("totalResults") != 0, "the filter selects users")
			return e
		}
		all = append(all, attack{name: "scim/filter/" + name, do: do, holds: []oracle{lacks("canary-user")}})
	}
	return all
}
