package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

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

// errorStatus reports a step before an attack that failed.
func errorStatus(what string, e *evidence) error {
	return fmt.Errorf("%s: status %d: %s", what, e.status, testrig.Clip(e.body, 300))
}

// sessionAttacks use the session of an operator from other pages, or forge one.
func sessionAttacks() (all []attack) {
	add := func(name string, use func(r *rig, session string) request) {
		do := func(ctx context.Context, r *rig) *evidence {
			from := addressed(36000 + len(name))
			session := r.session(ctx, from)
			q := request{method: "GET", path: "/api/v1/keys", admin: true, headers: []string{"Cookie", sessionCookie + "=" + session, "Sec-Fetch-Site", "same-origin"}, from: from}
			e := r.send(ctx, q)
			if !r.weak && e.status != 200 {
				testrig.NoError(errorStatus("a session is not served", e))
			}
			q = use(r, session)
			q.admin, q.from = true, from
			return r.send(ctx, q)
		}
		all = append(all, attack{name: "signin/session/" + name, do: do, holds: []oracle{refuses(401, 403), lacks("canary-key")}})
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
		cookie := []string{"Cookie", sessionCookie + "=" + r.session(ctx, from), "Sec-Fetch-Site", "same-origin"}
		out := r.send(ctx, request{path: "/logout", admin: true, headers: cookie, from: from, media: "application/x-www-form-urlencoded"})
		e := r.send(ctx, request{method: "GET", path: "/api/v1/keys", admin: true, headers: cookie, from: from})
		e.problem(out.status != 200, "the sign-out has status %d", out.status)
		return e
	}
	return append(all, attack{name: "signin/session/signed-out", do: after, holds: []oracle{refuses(401, 403), lacks("canary-key")}})
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
