package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// marks tell the rows and entries of different attacks apart.
var marks atomic.Int64

func mark() string { return fmt.Sprintf("mark%06d", marks.Add(1)) }

// formulaAttacks send texts that a spreadsheet would run as formulas, and export the ledger that
// holds them.
func formulaAttacks() (all []attack) {
	for place, before := range map[string]string{"first": "", "semicolon": "x;", "semicolon-space": "x; ", "semicolon-quote": `x;"`, "semicolons": "x;;", "tab": "x\t", "space": " ", "quote": `"`} {
		for name, c := range map[string]string{"equals": "=", "plus": "+", "minus": "-", "at": "@", "wide-equals": "＝", "wide-plus": "＋", "wide-minus": "－", "wide-at": "＠"} {
			do := func(ctx context.Context, r *rig) *evidence {
				id := mark()
				text := before + c + id
				r.send(ctx, request{path: "/v1/chat/completions", key: "full", headers: []string{"User-Agent", text}, body: `{"model":"chat/m","messages":[{"role":"user","content":"hi"}]}`})
				e := &evidence{}
				_ = testrig.Until(ctx, patience, "", func() bool { // rows come shortly after their response
					e = r.send(ctx, request{method: http.MethodGet, path: "/api/v1/requests?format=csv", key: "owner", admin: true})
					return strings.Contains(e.body, id) || r.weak
				})
				e.sent = text
				e.problem(e.status != 200 || !strings.Contains(e.body, id), "the export has no row with the text: status %d", e.status)
				for _, cell := range strings.FieldsFunc(e.body, func(r rune) bool { return strings.ContainsRune(",;\t\r\n", r) }) {
					cell = strings.TrimLeft(cell, ` "`)
					e.problem(cell != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(cell)[0]), "a cell is the formula %q", testrig.Clip(cell, 80))
				}
				return e
			}
			all = append(all, attack{name: "exports/" + place + "/" + name, do: do})
		}
	}
	return all
}

// pathAttacks ask the admin API for paths that reach the audit log.
func pathAttacks() (all []attack) {
	for name, path := range map[string]string{
		"escapes": "%1b%5b2J%1b%5d8;;http:x%07", "lines": "a%0aforged%20entry", "return": "a%0dforged", "direction": "%e2%80%ae%e2%81%a6", "zero": "a%00b", "delete": "a%7f%c2%9b31m",
		"not-utf-8": "%ff%fe%80", "long": strings.Repeat("x", 20_000), "long-wide": strings.Repeat("%e4%b8%96", 3000), "invisible": "%e2%80%8b%ef%bb%bf", "separators": "%e2%80%a8%e2%80%a9",
	} {
		do := func(ctx context.Context, r *rig) *evidence {
			id := mark()
			denied := r.send(ctx, request{method: http.MethodGet, path: "/api/v1/keys/" + id + path, key: "full", admin: true}) // a client's key
			e := r.send(ctx, request{method: http.MethodGet, path: "/api/v1/audit?limit=20", key: "owner", admin: true})
			e.sent = denied.sent
			found := ""
			for _, entry := range testrig.Parse([]byte(e.body)).List("entries") {
				if object := entry.Str("object"); strings.Contains(object, id) {
					found = object
				}
			}
			e.problem(found == "", "the audit log has no entry of it: status %d", denied.status)
			e.problem(strings.ContainsFunc(found, func(c rune) bool { return !unicode.IsPrint(c) && c != unicode.ReplacementChar }), "the entry has %q", found)
			e.problem(len(found) > 1024, "the entry has %d bytes of path", len(found))
			return e
		}
		all = append(all, attack{name: "paths/" + name, do: do})
	}
	return all
}

// saltConfig is a gateway whose engine separates its prefix cache by a salt.
func saltConfig(r *rig) *config {
	c := tenantStore(r)
	c.providers = append(c.providers, provider("engine", testrig.Chat, r.up.URL("engine", testrig.Chat), "cache_salt: tenant", "nvext: forward"))
	c.models = append(c.models, `  "engine/*": { targets: ["engine/*"] }`)
	return c
}

// saltAttacks name another tenant's salt in every place in which an engine may read one.
func saltAttacks() (all []attack) {
	for name, members := range map[string]string{
		"top": `"cache_salt":"victim-salt"`, "escaped": `"cache\u005fsalt":"victim-salt"`, "nvext": `"nvext":{"cache_salt":"victim-salt"}`, "nvext-escaped": `"nvext":{"cache\u005fsalt":"victim-salt"}`,
		"nvext-among-others": `"nvext":{"top_k":1,"cache_salt":"victim-salt","priority":2}`, "nvext-escaped-name": `"nv\u0065xt":{"cache_salt":"victim-salt"}`, "both": `"cache_salt":"victim-salt","nvext":{"cache_salt":"victim-salt"}`,
		"twice": `"nvext":{"cache_salt":"a","cache_salt":"victim-salt"}`, "number": `"nvext":{"cache_salt":["victim-salt"]}`, "null-and-top": `"cache_salt":null,"nvext":{"cache_salt":"victim-salt"}`,
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
			ask := map[bool]string{true: `"messages":[{"role":"user","content":"hi"}]`, false: `"prompt":"hi"`}[path == "/v1/chat/completions"]
			do := func(ctx context.Context, r *rig) *evidence {
				e := r.send(ctx, request{path: path, key: "foreign", body: `{"model":"engine/m",` + ask + `,` + members + `}`})
				for _, s := range e.upstream {
					e.problem(strings.Contains(s.body, "victim-salt"), "the engine received another tenant's salt: %s", s)
				}
				e.problem(e.status == 0 || e.status >= 500, "status %d", e.status)
				return e
			}
			all = append(all, attack{name: "salts/" + strings.TrimPrefix(path, "/v1/") + "/" + name, do: do})
		}
	}
	return all
}

// tagConfig is a gateway with an engine that leaves reasoning in the text.
func tagConfig(r *rig) *config {
	c := tenantStore(r)
	for _, mode := range []string{"start", "opened"} {
		c.providers = append(c.providers, provider("think-"+mode, testrig.Chat, r.up.URL("think-"+mode, testrig.Chat), "think_tags: "+mode))
		c.models = append(c.models, fmt.Sprintf("  %q: { targets: [%q] }", "think-"+mode+"/*", "think-"+mode+"/*"))
	}
	return c
}

// tagAttacks stream what the gateway holds back in 60,000 small pieces, and as much text beside it.
func tagAttacks() (all []attack) {
	const pieces, most = 60_000, 8
	text := func(before, piece string) testrig.Script {
		return func(c *testrig.Call) bool {
			chunk := func(content string) string {
				return `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` + content + `"},"finish_reason":null}]}` + "\n\n"
			}
			return c.StartStream() && c.Chunks(chunk(before), strings.Repeat(chunk(piece), pieces), `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n") && c.End()
		}
	}
	for _, mode := range []string{"start", "opened"} {
		for name, before := range map[string]string{"before": "", "in": "<think>a", "behind": "<think>a</think>"} {
			for kind, piece := range map[string]string{"spaces": " ", "lines": `\n`, "tags": " </think"} {
				for _, client := range dialects() {
					do := func(ctx context.Context, r *rig) *evidence {
						cost := func(before, piece string) (*evidence, float64) {
							model := fmt.Sprintf("tags-%d", marks.Add(1))
							r.script(model, text(before, piece))
							q := testrig.Query{Model: "think-" + mode + "/" + model, Prompt: "hi", Stream: true}
							used := processTime(r.gateway.PID())
							e := r.send(ctx, request{path: client.Path(q.Model, true), body: client.Body(q), key: "full", headers: []string{"Anthropic-Version", "2023-06-01"}})
							return e, (processTime(r.gateway.PID()) - used).Seconds()
						}
						_, plain := cost("x", "x")
						e, used := cost(before, piece)
						e.note = fmt.Sprintf("%.2f s of processor time, %.2f s for text", used, plain)
						e.figure(used > most*max(plain, 0.1), "%d pieces take %.2f s of processor time, as much text takes %.2f s", pieces, used, plain)
						e.problem(e.status != 200, "status %d", e.status)
						return e
					}
					all = append(all, attack{name: fmt.Sprintf("tags/%s/%s/%s/%s", mode, name, kind, targetName(client)), do: do, unproven: "the weak gateway decodes no streams"})
				}
			}
		}
	}
	return all
}

// embedAttacks send half a megabyte of empty texts to a model of another vendor.
func embedAttacks() []attack {
	return []attack{
		{name: "amplify/embeddings/chat-gem", do: func(ctx context.Context, r *rig) *evidence {
			return r.measured(ctx, request{path: "/v1/embeddings", key: "full", body: `{"model":"gem/m","input":` + listOf(`""`, amplifySize) + `}`})
		}},
		{name: "amplify/embeddings/gem-chat", do: func(ctx context.Context, r *rig) *evidence {
			return r.measured(ctx, request{path: "/v1beta/models/chat/m:batchEmbedContents", key: "full", body: `{"requests":` + listOf(`{"content":{"parts":[{"text":""}]}}`, amplifySize) + `}`})
		}},
	}
}
