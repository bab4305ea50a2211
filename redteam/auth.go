package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// badKey is a way to send no valid key.
type badKey struct {
	name    string
	headers func(*rig) []string
	query   string // {full} stands for a valid key
}

// badKeys returns the ways to send no valid key.
func badKeys() []badKey {
	fixed := func(name string, headers ...string) badKey {
		return badKey{name: name, headers: func(*rig) []string { return headers }}
	}
	bearer := func(name string, make func(valid string) string) badKey {
		return badKey{name: name, headers: func(r *rig) []string { return []string{"Authorization", "Bearer " + make(r.keys["full"])} }}
	}
	key := func(name, which string) badKey {
		return badKey{name: name, headers: func(r *rig) []string { return []string{"Authorization", "Bearer " + r.keys[which]} }}
	}
	in := func(name, header, format string) badKey {
		return badKey{name: name, headers: func(r *rig) []string { return []string{header, fmt.Sprintf(format, r.keys["full"])} }}
	}
	return []badKey{
		fixed("none"),
		fixed("empty", "Authorization", ""),
		fixed("empty-bearer", "Authorization", "Bearer "),
		fixed("empty-x-api-key", "X-Api-Key", ""),
		fixed("blank-x-api-key", "X-Api-Key", "   "),
		fixed("empty-x-goog-api-key", "X-Goog-Api-Key", ""),
		fixed("word", "Authorization", "Bearer null"),
		fixed("sql", "Authorization", "Bearer ' OR '1'='1' --"),
		fixed("sql-x-api-key", "X-Api-Key", "gw_live_x' UNION SELECT * FROM keys; --"),
		fixed("like", "Authorization", "Bearer gw_live_%_%"),
		fixed("wildcard", "Authorization", "Bearer *"),
		fixed("format", "Authorization", "Bearer %s%n%x"),
		fixed("long", "Authorization", "Bearer gw_live_"+strings.Repeat("a", 40<<10)),
		fixed("unicode", "Authorization", "Bearer gw_live_\u00e9\u212a\u017f"),
		fixed("prefix-only", "Authorization", "Bearer gw_live_"),
		fixed("provider-format", "Authorization", "Bearer sk-proj-0123456789abcdef0123456789abcdef"),
		fixed("jwt-none", "Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."),
		in("basic", "Authorization", "Basic %s"),
		in("no-scheme", "Authorization", "%s"),
		in("token-scheme", "Authorization", "Token %s"),
		in("apikey-header", "Apikey", "%s"),
		in("proxy-authorization", "Proxy-Authorization", "Bearer %s"),
		in("x-authorization", "X-Authorization", "Bearer %s"),
		in("underscore-header", "X_Api_Key", "%s"),
		in("cookie", "Cookie", "api_key=%s; Authorization=%[1]s"),
		in("bearer-in-x-api-key", "X-Api-Key", "Bearer %s"),
		in("list", "Authorization", "Bearer wrong, Bearer %s"),
		in("quoted", "Authorization", `Bearer "%s"`),
		{name: "query-api_key", query: "api_key={full}"},
		{name: "query-access_token", query: "access_token={full}"},
		{name: "query-token", query: "token={full}&Authorization=Bearer%20{full}"},
		{name: "wrong-first", headers: func(r *rig) []string {
			return []string{"Authorization", "Bearer wrong", "Authorization", "Bearer " + r.keys["full"]}
		}},
		{name: "wrong-x-api-key-wins", headers: func(r *rig) []string {
			return []string{"X-Api-Key", "wrong", "Authorization", "Bearer " + r.keys["full"]}
		}},
		bearer("last-letter", func(k string) string { return k[:len(k)-1] + flip(k[len(k)-1]) }),
		bearer("last-letter-of-secret", func(k string) string { return k[:len(k)-9] + flip(k[len(k)-9]) + k[len(k)-8:] }),
		bearer("first-letter-of-id", func(k string) string { return "gw_live_" + flip(k[8]) + k[9:] }),
		bearer("truncated", func(k string) string { return k[:len(k)-1] }),
		bearer("id-only", func(k string) string { return k[:strings.LastIndex(k, "_")] }),
		bearer("id-and-mark", func(k string) string { return k[:strings.LastIndex(k, "_")+1] }),
		bearer("suffix", func(k string) string { return k + "a" }),
		bearer("twice", func(k string) string { return k + k }),
		bearer("upper-case", strings.ToUpper),
		bearer("reversed-parts", func(k string) string {
			p := strings.Split(k, "_")
			return strings.Join([]string{p[0], p[1], p[len(p)-1], p[2]}, "_")
		}),
		bearer("operator-prefix", func(k string) string { return strings.Replace(k, "gw_live_", "gw_admin_", 1) }),
		bearer("inner-space", func(k string) string { return k[:20] + " " + k[20:] }),
		key("expired", "expired"),
		key("revoked", "revoked"),
		key("rotated", "rotated"),
		key("operator", "owner"),
		key("other-network", "elsewhere"),
	}
}

// flip returns another letter.
func flip(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

// protected are the paths that need a client's key.
func protected() map[string]request {
	return map[string]request{
		"chat":    generate("chat", testrig.Chat, "chat").request(""),
		"gemini":  generate("gem", testrig.Gemini, "gem").request(""),
		"models":  {method: "GET", path: "/v1/models"},
		"forward": {path: "/v1/audio/speech", body: `{"model":"tts","input":"hi"}`},
	}
}

func authAttacks() (all []attack) {
	n := 0
	for place, q := range protected() {
		for _, k := range badKeys() {
			n++
			from := addressed(n) // wrong keys are limited by address
			do := func(ctx context.Context, r *rig) *evidence {
				q, from := q, from
				q.from = from
				if k.headers != nil {
					q.headers = append([]string{}, k.headers(r)...)
				}
				if k.query != "" {
					q.path += "?" + strings.ReplaceAll(k.query, "{full}", r.keys["full"])
				}
				return r.send(ctx, q)
			}
			statuses := []int{401}
			if k.name == "operator" || k.name == "other-network" {
				statuses = append(statuses, 403)
			}
			all = append(all, attack{name: "auth/" + place + "/" + k.name, do: do, holds: []oracle{refuses(statuses...), lacks("chat/m", "canary")}})
		}
	}
	return append(all, scopeAttacks()...)
}

// scopeAttacks use a key beyond what it was made for.
func scopeAttacks() (all []attack) {
	for name, q := range protected() {
		if name == "models" {
			continue
		}
		q.key = "embeds" // may use embeddings only
		all = append(all, attack{name: "auth/scope/endpoint-" + name, do: sends(q), holds: []oracle{refuses(403)}})
		q.key = "narrow"
		all = append(all, attack{name: "auth/scope/model-" + name, do: sends(q), holds: []oracle{refuses(403, 404)}})
		q.key, q.headers = "elsewhere", []string{"X-Forwarded-For", "10.9.8.7", "X-Real-IP", "10.9.8.7", "Forwarded", "for=10.9.8.7"}
		all = append(all, attack{name: "auth/scope/network-" + name, do: sends(q), holds: []oracle{refuses(401, 403)}})
	}
	all = append(all, attack{name: "auth/limit/stored-keys", do: guess("gw_live_"), holds: []oracle{slowed}})
	return append(all, attack{name: "auth/limit/any-keys", do: guess("wrong-"), holds: []oracle{slowed}})
}

// guess sends wrong keys from one address, more than are allowed in a minute.
func guess(prefix string) func(context.Context, *rig) *evidence {
	return func(ctx context.Context, r *rig) *evidence {
		q := request{method: "GET", path: "/v1/models", from: "127.3." + fmt.Sprint(len(prefix)) + ".9"}
		var e *evidence
		for i := range 40 {
			q.headers = []string{"Authorization", fmt.Sprintf("Bearer %s%030d", prefix, i)}
			e = r.send(ctx, q)
			if e.status == 429 {
				break
			}
		}
		return e
	}
}

// slowed fails if the guesses were not limited.
func slowed(_ *rig, e *evidence) string {
	return testrig.Unless(e.status == 429, "40 wrong keys in a row, and the last response has status %d", e.status)
}

// authRig starts a gateway whose store has keys in every state.
func authRig(ctx context.Context, o options) (*rig, error) {
	expiry := time.Now().Add(10 * time.Second)
	r, err := start(func(r *rig) *config {
		c := tenantStore(r)
		c.keys = append(c.keys,
			keySpec{name: "expired", body: fmt.Sprintf(`"org":"a","models":["*"],"expires":%q`, expiry.UTC().Format(time.RFC3339))},
			keySpec{name: "revoked", body: `"org":"a","models":["*"]`},
			keySpec{name: "rotated", body: `"org":"a","models":["*"]`},
			keySpec{name: "embeds", body: `"org":"a","models":["*"],"endpoints":["embeddings"]`},
			keySpec{name: "elsewhere", body: `"org":"a","models":["*"],"networks":["10.9.8.0/24"]`})
		return c
	})(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := testrig.Run(func() {
		for name, q := range protected() {
			if q.key = "full"; name != "models" {
				r.control(ctx, q)
			}
		}
		r.admin(ctx, "POST", "/api/v1/keys/"+r.ids["revoked"]+"/revoke", "")
		r.admin(ctx, "POST", "/api/v1/keys/"+r.ids["rotated"]+"/rotate", `{"overlap_seconds":0}`)
		testrig.Pause(ctx, time.Until(expiry))
	}); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}
