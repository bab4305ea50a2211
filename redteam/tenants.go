package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// serials numbers the responses of the upstream, so that a repeated one can be told.
var serials atomic.Int64

// serial answers with a number that no other response has.
func serial(c *testrig.Call) bool {
	r := c.Reply("up")
	r.Words = []string{fmt.Sprintf("serial-%06d.", serials.Add(1))}
	if !c.Stream {
		return c.Respond(http.StatusOK, testrig.JSONMedia, r.Body())
	}
	return c.StartStream() && c.Chunks(r.Stream().All()...) && c.End()
}

// numbered answers with ids that no other response has: the gateway forgets an id that
// stands for two responses.
func numbered(c *testrig.Call) bool {
	body := regexp.MustCompile(`"(id|responseId)":"([^"]+)"`).ReplaceAllString(c.Reply("up").Body(), fmt.Sprintf(`"$1":"$2%06d"`, serials.Add(1)))
	return c.Respond(http.StatusOK, testrig.JSONMedia, body)
}

// serialOf returns the number of a response.
func serialOf(e *evidence) string {
	_, rest, found := strings.Cut(e.got, "serial-")
	if !found || len(rest) < 6 {
		return ""
	}
	return rest[:6]
}

// secondCaller sends the same request with two keys and returns the evidence of the second
// one, with a problem if it got the response to the first.
func secondCaller(make func(who string) request) func(context.Context, *rig) *evidence {
	return func(ctx context.Context, r *rig) *evidence {
		r.script("serial", serial)
		first := r.send(ctx, make("full"))
		second := r.send(ctx, make("foreign"))
		second.sent = first.sent + "\n" + second.sent
		second.problem(first.status != 200 || second.status != 200, "status %d for the first caller and %d for the second", first.status, second.status)
		second.problem(serialOf(first) == "" || serialOf(first) == serialOf(second), "the second organisation got the response to the first: %s", serialOf(second))
		keys := []string{}
		for _, s := range append(first.upstream, second.upstream...) {
			keys = append(keys, s.header.Values("Idempotency-Key")...)
		}
		second.problem(len(keys) == 2 && keys[0] == keys[1], "the upstream received the same Idempotency-Key from both: %q", keys)
		return second
	}
}

func tenantAttacks() (all []attack) {
	for _, d := range dialects() {
		for _, target := range []string{targetName(d), otherTarget(d)} {
			for _, stream := range []bool{false, true} {
				q := testrig.Query{Model: target + "/serial", Prompt: "hi", Stream: stream}
				name := fmt.Sprintf("%s-%s", targetName(d), target)
				if stream {
					name += "-stream"
				}
				all = append(all, attack{name: "tenants/idempotency/" + name, do: secondCaller(func(who string) request {
					return request{path: d.Path(q.Model, stream), body: d.Body(q), key: who, headers: []string{"Idempotency-Key", "same-" + name, "Anthropic-Version", "2023-06-01"}}
				})})
				cold := d.Body(testrig.Query{Model: target + "/serial", Prompt: "cache me " + name, Stream: stream})
				if d == testrig.Gemini {
					cold = last(cold, `"generationConfig":{"temperature":0}`)
				} else {
					cold = last(cold, `"temperature":0`)
				}
				all = append(all, attack{name: "tenants/cache/" + name, do: secondCaller(func(who string) request {
					return request{path: d.Path(q.Model, stream), body: cold, key: who, headers: []string{"Anthropic-Version", "2023-06-01"}}
				}), unproven: "the weak gateway has no cache"})
			}
		}
	}
	return append(append(all, storedAttacks()...), vendorAttacks()...)
}

// storedAttacks use another organisation's conversation that the gateway stored.
func storedAttacks() (all []attack) {
	const secretText = "stored-canary-41b7"
	for _, target := range []string{"chat", "msgs", "gem"} {
		for name, body := range map[string]string{
			"previous_response_id": `{"model":"TARGET/numbered","input":"go on","previous_response_id":"ID"}`,
			"item_reference":       `{"model":"TARGET/numbered","store":false,"input":[{"type":"item_reference","id":"ITEM"},{"role":"user","content":"go on"}]}`,
			"previous-escaped":     `{"model":"TARGET/numbered","input":"go on","previous_response\u005fid":"ID"}`,
		} {
			do := func(ctx context.Context, r *rig) *evidence {
				r.script("numbered", numbered)
				first := r.send(ctx, request{path: "/v1/responses", key: "full", body: fmt.Sprintf(`{"model":"%s/numbered","input":"remember %s"}`, target, secretText)})
				answer := testrig.Parse([]byte(first.body))
				item := ""
				for _, o := range answer.List("output") {
					item = o.Str("id")
				}
				if answer.Str("id") == "" && !r.weak {
					testrig.NoError(fmt.Errorf("the first response has no id: %s", testrig.Clip(first.got, 400)))
				}
				q := request{path: "/v1/responses", key: "full", body: strings.NewReplacer("TARGET", target, "ID", answer.Str("id"), "ITEM", item).Replace(body)}
				own := &evidence{} // the response may be stored shortly after it was delivered
				_ = testrig.Until(ctx, patience, "", func() bool { own = r.send(ctx, q); return own.status == 200 || r.weak || name == "previous-escaped" })
				q.key = "foreign"
				e := r.send(ctx, q)
				e.problem(own.status != 200 && !r.weak && name != "previous-escaped", "the owner cannot use it either: status %d", own.status)
				for _, s := range e.upstream {
					e.problem(strings.Contains(s.body, secretText), "the upstream received the other organisation's conversation")
				}
				return e
			}
			all = append(all, attack{name: "tenants/stored/" + target + "/" + name, do: do, holds: []oracle{refuses(400, 404), lacks(secretText)}})
		}
	}
	return all
}

// vendorIDs are members with the id of something that the vendor keeps for the operator's
// account.
func vendorIDs() map[string]request {
	resp := func(members string) request {
		return request{path: "/v1/responses", body: `{"model":"resp/m",` + members + `}`}
	}
	msgs := func(content, members string) request {
		return request{path: "/v1/messages", body: `{"model":"msgs/m","max_tokens":5,` + members + `"messages":[{"role":"user","content":[` + content + `]}]}`, headers: []string{"Anthropic-Version", "2023-06-01"}}
	}
	return map[string]request{
		"previous_response_id": resp(`"input":"x","previous_response_id":"resp_0123456789abcdef"`),
		"conversation":         resp(`"input":"x","conversation":"conv_0123456789abcdef"`),
		"conversation-object":  resp(`"input":"x","conversation":{"id":"conv_0123456789abcdef"}`),
		"item_reference":       resp(`"input":[{"type":"item_reference","id":"msg_0123456789abcdef"}]`),
		"input_file":           resp(`"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-0123456789abcdef"}]}]`),
		"input_image":          resp(`"input":[{"role":"user","content":[{"type":"input_image","file_id":"file-0123456789abcdef"}]}]`),
		"vector_store":         resp(`"input":"x","tools":[{"type":"file_search","vector_store_ids":["vs_0123456789abcdef"]}]`),
		"container":            resp(`"input":"x","tools":[{"type":"code_interpreter","container":"cntr_0123456789abcdef"}]`),
		"chat-file":            {path: "/v1/chat/completions", body: `{"model":"chat/m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-0123456789abcdef"}}]}]}`},
		"chat-audio":           {path: "/v1/chat/completions", body: `{"model":"chat/m","messages":[{"role":"assistant","audio":{"id":"audio_0123456789abcdef"}},{"role":"user","content":"x"}]}`},
		"document-file":        msgs(`{"type":"document","source":{"type":"file","file_id":"file_0123456789abcdef"}}`, ""),
		"image-file":           msgs(`{"type":"image","source":{"type":"file","file_id":"file_0123456789abcdef"}}`, ""),
		"container-upload":     msgs(`{"type":"container_upload","file_id":"file_0123456789abcdef"}`, ""),
		"messages-container":   msgs(`{"type":"text","text":"x"}`, `"container":"container_0123456789abcdef",`),
		"cachedContent":        {path: "/v1beta/models/gem/m:generateContent", body: `{"contents":[{"parts":[{"text":"x"}]}],"cachedContent":"cachedContents/0123456789abcdef"}`},
		"cached_content":       {path: "/v1beta/models/gem/m:generateContent", body: `{"contents":[{"parts":[{"text":"x"}]}],"cached_content":"cachedContents/0123456789abcdef"}`},
		"continuationToken":    {path: "/v1beta/models/gem/m:generateContent", body: `{"contents":[{"parts":[{"text":"x"}]}],"continuationToken":"0123456789abcdef"}`},
		"continuation_token":   {path: "/v1beta/models/gem/m:generateContent", body: `{"contents":[{"parts":[{"text":"x"}]}],"continuation_token":"0123456789abcdef"}`},
		"chat-audio-escaped":   {path: "/v1/chat/completions", body: `{"model":"chat/m","messages":[{"role":"assistant","aud\u0069o":{"id":"audio_0123456789abcdef"}},{"role":"user","content":"x"}]}`},
		"fileUri":              {path: "/v1beta/models/gem/m:generateContent", body: `{"contents":[{"parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://generativelanguage.googleapis.com/v1beta/files/0123456789abcdef"}}]}]}`},
	}
}

// vendorAttacks name what another organisation keeps at the vendor.
func vendorAttacks() (all []attack) {
	for name, q := range vendorIDs() {
		q.key = "foreign"
		all = append(all, attack{name: "tenants/vendor/" + name, do: sends(q), holds: []oracle{refuses(400, 403, 404)}})
	}
	return all
}

// tenantConfig is a gateway with a cache and little memory for conversations.
func tenantConfig(r *rig) *config {
	c := tenantStore(r)
	c.top = append(c.top, "cache: { ttl: 10m, size: 4MiB }", "limits: { conversations: 4MiB }")
	return c
}

// quotaAttacks fill what tenants share and check that the others still have theirs.
func quotaAttacks() []attack {
	conversation := func(ctx context.Context, r *rig) *evidence {
		r.script("numbered", numbered)
		first := testrig.Parse([]byte(r.send(ctx, request{path: "/v1/responses", key: "full", body: `{"model":"chat/numbered","input":"remember me"}`}).body))
		big := strings.Repeat("x", 200<<10)
		for range 60 {
			r.send(ctx, request{path: "/v1/responses", key: "foreign", body: `{"model":"chat/numbered","input":"` + big + `"}`})
		}
		e := r.send(ctx, request{path: "/v1/responses", key: "full", body: fmt.Sprintf(`{"model":"chat/numbered","input":"go on","previous_response_id":%q}`, first.Str("id"))})
		e.problem(e.status != 200 || len(e.upstream) != 1 || !strings.Contains(e.upstream[0].body, "remember me"), "another organisation pushed the conversation out: status %d", e.status)
		return e
	}
	idempotent := func(ctx context.Context, r *rig) *evidence {
		r.script("serial", serial)
		q := request{path: "/v1/chat/completions", key: "full", body: `{"model":"chat/serial","messages":[{"role":"user","content":"once"}]}`, headers: []string{"Idempotency-Key", "mine"}}
		first := r.send(ctx, q)
		r.script("big", func(c *testrig.Call) bool {
			reply := c.Reply("up")
			reply.Words = []string{strings.Repeat("x", 200<<10)}
			return c.Respond(http.StatusOK, testrig.JSONMedia, reply.Body())
		})
		for i := range 200 {
			r.send(ctx, request{path: "/v1/chat/completions", key: "foreign", body: fmt.Sprintf(`{"model":"chat/big","messages":[{"role":"user","content":"%d"}]}`, i), headers: []string{"Idempotency-Key", fmt.Sprintf("theirs-%d", i)}})
		}
		e := r.send(ctx, q)
		e.problem(serialOf(e) != serialOf(first) || serialOf(e) == "", "another organisation pushed the stored response out: the request ran twice")
		return e
	}
	return []attack{
		{name: "tenants/quota/conversations", do: conversation},
		{name: "tenants/quota/idempotency", do: idempotent},
	}
}
