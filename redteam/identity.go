package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// badToken is a token that admits nobody.
type badToken struct {
	name string
	make func(p *issuer) string
}

// withToken sends a request with a token in place of a key.
func (r *rig) withToken(ctx context.Context, token string) *evidence {
	q := generate("chat", testrig.Chat, "chat").request("")
	q.headers = append(q.headers, "Authorization", "Bearer "+token)
	return r.send(ctx, q)
}

func identityAttacks() (all []attack) {
	for _, list := range [][]badToken{badSignatures(), badHeaders(), badShapes(), badClaims(), badTypes(), badMembers()} {
		for i, t := range list {
			do := func(ctx context.Context, r *rig) *evidence { // each from another address: wrong tokens are limited
				q := generate("chat", testrig.Chat, "chat").request("")
				q.headers, q.from = append(q.headers, "Authorization", "Bearer "+t.make(r.issuer)), addressed(9000+i)
				return r.send(ctx, q)
			}
			all = append(all, attack{name: "identity/" + t.name, do: do, holds: []oracle{refuses(401, 403), lacks("chat/m"), staysHome}})
		}
	}
	return append(append(all, roleClaims()...), nameClaims()...)
}

// staysHome fails if a request followed what an answer or a token names.
func staysHome(r *rig, _ *evidence) string {
	n := r.issuer.astray.Swap(0)
	return testrig.When(n > 0, "%d requests went to a server that a token or an answer names", n)
}

// badSignatures have signatures that no key of the issuer has made.
func badSignatures() (all []badToken) {
	add := func(name string, make func(p *issuer) string) { all = append(all, badToken{"signature/" + name, make}) }
	replace := func(name, alg string, sig func(p *issuer, text string) []byte) {
		add(name, func(p *issuer) string {
			text := encode(header(alg)) + "." + encode(testrig.Compact(p.claims("main", nil)))
			return text + "." + base64.RawURLEncoding.EncodeToString(sig(p, text))
		})
	}
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		replace("empty-"+alg, alg, func(*issuer, string) []byte { return nil })
		replace("zero-"+alg, alg, func(*issuer, string) []byte { return make([]byte, 64) })
		replace("short-"+alg, alg, func(p *issuer, text string) []byte { s := p.signature(alg, text); return s[:len(s)-1] })
		replace("long-"+alg, alg, func(p *issuer, text string) []byte { return append(p.signature(alg, text), 0) })
		replace("bit-"+alg, alg, func(p *issuer, text string) []byte { s := p.signature(alg, text); s[3] ^= 1; return s })
		replace("of-other-text-"+alg, alg, func(p *issuer, text string) []byte { return p.signature(alg, text+" ") })
		for _, other := range []string{"RS256", "ES256", "EdDSA"} {
			if other != alg {
				replace(alg+"-signed-by-"+other, alg, func(p *issuer, text string) []byte { return p.signature(other, text) })
			}
		}
	}
	replace("own-key", "EdDSA", func(p *issuer, text string) []byte { return ed25519.Sign(p.own, []byte(text)) })
	replace("one-and-zero", "ES256", func(*issuer, string) []byte { s := make([]byte, 64); s[31] = 1; return s })
	replace("order", "ES256", func(p *issuer, _ string) []byte {
		n := p.ec.Params().N.Bytes()
		return append(append([]byte{}, n...), n...)
	})
	replace("der", "ES256", func(p *issuer, text string) []byte {
		sum := sha256.Sum256([]byte(text))
		return testrig.Must(ecdsa.SignASN1(rand.Reader, p.ec, sum[:]))
	})
	secrets := map[string]func(p *issuer) []byte{
		"empty": func(*issuer) []byte { return nil }, "word": func(*issuer) []byte { return []byte("secret") }, "modulus": func(p *issuer) []byte { return p.rsa.N.Bytes() },
		"der": func(p *issuer) []byte { return testrig.Must(x509.MarshalPKIXPublicKey(p.rsa.Public())) }, "jwk": func(p *issuer) []byte { return []byte(p.keyList()[1]) },
		"pem": func(p *issuer) []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: testrig.Must(x509.MarshalPKIXPublicKey(p.rsa.Public()))})
		},
	}
	for name, secret := range secrets {
		add("hmac-"+name, func(p *issuer) string {
			text := encode(`{"alg":"HS256","kid":"rsa"}`) + "." + encode(testrig.Compact(p.claims("main", nil)))
			mac := hmac.New(sha256.New, secret(p))
			_, _ = mac.Write([]byte(text)) // never fails
			return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		})
	}
	return all
}

// badHeaders have headers that lead a careless verifier to another key or algorithm.
func badHeaders() (all []badToken) {
	add := func(name, members string, sign func(p *issuer, text string) []byte) {
		all = append(all, badToken{"header/" + name, func(p *issuer) string {
			head := strings.NewReplacer("ELSEWHERE", p.elsewhere.URL, "JWK", fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":"own","x":%q}`, base64.RawURLEncoding.EncodeToString(p.own.Public().(ed25519.PublicKey)))).Replace("{" + members + "}") //nolint:forcetypeassert // of its type
			text := encode(head) + "." + encode(testrig.Compact(p.claims("main", nil)))
			return text + "." + base64.RawURLEncoding.EncodeToString(sign(p, text))
		}})
	}
	nobody := func(*issuer, string) []byte { return nil }
	attacker := func(p *issuer, text string) []byte { return ed25519.Sign(p.own, []byte(text)) }
	valid := func(p *issuer, text string) []byte { return p.signature("EdDSA", text) }
	for _, none := range []string{"none", "None", "NONE", "nOnE", "", "null", " none"} {
		add(fmt.Sprintf("none-%q", none), fmt.Sprintf(`"alg":%q`, none), nobody)
		add(fmt.Sprintf("none-signed-%q", none), fmt.Sprintf(`"alg":%q,"kid":"ed"`, none), valid)
	}
	for _, alg := range []string{"RS384", "RS512", "PS256", "PS512", "ES384", "ES512", "ES256K", "HS256", "HS512", "dir", "eddsa", "EdDSA ", "RSA-OAEP"} {
		add("alg-"+alg, fmt.Sprintf(`"alg":%q,"kid":"rsa"`, alg), func(p *issuer, text string) []byte { return p.signature(alg, text) })
	}
	for name, members := range map[string]string{
		"jwk": `"kid":"own","jwk":JWK`, "jwk-known-id": `"kid":"ed","jwk":JWK`, "jku": `"kid":"own","jku":"ELSEWHERE/keys"`, "jku-known-id": `"kid":"ed","jku":"ELSEWHERE/keys"`, "x5u": `"x5u":"ELSEWHERE/cert"`, "x5c": `"x5c":["AAAA"]`,
		"x5t": `"x5t":"AAAA"`, "iss-in-header": `"iss":"ELSEWHERE"`, "kid-path": `"kid":"../../../../dev/null"`, "kid-url": `"kid":"ELSEWHERE/keys"`, "kid-sql": `"kid":"x' UNION SELECT 'own"`, "kid-command": `"kid":"| true"`,
	} {
		add(name, `"alg":"EdDSA",`+members, attacker)
	}
	for name, members := range map[string]string{
		"no-alg": `"kid":"ed"`, "alg-null": `"alg":null`, "alg-list": `"alg":["EdDSA"]`, "alg-number": `"alg":1`, "alg-twice": `"alg":"none","alg":"EdDSA"`, "kid-number": `"alg":"EdDSA","kid":1`, "kid-list": `"alg":"EdDSA","kid":["ed"]`, "kid-case": `"alg":"EdDSA","kid":"ED"`,
		"kid-space": `"alg":"EdDSA","kid":"ed "`, "kid-nul": `"alg":"EdDSA","kid":"ed\u0000"`, "kid-of-rsa": `"alg":"EdDSA","kid":"rsa"`, "kid-long": `"alg":"EdDSA","kid":"` + strings.Repeat("e", 8000) + `"`, "crit-unknown": `"alg":"EdDSA","kid":"ed","crit":["x"],"x":1`,
		"crit-b64": `"alg":"EdDSA","kid":"ed","crit":["b64"],"b64":false`, "crit-empty": `"alg":"EdDSA","kid":"ed","crit":[]`, "crit-text": `"alg":"EdDSA","kid":"ed","crit":"exp"`, "crit-missing": `"alg":"EdDSA","kid":"ed","crit":["exp"]`, "zip": `"alg":"EdDSA","kid":"ed","zip":"DEF","crit":["zip"]`,
		"alg-second-none": `"alg":"EdDSA","alg":"none"`, "encrypted": `"alg":"dir","enc":"A128GCM"`,
	} {
		add(name, members, valid)
	}
	return all
}

// badShapes are tokens that are no compact signature of one JSON object.
func badShapes() (all []badToken) {
	add := func(name string, edit func(p *issuer, head, payload, sig string) string) {
		all = append(all, badToken{"shape/" + name, func(p *issuer) string {
			part := strings.Split(p.sign("EdDSA", p.claims("main", nil)), ".")
			return edit(p, part[0], part[1], part[2])
		}})
	}
	for name, format := range map[string]string{
		"two-parts": "%[1]s.%[2]s", "four-parts": "%[1]s.%[2]s.%[3]s.%[3]s", "five-parts": "%[1]s..%[2]s.%[3]s.%[3]s", "no-header": ".%[2]s.%[3]s", "no-payload": "%[1]s..%[3]s", "dots": "..", "swapped": "%[2]s.%[1]s.%[3]s", "header-twice": "%[1]s%[1]s.%[2]s.%[3]s",
		"payload-twice": "%[1]s.%[2]s%[2]s.%[3]s", "payload-padded": "%[1]s.%[2]s==.%[3]s", "payload-standard": "%[1]s.%[2]s+/.%[3]s", "space-inside": "%[1]s. %[2]s.%[3]s", "leading-dot": ".%[1]s.%[2]s.%[3]s", "trailing-dot": "%[1]s.%[2]s.%[3]s.",
		"json": `{"payload":"%[2]s","protected":"%[1]s","signature":"%[3]s"}`, "json-list": `{"payload":"%[2]s","signatures":[{"protected":"%[1]s","signature":"%[3]s"}]}`, "quoted": `"%[1]s.%[2]s.%[3]s"`, "list": "[%[1]s.%[2]s.%[3]s]", "prefix": "Bearer %[1]s.%[2]s.%[3]s", "percent": "%[1]s%%2e%[2]s%%2e%[3]s",
	} {
		add(name, func(_ *issuer, head, payload, sig string) string { return fmt.Sprintf(format, head, payload, sig) })
	}
	for name, edit := range map[string]func(text string) string{
		"list": func(s string) string { return "[" + s + "]" }, "null": func(string) string { return "null" }, "text": func(string) string { return `"x"` }, "number": func(string) string { return "1" }, "empty": func(string) string { return "" }, "two-objects": func(s string) string { return s + s },
		"trailing": func(s string) string { return s + "x" }, "mark": func(s string) string { return "\ufeff" + s }, "not-utf8": func(s string) string { return strings.Replace(s, "ann", "a\xff", 1) }, "surrogate": func(s string) string { return strings.Replace(s, "ann", `\ud800`, 1) },
		"comment": func(s string) string { return s[:1] + "/* */" + s[1:] }, "comma": func(s string) string { return s[:len(s)-1] + ",}" }, "quotes": func(s string) string { return strings.ReplaceAll(s, `"`, "'") }, "deep": func(s string) string {
			return s[:1] + `"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "," + s[1:]
		},
		"long": func(s string) string { return s[:1] + `"x":"` + strings.Repeat("a", 17<<10) + `",` + s[1:] },
	} {
		all = append(all, badToken{"payload/" + name, func(p *issuer) string {
			return p.signText(header("EdDSA"), edit(testrig.Compact(p.claims("main", nil))))
		}})
	}
	all = append(all, badToken{"payload/changed", func(p *issuer) string {
		part := strings.Split(p.sign("EdDSA", p.claims("main", nil)), ".")
		return part[0] + "." + encode(testrig.Compact(p.claims("main", map[string]any{"sub": "bob"}))) + "." + part[2]
	}})
	return all
}

// badClaims have a value for which a token is refused.
func badClaims() (all []badToken) {
	add := func(name string, changes func(p *issuer) map[string]any) {
		all = append(all, badToken{"claim/" + name, func(p *issuer) string { return p.sign("ES256", p.claims("main", changes(p))) }})
	}
	fixed := func(name, claim string, value any) {
		add(name, func(*issuer) map[string]any { return map[string]any{claim: value} })
	}
	for name, edit := range map[string]func(u string) string{
		"slash": func(u string) string { return u + "/" }, "case": strings.ToUpper, "query": func(u string) string { return u + "?x" }, "dot": func(u string) string { return u + "/." }, "space": func(u string) string { return u + " " }, "nul": func(u string) string { return u + "\x00" },
		"prefix": func(u string) string { return u[:len(u)-1] }, "user": func(u string) string { return strings.Replace(u, "://", "://x@", 1) }, "localhost": func(u string) string { return strings.Replace(u, "127.0.0.1", "localhost", 1) }, "other": func(u string) string { return strings.Replace(u, "/main", "/other", 1) },
	} {
		add("iss-"+name, func(p *issuer) map[string]any { return map[string]any{"iss": edit(p.url("main"))} })
	}
	for name, value := range map[string]any{"other": "other", "upper": "GATEWAY", "prefix": "gatewa", "longer": "gateway2", "space": "gateway ", "list-of-others": []string{"a", "b"}, "empty-list": []string{}, "empty": "", "joined": "x,gateway", "words": "x gateway", "wildcard": "*", "nested": []any{[]string{"gateway"}}, "object": map[string]any{"gateway": true}, "nul": "gateway\x00"} {
		fixed("aud-"+name, "aud", value)
	}
	for name, value := range map[string]any{"missing": nil, "other": "web", "upper": "CLI", "list": []string{"cli", "web"}, "space": "cli "} {
		fixed("azp-"+name, "azp", value)
	}
	now := time.Now().Unix()
	for name, value := range map[string]any{"past": now - 3600, "zero": 0, "negative": -1, "missing": nil} {
		fixed("exp-"+name, "exp", value)
	}
	fixed("nbf-future", "nbf", now+7200)
	for name, value := range map[string]any{"key": map[string]any{"jkt": "x"}, "certificate": map[string]any{"x5t#S256": "x"}, "jwk": map[string]any{"jwk": map[string]any{}}, "empty": map[string]any{}, "null": jsonNull{}, "text": "x"} {
		fixed("cnf-"+name, "cnf", value)
	}
	for name, value := range map[string]any{"logout": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}, "null": jsonNull{}} {
		fixed("events-"+name, "events", value)
	}
	for name, value := range map[string]any{"none": nil, "empty": []string{}, "other": []string{"others"}, "upper": "SEARCH", "space": "search ", "prefix": "sear", "joined": "search,ops", "nested": []any{[]string{"search"}}, "object": map[string]any{"search": true}, "number": 1, "zero-width": "search\u200b", "look-alike": "se\u0430rch", "wildcard": "*"} {
		fixed("groups-"+name, "groups", value)
	}
	fixed("groups-distributed", "groups", nil)
	all[len(all)-1].make = func(p *issuer) string {
		return p.sign("ES256", p.claims("main", map[string]any{"groups": nil, "_claim_names": map[string]any{"groups": "s"}, "_claim_sources": map[string]any{"s": map[string]any{"endpoint": p.elsewhere.URL}}}))
	}
	return all
}

// jsonNull is a claim that is there and is null.
type jsonNull struct{}

// MarshalJSON implements json.Marshaler.
func (jsonNull) MarshalJSON() ([]byte, error) { return []byte("null"), nil }
