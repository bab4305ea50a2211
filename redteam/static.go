package main

import (
	"context"
	"fmt"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// staticKey is a key of the configuration file.
const staticKey = "static-0123456789abcdef0123"

// staticAttacks try keys of the file, which no store protects.
func staticAttacks() (all []attack) {
	n := 0
	add := func(name string, headers ...string) {
		for place, q := range protected() {
			n++
			q.headers, q.from = headers, addressed(5000+n)
			all = append(all, attack{name: "static/" + place + "/" + name, do: sends(q), holds: []oracle{refuses(401), lacks("chat/m")}})
		}
	}
	add("none")
	add("prefix", "Authorization", "Bearer "+staticKey[:20])
	add("suffix", "Authorization", "Bearer "+staticKey+"x")
	add("case", "X-Api-Key", "STATIC-0123456789ABCDEF0123")
	add("both", "X-Api-Key", "wrong", "Authorization", "Bearer "+staticKey)
	add("comma", "Authorization", "Bearer wrong,"+staticKey)
	add("provider", "Authorization", "Bearer "+providerKey)
	limit := func(ctx context.Context, r *rig) *evidence {
		var e *evidence
		q := request{method: "GET", path: "/v1/models", from: "127.6.6.6"}
		for i := range 40 {
			q.headers = []string{"Authorization", fmt.Sprintf("Bearer guess-%030d", i)}
			if e = r.send(ctx, q); e.status == 429 {
				break
			}
		}
		return e
	}
	all = append(all, attack{name: "static/limit/guesses", do: limit, holds: []oracle{slowed}})
	// The limit must not keep out a client that has a valid key and another address.
	after := func(ctx context.Context, r *rig) *evidence {
		limit(ctx, r)
		q := generate("chat", testrig.Chat, "chat").request("")
		q.headers, q.from = []string{"Authorization", "Bearer " + staticKey}, "127.6.6.7"
		return r.send(ctx, q)
	}
	return append(all, attack{name: "static/limit/others", do: after, holds: []oracle{serves(200)}, unproven: "the weak gateway keeps nobody out"})
}

// staticConfig is a gateway with keys in the file and an engine that caches prefixes.
func staticConfig(r *rig) *config {
	c := &config{top: []string{"keys: [" + staticKey + "]"}}
	return c.standard(r.up)
}
