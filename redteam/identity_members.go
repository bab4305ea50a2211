package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// signMembers returns a signed token with valid claims. edit may change the text of the claims
// before it is signed.
func signMembers(name string, edit func(members string) string) badToken {
	return badToken{name, func(p *issuer) string {
		text := testrig.Compact(p.claims("main", nil))
		return p.signText(header("EdDSA"), "{"+edit(text[1:len(text)-1])+"}")
	}}
}

// badTypes returns tokens with one claim of a wrong type.
func badTypes() (all []badToken) {
	values := map[string]string{"null": `null`, "true": `true`, "number": `17`, "list": `["x"]`, "object": `{"a":"x"}`, "infinite": `1e999`, "empty": `""`}
	refused := map[string][]string{
		"iss": slices.Sorted(maps.Keys(values)),
		"sub": slices.Sorted(maps.Keys(values)),
		"aud": slices.Sorted(maps.Keys(values)),
		"exp": slices.DeleteFunc(slices.Sorted(maps.Keys(values)), func(v string) bool { return v == "number" }),
		"nbf": {"list", "object", "true", "infinite"},
	}
	for claim, kinds := range refused {
		for _, kind := range kinds {
			all = append(all, badToken{"type/" + claim + "-" + kind, func(p *issuer) string {
				claims := p.claims("main", map[string]any{claim: nil})
				text := testrig.Compact(claims)
				return p.signText(header("EdDSA"), fmt.Sprintf(`{%q:%s,%s`, claim, values[kind], text[1:]))
			}})
		}
	}
	return all
}

// badMembers write a claim twice, or in another case as well, so that two readers see different tokens.
func badMembers() (all []badToken) {
	other := map[string]string{"iss": `"https://evil.example"`, "sub": `"root"`, "aud": `"other"`, "exp": `9999999999`, "nbf": `1`, "iat": `1`, "jti": `"x"`, "azp": `"web"`, "nonce": `"x"`, "email": `"root@example.com"`, "email_verified": `true`, "cnf": `{"jkt":"x"}`, "events": `{}`}
	for claim, value := range other {
		for how, name := range map[string]string{"upper": strings.ToUpper(claim), "title": strings.ToUpper(claim[:1]) + claim[1:], "folded": folded(claim)} {
			if name == claim {
				continue
			}
			member := fmt.Sprintf(`%q:%s`, name, value)
			all = append(all, signMembers("case/"+claim+"-"+how, func(m string) string { return m + "," + member }))
		}
	}
	for claim, value := range map[string]string{"iss": other["iss"], "sub": other["sub"], "aud": other["aud"], "exp": other["exp"], "azp": other["azp"], "groups": `["ops"]`, "jti": other["jti"], "iat": other["iat"]} {
		member := fmt.Sprintf(`%q:%s`, claim, value)
		all = append(all, signMembers("twice/"+claim+"-last", func(m string) string { return m + "," + member }), signMembers("twice/"+claim+"-first", func(m string) string { return member + "," + m }))
		escaped := fmt.Sprintf(`"\u%04x%s":%s`, claim[0], claim[1:], value)
		all = append(all, signMembers("twice/"+claim+"-escaped", func(m string) string { return m + "," + escaped }))
	}
	return append(all, signMembers("twice/inside", func(m string) string { return m + `,"x":{"a":1,"a":2}` }))
}

// folded replaces letters of a name by others that fold to the same.
func folded(name string) string {
	return strings.NewReplacer("s", "\u017f", "k", "\u212a").Replace(name)
}

// roleClaims are valid tokens of a person without a role, whose claims ask for one.
func roleClaims() (all []attack) {
	for name, members := range map[string]string{
		"none": `"x":1`, "role": `"role":"owner"`, "roles": `"roles":["owner","ops"]`, "scope": `"scope":"admin ops"`, "groups-case": `"Groups":["ops"]`, "groups-space": `" groups":["ops"]`, "groups-dot": `"groups.0":"ops"`, "groups-nul": `"groups\u0000":["ops"]`,
		"realm": `"realm_access":{"groups":["ops"]}`, "org": `"org":"b"`, "actor": `"act":{"sub":"root","groups":["ops"]}`, "groups-folded": `"group\u017f":["ops"]`,
	} {
		do := func(ctx context.Context, r *rig) *evidence {
			token := signMembers("", func(m string) string { return m + "," + members }).make(r.issuer)
			return r.send(ctx, request{method: "GET", path: "/api/v1/keys", headers: []string{"Authorization", "Bearer " + token}, admin: true})
		}
		all = append(all, attack{name: "identity/role/" + name, do: do, holds: []oracle{refuses(401, 403), lacks("canary-key")}})
	}
	return all
}

// lineBreak is a text that looks like a line of the program itself.
const lineBreak = "\nroot: signed in"

// terminalTexts are texts that a terminal obeys, or that an eye reads as another text.
var terminalTexts = map[string]string{
	"clear": "\x1b[2J\x1b[H", "colour": "\x1b[31mroot\x1b[0m", "title": "\x1b]0;owned\x07", "link": "\x1b]8;;https://evil.example\x1b\\x", "clipboard": "\x1b]52;c;ZXZpbA==\x07", "answer": "\x1b[6n", "charset": "\x1b(0", "dcs": "\x1bP$q\x1b\\", "c1-csi": "a\u009b2Jb", "c1-osc": "a\u009d0;x\u009cb",
	"bell": "a\ab", "backspace": "root\b\b\b\bann", "return": "ann\rroot", "line": "ann" + lineBreak, "tab-vertical": "a\vb\fc", "nul": "a\x00b", "delete": "a\x7fb", "shift-out": "a\x0eb", "override": "a\u202ebcd", "isolate": "a\u2066b\u2069", "mark": "a\u200fb", "zero-width": "ro\u200bot", "joiner": "ro\u200dot",
	"byte-order": "\ufeffroot", "line-separator": "a\u2028b", "paragraph": "a\u2029b", "soft-hyphen": "ro\u00adot", "tags": "a\U000e0041\U000e0042", "private": "a\ue000b", "next-line": "a\u0085b",
}

// obeyed returns the first character of a text that is not printed as itself.
func obeyed(text string) string {
	for _, c := range text {
		if c != '\n' && c != unicode.ReplacementChar && !unicode.IsPrint(c) {
			return fmt.Sprintf("%U in %q", c, testrig.Clip(text, 300))
		}
	}
	return ""
}

// nameClaims are valid tokens whose owner has a name that a terminal obeys. Neither the list of keys nor the
// log has it.
func nameClaims() (all []attack) {
	for name, text := range terminalTexts {
		do := func(ctx context.Context, r *rig) *evidence {
			logged := len(r.gateway.Log())
			token := r.issuer.sign("EdDSA", r.issuer.claims("main", map[string]any{"sub": "named-" + name, "name": "canary-name " + text}))
			served := r.withToken(ctx, token)
			e := r.send(ctx, request{method: "GET", path: "/api/v1/keys?org=a&limit=500", key: "owner", admin: true})
			e.problem(served.status != 200, "status %d for a valid token: %s", served.status, served.body)
			var list any
			e.problem(json.Unmarshal([]byte(e.body), &list) != nil, "the list of keys is no JSON")
			for _, shown := range texts(list) {
				e.problem(strings.Contains(shown, "canary-name") && obeyed(shown) != "", "the list of keys has %s", obeyed(shown))
			}
			log := r.gateway.Log()
			p := obeyed(log[min(logged, len(log)):])
			e.problem(p != "", "the log has %s", p)
			return e
		}
		all = append(all, attack{name: "identity/name/" + name, do: do})
	}
	return all
}

// texts returns all texts in a JSON value.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		all = append(all, v)
	case []any:
		for _, one := range v {
			all = append(all, texts(one)...)
		}
	case map[string]any:
		for name, one := range v {
			all = append(append(all, name), texts(one)...)
		}
	}
	return all
}
