package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// session signs an operator in and returns the cookie of the session.
func (r *rig) session(ctx context.Context, from string) string {
	p := ports()[1]
	cookie, state, nonce := r.begin(ctx, p, from)
	e := r.finish(ctx, p, from, cookie, url.Values{"state": {state}, "iss": {r.issuer.url("main")}, "code": {r.issuer.approve(nonce)}})
	session := setCookie(e, sessionCookie)
	if session == "" && !r.weak {
		testrig.NoError(errorStatus("an operator is not signed in", e))
	}
	return session
}

// keySession trades a new auditor's key for a session and returns the cookie of the session.
func (r *rig) keySession(ctx context.Context, from string) string {
	session, _ := r.sessionOfKey(ctx, from)
	return session
}

// sessionOfKey also returns the id of the key. chosen are other headers of the request.
func (r *rig) sessionOfKey(ctx context.Context, from string, chosen ...string) (session, id string) {
	made := r.send(ctx, request{path: "/api/v1/keys", key: "owner", admin: true, body: `{"name":"of a session","role":"auditor"}`})
	key := testrig.Parse([]byte(made.body))
	headers := append([]string{"Authorization", "Bearer " + key.Str("text"), "Sec-Fetch-Site", "same-origin"}, chosen...)
	e := r.send(ctx, request{path: "/api/v1/session", admin: true, headers: headers, from: from, media: "none"})
	session = setCookie(e, sessionCookie)
	if session == "" && !r.weak {
		testrig.NoError(errorStatus("a key begins no session", e))
	}
	return session, key.Obj("key").Str("id")
}

// errorStatus reports a step before an attack that failed.
func errorStatus(what string, e *evidence) error {
	return fmt.Errorf("%s: status %d: %s", what, e.status, testrig.Clip(e.body, 300))
}

// sessionAttacks use the session of an operator from other pages, or forge one. It began at the issuer or with a key.
func sessionAttacks() []attack {
	return slices.Concat(attacksOn("session", (*rig).session), attacksOn("key-session", (*rig).keySession), keySessionAttacks())
}

// keySessionAttacks begin a session as no page of the console does, or use one whose key has ended.
func keySessionAttacks() (all []attack) {
	begin := func(name string, headers ...string) {
		do := func(ctx context.Context, r *rig) *evidence {
			q := request{path: "/api/v1/session", admin: true, headers: append([]string{"Authorization", "Bearer " + r.keys["owner"]}, headers...), media: "none"}
			e := r.send(ctx, q)
			e.problem(setCookie(e, sessionCookie) != "", "a session began")
			return e
		}
		all = append(all, attack{name: "signin/key-session/begin-" + name, do: do, holds: []oracle{refuses(401, 403)}})
	}
	begin("cross-site", "Sec-Fetch-Site", "cross-site")
	begin("same-site", "Sec-Fetch-Site", "same-site")
	begin("typed", "Sec-Fetch-Site", "none")
	begin("program")
	begin("origin", "Origin", "https://evil.example")
	begin("two-headers", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Site", "same-origin")
	use := func(name, path string, do func(ctx context.Context, r *rig, from string) (session string), holds ...oracle) {
		all = append(all, attack{name: "signin/key-session/" + name, holds: holds, do: func(ctx context.Context, r *rig) *evidence {
			from := addressed(35000 + len(name))
			session := do(ctx, r, from)
			q := request{method: "GET", path: path, admin: path != "/v1/models", headers: []string{"Cookie", sessionCookie + "=" + session + "; isogloss-usage=" + session, "Sec-Fetch-Site", "same-origin"}, from: from}
			return r.send(ctx, q)
		}})
	}
	const keys = "/api/v1/keys"
	use("fixed", keys, func(ctx context.Context, r *rig, from string) string {
		chosen := "chosen-by-an-attacker"
		r.sessionOfKey(ctx, from, "Cookie", sessionCookie+"="+chosen)
		return chosen
	}, refuses(401, 403), lacks("canary-key"))
	use("client-port", "/v1/models", func(ctx context.Context, r *rig, from string) string { return r.keySession(ctx, from) }, refuses(401))
	use("revoked", keys, func(ctx context.Context, r *rig, from string) string {
		session, id := r.sessionOfKey(ctx, from)
		r.endKey(ctx, id, "revoke", "")
		return session
	}, refuses(401, 403), lacks("canary-key"))
	use("rotated", keys, func(ctx context.Context, r *rig, from string) string {
		session, id := r.sessionOfKey(ctx, from)
		r.endKey(ctx, id, "rotate", `{"overlap_seconds":0}`)
		return session
	}, refuses(401, 403), lacks("canary-key"))
	return all
}

// endKey revokes or rotates a key, and waits until the gateway knows.
func (r *rig) endKey(ctx context.Context, id, how, body string) {
	e := r.send(ctx, request{path: "/api/v1/keys/" + id + "/" + how, key: "owner", admin: true, body: body})
	if e.status != 200 && !r.weak {
		testrig.NoError(errorStatus("a key cannot be ended", e))
	}
	time.Sleep(2 * time.Second) // the time within which all nodes know
}

// attacksOn are those on a session of a kind.
func attacksOn(kind string, begin func(r *rig, ctx context.Context, from string) string) (all []attack) {
	add := func(name string, use func(r *rig, session string) request) {
		do := func(ctx context.Context, r *rig) *evidence {
			from := addressed(36000 + len(name))
			session := begin(r, ctx, from)
			q := request{method: "GET", path: "/api/v1/keys", admin: true, headers: []string{"Cookie", sessionCookie + "=" + session, "Sec-Fetch-Site", "same-origin"}, from: from}
			e := r.send(ctx, q)
			if !r.weak && e.status != 200 {
				testrig.NoError(errorStatus("a session is not served", e))
			}
			q = use(r, session)
			q.admin, q.from = true, from
			return r.send(ctx, q)
		}
		all = append(all, attack{name: "signin/" + kind + "/" + name, do: do, holds: []oracle{refuses(401, 403), lacks("canary-key")}})
	}
	page := func(name, method string, headers ...string) {
		add(name, func(_ *rig, s string) request {
			return request{method: method, path: "/api/v1/keys", headers: append([]string{"Cookie", sessionCookie + "=" + s}, headers...), body: map[string]string{"POST": `{"name":"n"}`}[method]}
		})
	}
	page("cross-site", "GET", "Sec-Fetch-Site", "cross-site")
	page("same-site", "GET", "Sec-Fetch-Site", "same-site")
	page("typed-post", "POST", "Sec-Fetch-Site", "none")
	page("no-header", "GET")
	page("empty-header", "GET", "Sec-Fetch-Site", "")
	page("two-headers", "GET", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Site", "same-origin")
	page("origin", "POST", "Origin", "https://evil.example")
	page("beyond-role", "POST", "Sec-Fetch-Site", "same-origin") // an auditor creates a key
	forged := map[string]func(s string) string{"invented": func(string) string { return "invented" }, "shorter": func(s string) string { return s[:max(0, len(s)-1)] }, "longer": func(s string) string { return s + "x" }, "case": strings.ToUpper, "empty": func(string) string { return `""` }, "sql": func(string) string { return "'OR'1'='1" }, "other-name": func(s string) string { return "x; isogloss-Session=" + s }}
	for name, change := range forged {
		add("forged-"+name, func(_ *rig, s string) request {
			return request{method: "GET", path: "/api/v1/keys", headers: []string{"Cookie", sessionCookie + "=" + change(s), "Sec-Fetch-Site", "same-origin"}}
		})
	}
	add("as-bearer", func(_ *rig, s string) request {
		return request{method: "GET", path: "/api/v1/keys", headers: []string{"Authorization", "Bearer " + s, "Cookie", sessionCookie + "=" + s, "Sec-Fetch-Site", "same-origin"}}
	})
	after := func(ctx context.Context, r *rig) *evidence {
		from := addressed(36500)
		cookie := []string{"Cookie", sessionCookie + "=" + begin(r, ctx, from), "Sec-Fetch-Site", "same-origin"}
		out := r.send(ctx, request{path: "/logout", admin: true, headers: cookie, from: from, media: "application/x-www-form-urlencoded"})
		e := r.send(ctx, request{method: "GET", path: "/api/v1/keys", admin: true, headers: cookie, from: from})
		e.problem(out.status != 200, "the sign-out has status %d", out.status)
		return e
	}
	return append(all, attack{name: "signin/" + kind + "/signed-out", do: after, holds: []oracle{refuses(401, 403), lacks("canary-key")}})
}

// revokedAttacks use a token that was revoked, in another spelling or place.
func revokedAttacks() (all []attack) {
	same := func(t string) string { return t }
	spell := map[string]func(string) string{"same": same, "last-character": otherSpelling, "second-signature": func(t string) string {
		if strings.Contains(t, encode(header("ES256"))) {
			return otherSignature(t)
		}
		return t
	}}
	place := map[string]func(t string) []string{
		"bearer": func(t string) []string { return []string{"Authorization", "Bearer " + t} }, "x-api-key": func(t string) []string { return []string{"X-Api-Key", t} }, "goog": func(t string) []string { return []string{"X-Goog-Api-Key", t} }, "lower": func(t string) []string { return []string{"authorization", "bearer " + t} },
	}
	for _, alg := range []string{"EdDSA", "RS256", "ES256"} {
		for spelling, change := range spell {
			for where, headers := range place {
				for _, id := range []string{"with-id", "without-id"} {
					if where != "bearer" && (spelling != "same" || alg != "EdDSA") || spelling == "second-signature" && alg != "ES256" || spelling == "last-character" && alg == "RS256" && id == "without-id" {
						continue
					}
					from := addressed(37000 + len(all))
					do := func(ctx context.Context, r *rig) *evidence {
						changes := map[string]any{"sid": from} // no token is like another
						if id == "without-id" {
							changes["jti"] = nil
						}
						token := r.issuer.sign(alg, r.issuer.claims("main", changes))
						q := generate("chat", testrig.Chat, "chat").request("")
						q.headers, q.from = headers(change(token)), from
						before := r.send(ctx, q) // it is verified, and remembered
						revoked := r.form(ctx, "/oauth/revoke", from, url.Values{"token": {token}})
						e := r.send(ctx, q)
						e.problem(before.status != 200 || revoked.status != 200, "status %d of the token, and %d of its revocation", before.status, revoked.status)
						return e
					}
					all = append(all, attack{name: "signin/revoked/" + alg + "/" + spelling + "/" + where + "/" + id, do: do, holds: []oracle{refuses(401)}})
				}
			}
		}
	}
	return all
}
