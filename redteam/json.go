package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// malformed is a way to break the JSON of a valid body.
type malformed struct {
	name string
	make func(p endpoint) string
}

// last returns a body with a further last member.
func last(body, member string) string { return body[:len(body)-1] + "," + member + "}" }

// insert returns a malformation that adds a member.
func insert(name, member string) malformed {
	return malformed{name, func(p endpoint) string { return last(p.body, member) }}
}

// wrap returns a malformation that puts text around the body.
func wrap(name, before, after string) malformed {
	return malformed{name, func(p endpoint) string { return before + p.body + after }}
}

// whole returns a malformation that replaces the body.
func whole(name, body string) malformed {
	return malformed{name, func(endpoint) string { return body }}
}

// firstMember returns the name of a member that the endpoint reads and that is not the model.
func firstMember(p endpoint) string {
	for _, name := range []string{"messages", "input", "contents", "content", "prompt", "query"} {
		if strings.Contains(p.body, `"`+name+`":`) {
			return name
		}
	}
	return "model"
}

// malformations returns the ways to break JSON. No server may guess what they mean: two
// parsers would read them differently, so that the gateway would check another request
// than the upstream serves.
func malformations() []malformed {
	dup := func(name, member string) malformed {
		return malformed{name, func(p endpoint) string { return last(p.body, fmt.Sprintf(member, firstMember(p))) }}
	}
	return []malformed{
		dup("duplicate", `"%s":[]`),
		{"duplicate-escaped", func(p endpoint) string {
			name := firstMember(p)
			return last(p.body, fmt.Sprintf(`"\u%04x%s":[]`, name[0], name[1:]))
		}},
		insert("duplicate-unknown", `"x":1,"x":2`),
		insert("duplicate-model", `"model":"chat/a","model":"chat/b"`),
		insert("depth-65", `"x":`+strings.Repeat("[", 65)+strings.Repeat("]", 65)),
		insert("depth-objects", `"x":`+strings.Repeat(`{"a":`, 5000)+"1"+strings.Repeat("}", 5000)),
		whole("depth-unclosed", strings.Repeat("[", 200_000)),
		insert("invalid-utf8", "\"x\":\"\xff\xfe\""),
		insert("overlong-utf8", "\"x\":\"\xc0\xae\xc0\xae\""),
		insert("encoded-surrogate", "\"x\":\"\xed\xa0\x80\""),
		insert("nul", "\"x\":\"a\x00b\""),
		insert("newline-in-string", "\"x\":\"a\nb\""),
		insert("leading-zero", `"x":01`),
		insert("plus", `"x":+1`),
		insert("hexadecimal", `"x":0x10`),
		insert("bare-point", `"x":1.`),
		insert("nan", `"x":NaN`),
		insert("infinity", `"x":-Infinity`),
		insert("trailing-comma", `"x":[1,]`),
		insert("comment", `"x":/* 1 */1`),
		insert("single-quotes", `'x':1`),
		insert("bad-escape", `"x":"\x41"`),
		insert("short-escape", `"x":"\u12"`),
		wrap("bom", "\ufeff", ""),
		wrap("trailing-object", "", `{"model":"chat/b"}`),
		wrap("trailing-brace", "", "}"),
		wrap("trailing-nul", "", "\x00"),
		wrap("leading-guard", ")]}'\n", ""),
		{"truncated", func(p endpoint) string { return p.body[:len(p.body)-1] }},
		{"truncated-string", func(p endpoint) string { return p.body[:strings.LastIndex(p.body, `"`)] }},
		{"utf16", func(p endpoint) string { return "\xff\xfe" + strings.Join(strings.Split(p.body, ""), "\x00") + "\x00" }},
		whole("empty", ""),
		whole("null", "null"),
		whole("array", `[{"model":"chat/m"}]`),
		whole("string", `"model"`),
		{"members-600", func(p endpoint) string {
			var b strings.Builder
			for i := range 600 {
				fmt.Fprintf(&b, `,"x%d":0`, i)
			}
			return p.body[:len(p.body)-1] + b.String() + "}"
		}},
	}
}

// medium is a way to send a body as something other than plain JSON.
type medium struct {
	name, media string
	headers     []string
	pack        func(string) string
}

// media returns bodies that web pages can send without a preflight, and compressed ones.
func media() []medium {
	same := func(s string) string { return s }
	return []medium{
		{"text", "text/plain", nil, same},
		{"form", "application/x-www-form-urlencoded", nil, same},
		{"multipart", "multipart/form-data; boundary=x", nil, same},
		{"none", "none", nil, same},
		{"two-types", "text/plain, application/json", nil, same},
		{"gzip", "", []string{"Content-Encoding", "gzip"}, zipped},
		{"deflate", "", []string{"Content-Encoding", "deflate"}, same},
	}
}

// zipped returns a body that is a hundred times larger when it is unpacked.
func zipped(body string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	fmt.Fprintf(w, "%s%s", body, strings.Repeat(" ", 32<<10)) // a buffer takes everything
	testrig.NoError(w.Close())
	return b.String()
}

// jsonAttacks sends every malformation to every endpoint.
func jsonAttacks() (all []attack) {
	for _, p := range endpoints() {
		for _, m := range malformations() {
			q := p.request("full")
			q.body = m.make(p)
			all = append(all, attack{name: "json/" + p.name + "/" + m.name, do: sends(q), holds: []oracle{refuses(400), errorOf(p.dialect)}})
		}
		for _, m := range media() {
			q := p.request("full")
			q.media, q.headers, q.body = m.media, append(q.headers, m.headers...), m.pack(p.body)
			all = append(all, attack{name: "media/" + p.name + "/" + m.name, do: sends(q), holds: []oracle{refuses(415), errorOf(p.dialect)}})
		}
	}
	return all
}

// sends returns the action of an attack that is a single request.
func sends(q request) func(context.Context, *rig) *evidence {
	return func(ctx context.Context, r *rig) *evidence { return r.send(ctx, q) }
}

// controlled starts a rig and checks that it serves a valid request to every endpoint.
func controlled(begin func(context.Context, options) (*rig, error)) func(context.Context, options) (*rig, error) {
	return func(ctx context.Context, o options) (*rig, error) {
		r, err := begin(ctx, o)
		if err != nil {
			return nil, err
		}
		if err := testrig.Run(func() {
			for _, p := range endpoints() {
				r.control(ctx, p.request("full"))
			}
		}); err != nil {
			r.close()
			return nil, err
		}
		return r, nil
	}
}

// tenantStore is the configuration of a gateway with a store and the keys of two
// organisations.
func tenantStore(r *rig) *config {
	c := &config{keys: standardKeys()}
	c.top = []string{"store: sqlite", "data: data"}
	return c.standard(r.up)
}

// standardKeys returns the keys that most groups use.
func standardKeys() []keySpec {
	return []keySpec{
		{name: "full", body: `"org":"a","models":["*"]`},
		{name: "foreign", body: `"org":"b","models":["*"]`},
		{name: "narrow", body: `"org":"a","models":["chat/open*","resp/open*","msgs/open*","gem/open*"]`},
	}
}
