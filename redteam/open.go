package main

import (
	"context"
	"crypto/tls"
	"os"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// outside are paths of the admin port that are not in the admin API and show the same as one of its
// operations.
var outside = []struct{ row, method, path, body string }{
	{"list-targets", "GET", "/metrics", ""},
	{"list-models", "GET", "/models", ""},
	{"explain", "POST", "/explain?dialect=openai-chat", `{"model":"chat/m"}`},
}

// row returns the row of the admin API with a name.
func row(name string) operation {
	i := slices.IndexFunc(operations(), func(op operation) bool { return op.name == name })
	return operations()[i]
}

// callers are the keys that try a path: nobody, a client, and every operator.
func callers() []string {
	names := []string{"", "foreign"}
	for _, o := range operators() {
		names = append(names, o.name)
	}
	return names
}

// openAttacks read all that an admin port serves that other machines can reach: every reading operation of
// the API, and the paths beside the API, which need the roles of the operation that shows the same.
func openAttacks() (all []attack) {
	add := func(name, key string, op operation, q func(r *rig) request) {
		do := func(ctx context.Context, r *rig) *evidence {
			q := q(r)
			q.key, q.from = key, "127.9.1.1"
			return r.send(ctx, q)
		}
		who := key
		if who == "" {
			who = "no-key"
		}
		var hold oracle
		switch {
		case key == "" || key == "gone":
			hold = refuses(401)
		case key == "foreign":
			hold = refuses(403)
		case strings.HasSuffix(key, "-a") && op.whole:
			hold = refuses(403)
		case key == "owner", key == "second-owner", key == "admin", slices.Contains(strings.Fields(op.roles), strings.TrimSuffix(key, "-a")):
			return // who may read it
		default:
			hold = refuses(403)
		}
		all = append(all, attack{name: "open/" + name + "/" + who, do: do, holds: []oracle{hold, lacks(canariesOfB...), lacks("chat/m")}})
	}
	for _, key := range callers() {
		for _, o := range outside {
			add(strings.Trim(strings.Split(o.path, "?")[0], "/"), key, row(o.row), func(*rig) request {
				return request{method: o.method, path: o.path, body: o.body, admin: true}
			})
		}
		for _, op := range operations() {
			if op.method == "GET" {
				add(op.name, key, op, func(r *rig) request { return op.request(r, "") })
			}
		}
		for name, path := range map[string]string{"get-request": "/requests/5d0f3c1e-1111-4222-8333-444455556666", "compare-node": "/nodes/gw-1.a/config"} {
			op := operation{name: name, roles: "billing auditor", whole: name == "compare-node"}
			if name == "compare-node" {
				op.roles = "auditor"
			}
			add(name, key, op, func(*rig) request { return request{method: "GET", path: "/api/v1" + path, admin: true} })
		}
	}
	return append(all, publicPages()...)
}

// publicPages are what the port serves without a key: nothing of the gateway is in it.
func publicPages() (all []attack) {
	for _, path := range []string{"/", "/console/", "/console/index.html", "/login", "/login/callback", "/logout", "/live", "/ready", "/health", "/api/openapi.json", "/api/v1/", "/scim/v2/Users", "/favicon.ico", "/robots.txt", "/metrics/", "/metrics?x", "//metrics", "/./metrics", "/%6detrics", "/METRICS", "/models/", "/explain"} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			q := request{method: method, path: path, admin: true, from: "127.9.1.2"}
			secrets := lacks(append([]string{"chat/m", "base_url:", "isogloss_requests"}, canariesOfB...)...)
			all = append(all, attack{name: "open/page" + path + "/" + method, do: sends(q), holds: []oracle{secrets, forwardsNothing, notEverything}})
		}
	}
	return all
}

// notEverything fails if any other site may read the response.
func notEverything(_ *rig, e *evidence) string {
	return testrig.When(e.header != nil && e.header.Get("Access-Control-Allow-Credentials") != "", "any site may read the response")
}

// openRig starts a gateway whose admin port other machines can reach. The weak gateway has no TLS.
func openRig(ctx context.Context, o options) (*rig, error) {
	r, err := newRig(o)
	if err != nil {
		return nil, err
	}
	c := tenantStore(r)
	c.keys = append(c.keys, operators()...)
	if o.prove {
		return start(func(*rig) *config { return c })(ctx, o)
	}
	err = testrig.Run(func() {
		r.gateway = testrig.Must(testrig.NewGateway(o.bin, "", "gateway"))
		cert, key := writeCertificate(r.gateway.Dir)
		listen := "127.0.0.1" + r.address(true)[strings.LastIndexByte(r.address(true), ':'):]
		header := strings.Replace(r.gateway.Header(), "admin: { listen: "+listen, "admin: { tls: { cert: "+cert+", key: "+key+" }, listen: "+strings.Replace(listen, "127.0.0.1", "0.0.0.0", 1), 1)
		testrig.NoError(os.WriteFile(r.gateway.Config, []byte(header+c.yaml()), 0o600))
		testrig.NoError(r.gateway.Start(ctx))
		r.tls = &tls.Config{InsecureSkipVerify: true}
		r.createKeys(ctx, c.keys)
		r.revokeGone(ctx)
		for _, o := range outside { // who may read them does
			if e := r.send(ctx, request{method: o.method, path: o.path, body: o.body, key: "auditor", admin: true}); e.status != 200 {
				testrig.NoError(errorStatus(o.path+" for an auditor", e))
			}
		}
	})
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}
