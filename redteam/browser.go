package main

import (
	"context"
	"fmt"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// page is what a browser says about the page that sent a request.
type page struct {
	name    string
	headers []string
	host    string
}

// pages returns requests of web pages that must not use a gateway without keys.
func pages() []page {
	all := []page{
		{"cross-site", []string{"Sec-Fetch-Site", "cross-site"}, ""},
		{"cross-site-origin", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, ""},
		{"same-site", []string{"Origin", "http://other.example", "Sec-Fetch-Site", "same-site"}, ""},
	}
	for _, origin := range []string{"https://evil.example", "null", "http://127.0.0.1.evil.example", "http://localhost.evil.example", "http://evil.example:80", "file://", "chrome-extension://abcdef", "http://127.0.0.1@evil.example", "HTTPS://EVIL.EXAMPLE", "http://[::1].evil.example", "evil.example", "https://evil.example/127.0.0.1"} {
		all = append(all, page{"origin " + origin, []string{"Origin", origin}, ""})
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "127.0.0.1.nip.example", "localhost.evil.example", "localhost.", "127.0.0.1.", "gateway", "xn--lcalhost-d1a", "localhost.localdomain", "2130706433.evil.example"} {
		all = append(all, page{"host " + host, nil, host})
	}
	return all
}

// browserPaths are paths that a gateway on loopback serves without a key.
func browserPaths() map[string]request {
	return map[string]request{
		"chat":        generate("chat", testrig.Chat, "chat").request(""),
		"gemini":      generate("gem", testrig.Gemini, "gem").request(""),
		"models":      {method: "GET", path: "/v1/models"},
		"forward":     {path: "/v1/files", body: `{"purpose":"x"}`},
		"forward-get": {method: "GET", path: "/v1/files"},
		"metrics":     {method: "GET", path: "/metrics", admin: true},
		"explain":     {path: "/explain", body: `{"model":"chat/m"}`, admin: true},
		"admin-list":  {method: "GET", path: "/models", admin: true},
		"console":     {method: "GET", path: "/console/state.json", admin: true},
	}
}

func browserAttacks() (all []attack) {
	for place, q := range browserPaths() {
		for _, p := range pages() {
			q := q
			q.headers, q.host = p.headers, p.host
			switch reads := q.method == "GET"; {
			case reads && p.host == "" && place != "forward-get":
				continue // a browser sends the request, but does not let the page read the response
			case !reads && p.name == "cross-site":
				continue // browsers send Origin with a POST
			}
			all = append(all, attack{name: "browser/" + place + "/" + p.name, do: sends(q), holds: []oracle{refuses(400, 403, 404, 421), noCORS}})
		}
	}
	for place, q := range browserPaths() {
		q.method, q.body, q.media = "OPTIONS", "", "none"
		q.headers = []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type, authorization"}
		all = append(all, attack{name: "browser/" + place + "/preflight", do: sends(q), holds: []oracle{noCORS, forwardsNothing}})
	}
	return all
}

// noCORS fails if a browser would let the page read the response.
func noCORS(_ *rig, e *evidence) string {
	for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Private-Network"} {
		if v := e.header.Get(name); v != "" {
			return fmt.Sprintf("the response has %s: %s", name, v)
		}
	}
	return ""
}

// corsAttacks are origins that the configuration does not list, with a valid key.
func corsAttacks() (all []attack) {
	for _, origin := range []string{"https://app.example.evil.example", "https://app.example.", "http://app.example", "https://app.example:444", "https://APP.example", "https://xapp.example", "null", "https://app.example/", "https://app.example, https://evil.example", "*"} {
		q := generate("chat", testrig.Chat, "chat").request("full")
		q.headers = []string{"Origin", origin}
		all = append(all, attack{name: "cors/send " + origin, do: sends(q), holds: []oracle{noCORS}})
		q.method, q.body, q.media, q.key = "OPTIONS", "", "none", ""
		q.headers = append(q.headers, "Access-Control-Request-Method", "POST")
		all = append(all, attack{name: "cors/preflight " + origin, do: sends(q), holds: []oracle{noCORS, forwardsNothing}})
	}
	q := generate("chat", testrig.Chat, "chat").request("full")
	q.headers = []string{"Origin", "https://app.example"}
	all = append(all, attack{name: "cors/credentials", do: sends(q), holds: []oracle{func(_ *rig, e *evidence) string {
		return testrig.When(e.header.Get("Access-Control-Allow-Credentials") != "", "cookies of the browser are allowed")
	}}})
	// Pages of other origins change nothing on the admin port, even with an operator's key.
	for _, p := range pages()[:5] {
		for _, op := range operations() {
			if op.method == "GET" {
				continue
			}
			do := func(ctx context.Context, r *rig) *evidence {
				q := op.request(r, "owner")
				q.headers = append(q.headers, p.headers...)
				return r.send(ctx, q)
			}
			all = append(all, attack{name: "cors/admin/" + op.name + "/" + p.name, do: do, holds: []oracle{refuses(403), noCORS}})
		}
	}
	for _, p := range pages() {
		if p.host != "" {
			q := request{method: "GET", path: "/api/v1/keys", key: "owner", admin: true, host: p.host}
			all = append(all, attack{name: "cors/admin/rebinding/" + p.host, do: sends(q), holds: []oracle{refuses(403)}})
		}
	}
	return all
}

// openConfig is a gateway on loopback without keys.
func openConfig(r *rig) *config { return (&config{}).standard(r.up) }

// corsConfig is a gateway that one web page may use.
func corsConfig(r *rig) *config {
	c := tenantStore(r)
	c.top = append(c.top, `cors: { origins: ["https://app.example"] }`)
	return c
}
