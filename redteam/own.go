package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	visitCookie = "isogloss-usage"
	visitPath   = "/my-usage"
	maxOwnKeys  = 3 // by the rule of peopleConfig
)

// person is somebody who keeps keys, from an address of their own.
type person struct {
	r     *rig
	from  string
	token string
}

// newPerson returns a person whom no other attack knows.
func (r *rig) newPerson(name string) *person {
	claims := r.issuer.claims("main", map[string]any{"sub": fmt.Sprint(name, "-", time.Now().UnixNano())})
	return &person{r, addressed(34000 + len(name)), r.issuer.sign("EdDSA", claims)}
}

// send sends a request with the person's token.
func (p *person) send(ctx context.Context, method, path, body string) *evidence {
	return p.r.send(ctx, request{method: method, path: path, body: body, from: p.from, headers: []string{"Authorization", "Bearer " + p.token}})
}

// create makes a key of the person and returns its id and its text.
func (p *person) create(ctx context.Context) (id, text string) {
	e := p.send(ctx, "POST", "/v1/key", `{"name":"canary-of-a-person"}`)
	o := testrig.Parse([]byte(e.body))
	if id, text = o.Obj("key").Str("id"), o.Str("text"); text == "" && !p.r.weak {
		testrig.NoError(errorStatus("a person creates no key", e))
	}
	return id, text
}

// visit begins a session of the client port with a key. more are headers.
func (p *person) visit(ctx context.Context, key string, more ...string) (cookie string, e *evidence) {
	headers := more
	if len(more) == 0 {
		headers = []string{"Sec-Fetch-Site", "same-origin"}
	}
	e = p.r.form(ctx, visitPath, p.from, url.Values{"do": {"key"}, "key": {key}}, headers...)
	return setCookie(e, visitCookie), e
}

// session returns the cookie of a session of the person's new key.
func (p *person) session(ctx context.Context) string {
	_, text := p.create(ctx)
	cookie, e := p.visit(ctx, text)
	if cookie == "" && !p.r.weak {
		testrig.NoError(errorStatus("a key begins no session of the client port", e))
	}
	return cookie
}

// ownAttacks are those on people's own keys and on the sessions of the client port.
func ownAttacks() (all []attack) {
	add := func(name string, do func(ctx context.Context, p *person) *evidence, holds ...oracle) {
		all = append(all, attack{name: "signin/own/" + name, holds: holds, do: func(ctx context.Context, r *rig) *evidence { return do(ctx, r.newPerson(name)) }})
	}
	create := func(name, body string) {
		add("create-"+name, func(ctx context.Context, p *person) *evidence { return p.send(ctx, "POST", "/v1/key", body) }, refuses(400, 403))
	}
	create("every-model", `{"name":"n","models":["*"]}`)
	create("shorter-prefix", `{"name":"n","models":["cha*"]}`)
	create("other-model", `{"name":"n","models":["chat","gem"]}`)
	create("never-expires", `{"name":"n","expires":"never"}`)
	create("expires-late", fmt.Sprintf(`{"name":"n","expires":%q}`, time.Now().AddDate(50, 0, 0).Format(time.RFC3339)))
	create("owner", `{"name":"n","owner":"person_other"}`)
	create("organisation", `{"name":"n","org":"b"}`)
	create("role", `{"name":"n","role":"owner"}`)
	create("limits", `{"name":"n","limits":{"budget":"0"}}`)
	create("twice", `{"name":"n","models":["chat"],"models":["*"]}`)
	create("case", `{"name":"n","Models":["*"]}`)
	add("create-with-a-key", func(ctx context.Context, p *person) *evidence {
		_, text := p.create(ctx)
		return p.r.send(ctx, request{path: "/v1/key", body: `{"name":"n"}`, headers: []string{"Authorization", "Bearer " + text}, from: p.from})
	}, refuses(401, 403))
	add("create-at-once", createAtOnce, serves(200))
	for _, op := range []struct{ name, method, suffix string }{{"revoke", "DELETE", ""}, {"rotate", "POST", "/rotate"}} {
		add(op.name+"-foreign", func(ctx context.Context, p *person) *evidence {
			id, _ := p.r.newPerson("victim").create(ctx)
			e := p.send(ctx, op.method, "/v1/key/"+id+op.suffix, "")
			none := p.send(ctx, op.method, "/v1/key/"+strings.Repeat("0", 22)+op.suffix, "")
			client := p.send(ctx, op.method, "/v1/key/"+p.r.ids["full"]+op.suffix, "")
			e.problem(e.body != none.body || client.body != none.body, "keys of others and unknown keys can be told apart: %s, %s, %s", e.body, client.body, none.body)
			return e
		}, refuses(404))
	}
	add("run-as", func(ctx context.Context, p *person) *evidence {
		id, _ := p.create(ctx)
		return p.r.send(ctx, request{path: "/api/v1/keys/" + id + "/run", key: "owner", admin: true, body: `{"path":"/v1/chat/completions","request":"{}"}`})
	}, refuses(403))
	add("rotated-by-operator", func(ctx context.Context, p *person) *evidence {
		id, _ := p.create(ctx)
		return p.r.send(ctx, request{path: "/api/v1/keys/" + id + "/rotate", key: "owner", admin: true, body: `{"overlap_seconds":0}`})
	}, refuses(409))
	add("revoked-person", func(ctx context.Context, p *person) *evidence {
		_, text := p.create(ctx)
		p.end(ctx)
		return p.r.send(ctx, request{path: "/v1/chat/completions", body: `{"model":"chat","messages":[{"role":"user","content":"hi"}]}`, headers: []string{"Authorization", "Bearer " + text}, from: p.from})
	}, refuses(401, 403))
	return append(all, visitAttacks()...)
}

// end revokes the person's account, and waits until the gateway knows.
func (p *person) end(ctx context.Context) {
	id := testrig.Parse([]byte(p.send(ctx, "GET", "/v1/key", "").body)).Str("id")
	p.r.endKey(ctx, id, "revoke", "")
}

// createAtOnce creates more keys at once than the rule allows. The evidence is the list of the keys.
func createAtOnce(ctx context.Context, p *person) *evidence {
	p.send(ctx, "GET", "/v1/key", "") // the account exists
	texts := make([]string, 4*maxOwnKeys)
	var wait sync.WaitGroup
	for i := range texts {
		wait.Go(func() {
			texts[i] = testrig.Parse([]byte(p.send(ctx, "POST", "/v1/key", `{"name":"n"}`).body)).Str("text")
		})
	}
	wait.Wait()
	made := 0
	for _, text := range texts {
		if text != "" {
			made++
		}
	}
	e := p.send(ctx, "GET", "/v1/key", "")
	listed := len(testrig.Parse([]byte(e.body)).List("keys"))
	e.problem(made != maxOwnKeys || listed != maxOwnKeys, "%d keys were made and %d are listed, and the rule allows %d", made, listed, maxOwnKeys)
	return e
}

// visitAttacks are those on sessions of the client port.
func visitAttacks() (all []attack) {
	use := func(name, method, path, body string, holds []oracle, headers ...string) {
		do := func(ctx context.Context, r *rig) *evidence {
			p := r.newPerson(name)
			cookie := p.session(ctx)
			e := r.send(ctx, request{method: "GET", path: "/v1/key", from: p.from, headers: []string{"Cookie", visitCookie + "=" + cookie, "Sec-Fetch-Site", "same-origin"}})
			if e.status != 200 && !r.weak {
				testrig.NoError(errorStatus("a session of the client port is not served", e))
			}
			q := request{method: method, path: path, body: body, from: p.from, headers: append([]string{"Cookie", visitCookie + "=" + cookie + "; " + sessionCookie + "=" + cookie}, headers...)}
			q.admin = strings.HasPrefix(path, "/api/")
			if strings.HasPrefix(body, "do=") {
				q.media = "application/x-www-form-urlencoded"
			}
			e = r.send(ctx, q)
			e.problem(e.header.Get("Access-Control-Allow-Credentials") != "", "other origins may send cookies")
			return e
		}
		all = append(all, attack{name: "signin/visit/" + name, do: do, holds: holds})
	}
	refused := []oracle{refuses(401, 403), lacks("canary-of-a-person")}
	same := []string{"Sec-Fetch-Site", "same-origin"}
	for _, path := range []string{"/v1/models", "/v1/chat/completions", "/v1/messages", "/v1beta/models/chat:generateContent", "/v1/responses"} {
		method, body := "POST", `{"model":"chat","max_tokens":5,"messages":[{"role":"user","content":"hi"}],"input":"hi","contents":[{"parts":[{"text":"hi"}]}]}`
		if path == "/v1/models" {
			method, body = "GET", ""
		}
		use("model-path"+strings.ReplaceAll(path, "/", "-"), method, path, body, refused, same...)
	}
	use("admin", "GET", "/api/v1/keys", "", refused, same...)
	for _, path := range []string{"/v1/usage", "/v1/key"} {
		name := strings.TrimPrefix(path, "/v1/")
		use(name+"-cross-site", "GET", path, "", refused, "Sec-Fetch-Site", "cross-site")
		use(name+"-same-site", "GET", path, "", refused, "Sec-Fetch-Site", "same-site")
		use(name+"-program", "GET", path, "", refused)
		use(name+"-cors", "GET", path, "", refused, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	}
	use("create-cross-site", "POST", "/v1/key", `{"name":"n"}`, refused, "Sec-Fetch-Site", "cross-site")
	use("create-typed", "POST", "/v1/key", `{"name":"n"}`, refused, "Sec-Fetch-Site", "none")
	use("create-of-a-key", "POST", "/v1/key", `{"name":"n"}`, refused, same...) // a key is not a person
	for _, site := range []string{"cross-site", "same-site", "none", ""} {
		use("form-"+site, "POST", visitPath, "do=create&name=n", []oracle{refuses(401, 403)}, "Sec-Fetch-Site", site)
	}
	one := func(name string, do func(ctx context.Context, p *person) *evidence, holds ...oracle) {
		all = append(all, attack{name: "signin/visit/" + name, holds: holds, do: func(ctx context.Context, r *rig) *evidence { return do(ctx, r.newPerson(name)) }})
	}
	for _, site := range []string{"cross-site", "same-site", "none"} {
		one("begin-"+site, func(ctx context.Context, p *person) *evidence {
			_, text := p.create(ctx)
			cookie, e := p.visit(ctx, text, "Sec-Fetch-Site", site)
			e.problem(cookie != "", "a session began")
			return e
		}, refuses(401, 403))
	}
	after := func(change func(ctx context.Context, p *person, cookie string) string) func(ctx context.Context, p *person) *evidence {
		return func(ctx context.Context, p *person) *evidence {
			cookie := change(ctx, p, p.session(ctx))
			return p.r.send(ctx, request{method: "GET", path: "/v1/key", from: p.from, headers: []string{"Cookie", visitCookie + "=" + cookie, "Sec-Fetch-Site", "same-origin"}})
		}
	}
	one("revoked-person", after(func(ctx context.Context, p *person, cookie string) string { p.end(ctx); return cookie }), refuses(401, 403), lacks("canary-of-a-person"))
	one("signed-out", after(func(ctx context.Context, p *person, cookie string) string {
		p.r.form(ctx, visitPath, p.from, url.Values{"do": {"sign-out"}}, "Cookie", visitCookie+"="+cookie, "Sec-Fetch-Site", "same-origin")
		return cookie
	}), refuses(401, 403), lacks("canary-of-a-person"))
	one("fixed", after(func(ctx context.Context, p *person, _ string) string {
		_, text := p.create(ctx)
		p.visit(ctx, text, "Sec-Fetch-Site", "same-origin", "Cookie", visitCookie+"=chosen")
		return "chosen"
	}), refuses(401, 403), lacks("canary-of-a-person"))
	one("operator", func(ctx context.Context, p *person) *evidence {
		cookie, e := p.visit(ctx, p.r.keys["owner"])
		e.problem(cookie != "", "an operator's key began a session of the client port")
		return e
	}, refuses(401, 403))
	return all
}
