package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// names returns model names with which a key for PREFIX/open* tries to reach PREFIX/shut.
func names(prefix string) map[string]string {
	open := prefix + "/open"
	return map[string]string{
		"plain":               prefix + "/shut",
		"dots":                open + "/../shut",
		"dots-deep":           open + "/a/b/../../../shut",
		"dot":                 open + "/./../shut",
		"dots-encoded":        open + "/%2e%2e/shut",
		"dots-half-encoded":   open + "/.%2e/shut",
		"dots-upper":          open + "/%2E%2E/shut",
		"dots-twice-encoded":  open + "/%252e%252e/shut",
		"slash-encoded":       open + "%2f..%2fshut",
		"slash-twice-encoded": open + "%252f..%252fshut",
		"backslash":           open + `\..\shut`,
		"backslash-encoded":   open + "%5c..%5cshut",
		"overlong":            open + "/%c0%ae%c0%ae/shut",
		"dots-parameter":      open + "/..;/shut",
		"query":               open + "?model=" + prefix + "/shut",
		"query-encoded":       open + "%3fmodel=shut",
		"fragment":            open + "#/../shut",
		"colon":               open + ":generateContent/../shut",
		"two-slashes":         prefix + "//open/../shut",
		"three-dots-dot":      open + "/.../../shut",
		"trailing-dots":       open + "/..",
		"leading-dots":        "../" + prefix + "/shut",
		"absolute":            "/" + prefix + "/shut",
		"scheme":              "http://127.0.0.1:1/" + prefix + "/open",
		"at":                  open + "@127.0.0.1:1/shut",
		"upper":               strings.ToUpper(prefix) + "/OPEN",
		"upper-prefix":        strings.ToUpper(prefix) + "/open",
		"wildcard":            prefix + "/*",
		"wildcard-open":       "*",
		"prefix-only":         prefix + "/",
		"prefix-name":         prefix,
		"leading-space":       " " + open,
		"fullwidth":           prefix + "\uff0fshut",
		"kelvin":              strings.Replace(prefix, "s", "\u017f", 1) + "/open\u212a/../shut",
		"nul":                 prefix + "/shut\u0000" + open,
		"newline":             prefix + "/shut\n" + open,
		"comma":               prefix + "/shut," + open,
		"space":               prefix + "/shut " + open,
		"semicolon":           prefix + "/shut;" + open,
		"discovered":          "discovered/shut",
		"other-provider":      map[bool]string{true: "msgs", false: "chat"}[prefix == "chat"] + "/shut",
		"long":                prefix + "/shut" + strings.Repeat("x", 4000),
	}
}

func nameAttacks() (all []attack) {
	for _, d := range dialects() {
		p := generate(targetName(d), d, targetName(d))
		for name, model := range names(targetName(d)) {
			q := p.request("narrow")
			forms := map[string]string{"": model}
			if p.inPath() { // as it is, and with everything escaped
				forms = map[string]string{"-raw": rawPath(model), "-escaped": url.PathEscape(model)}
			}
			for form, text := range forms {
				if p.inPath() {
					q.path = "/v1beta/models/" + text + ":generateContent"
				} else {
					q.body = strings.Replace(p.body, testrig.Quote(targetName(d)+"/m"), testrig.Quote(text), 1)
				}
				all = append(all, attack{name: "names/" + p.name + "/" + name + form, do: sends(q), holds: []oracle{insideScope}})
			}
		}
	}
	return all
}

// rawPath writes a name into a path with no more escapes than a request line needs.
func rawPath(model string) string {
	var b strings.Builder
	for _, c := range []byte(model) {
		if c <= ' ' || c > '~' || c == '#' {
			fmt.Fprintf(&b, "%%%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// insideScope fails if the upstream received a request for a model that the key's scope
// does not have, by its name or by its path after normalisation.
func insideScope(r *rig, e *evidence) string {
	if e.status != 200 {
		return refusesOrMoves(r, e)
	}
	for _, s := range e.upstream {
		path, _, _ := strings.Cut(s.uri, "?")
		clean := strings.ReplaceAll(path, "..;", "..") // some servers cut off parameters of a segment
		for range 3 {
			if decoded, err := url.PathUnescape(clean); err == nil {
				clean = decoded
			}
		}
		clean = strings.ReplaceAll(clean, `\`, "/")
		switch {
		case slices.ContainsFunc(strings.Split(clean, "/"), func(s string) bool { return s == "." || s == ".." }):
			return "the upstream's path has dot segments: " + path
		case !strings.HasPrefix(s.model, "open"):
			return fmt.Sprintf("the upstream received the model %q", s.model)
		case strings.ContainsAny(s.model, "\x00\n\r"):
			return fmt.Sprintf("the upstream's model has control characters: %q", s.model)
		}
	}
	return testrig.When(len(e.upstream) == 0, "status 200 without a request upstream")
}

// innerModels are models inside of a body, of which the upstream would use one instead of
// the model that the gateway checked.
func innerModels() map[string]request {
	chat := `"messages":[{"role":"user","content":"hi"}]`
	text := `{"parts":[{"text":"hi"}]}`
	gem := func(method, body string) request {
		return request{path: "/v1beta/models/gem/open:" + method, body: body}
	}
	openrouter := func(members string) request {
		return request{path: "/v1/chat/completions", body: `{"model":"chat/open",` + chat + `,` + members + `}`}
	}
	return map[string]request{
		"gemini-requests":            gem("batchEmbedContents", `{"requests":[{"model":"models/shut","content":`+text+`}]}`),
		"gemini-requests-second":     gem("batchEmbedContents", `{"requests":[{"model":"models/open","content":`+text+`},{"model":"models/shut","content":`+text+`}]}`),
		"gemini-requests-other":      gem("batchEmbedContents", `{"requests":[{"model":"models/gem/shut","content":`+text+`}]}`),
		"gemini-embed":               gem("embedContent", `{"model":"models/shut","content":`+text+`}`),
		"gemini-count":               gem("countTokens", `{"generateContentRequest":{"model":"models/shut","contents":[`+text+`]}}`),
		"gemini-count-snake":         gem("countTokens", `{"generate_content_request":{"model":"models/shut","contents":[`+text+`]}}`),
		"gemini-generate":            gem("generateContent", `{"model":"models/shut","contents":[`+text+`]}`),
		"gemini-stream":              gem("streamGenerateContent?alt=sse", `{"model":"models/shut","contents":[`+text+`]}`),
		"openrouter-models":          openrouter(`"models":["shut"]`),
		"openrouter-models-two":      openrouter(`"models":["open","shut"]`),
		"openrouter-route":           openrouter(`"route":"fallback","models":["shut"]`),
		"openrouter-fallback-string": openrouter(`"models":"shut"`),
		"case":                       openrouter(`"Model":"shut"`),
		"case-upper":                 openrouter(`"MODEL":"shut"`),
		"duplicate":                  openrouter(`"model":"shut"`),
		"escaped":                    openrouter(`"mod\u0065l":"shut"`),
	}
}

func innerAttacks() (all []attack) {
	for name, q := range innerModels() {
		q.key = "narrow"
		all = append(all, attack{name: "inner/" + name, do: sends(q), holds: []oracle{noInnerModel}})
	}
	return all
}

// noInnerModel fails if a model outside the scope reached the upstream anywhere in the body.
func noInnerModel(_ *rig, e *evidence) string {
	for _, s := range e.upstream {
		if strings.Contains(s.body, "shut") {
			return "the upstream received " + s.String()
		}
	}
	return testrig.When(e.status == 0 || e.status >= 500, "status %d", e.status)
}

// scoped checks that the keys for some models work for these models.
func scoped(begin func(context.Context, options) (*rig, error)) func(context.Context, options) (*rig, error) {
	return func(ctx context.Context, o options) (*rig, error) {
		r, err := begin(ctx, o)
		if err != nil {
			return nil, err
		}
		if err := testrig.Run(func() {
			for _, d := range dialects() {
				p := generate("", d, targetName(d))
				p.path, p.body = strings.Replace(p.path, "/m:", "/open:", 1), strings.Replace(p.body, `/m"`, `/open"`, 1)
				r.control(ctx, p.request("narrow"))
			}
		}); err != nil {
			r.close()
			return nil, err
		}
		return r, nil
	}
}
