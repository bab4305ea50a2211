package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// usageForms are edits of a response with which an upstream makes a request free, or a
// budget negative.
func usageForms() map[string]func(body string) string {
	all := map[string]func(string) string{}
	for name, number := range map[string]string{"negative": "-1000000", "overflow": "9223372036854775808", "wraps": "18446744073709551596", "float": "1e300", "string": `"-5"`, "zero": "0"} {
		all[name] = func(body string) string {
			return strings.NewReplacer(fmt.Sprintf(":%d", testrig.OutputTokens), ":"+number, fmt.Sprintf(":%d", testrig.InputTokens), ":"+number, fmt.Sprintf(":%d", testrig.InputTokens+testrig.OutputTokens), ":"+number).Replace(body)
		}
	}
	usage := regexp.MustCompile(`("usage(?:Metadata)?":)\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}`)
	for name, value := range map[string]string{"null": "null", "nothing": "{}", "list": "[]", "text": `"0"`} {
		all[name] = func(body string) string { return usage.ReplaceAllString(body, "${1}"+value) }
	}
	return all
}

// usageAttacks let the upstream report impossible usage or none, and check that the
// request is charged all the same.
func usageAttacks() (all []attack) {
	for _, d := range dialects() {
		for form, edit := range usageForms() {
			for _, target := range []string{targetName(d), otherTarget(d)} {
				for _, stream := range []bool{false, true} {
					name := fmt.Sprintf("usage/%s-%s/%s", targetName(d), target, form)
					if stream {
						name += "-stream"
					}
					model := target + "/usage-" + form
					do := func(ctx context.Context, r *rig) *evidence {
						r.script("usage-"+form, edited(func(_ testrig.Dialect, body string) string { return edit(body) }))
						return r.charged(ctx, d, testrig.Query{Model: model, Prompt: "hi", Stream: stream, MaxTokens: 100})
					}
					all = append(all, attack{name: name, do: do})
				}
			}
		}
	}
	return all
}

// charged sends a request and checks that its response costs something.
func (r *rig) charged(ctx context.Context, d testrig.Dialect, q testrig.Query) *evidence {
	before, _ := r.spent(ctx, "payer")
	e := r.send(ctx, request{path: d.Path(q.Model, q.Stream), body: d.Body(q), key: "payer", headers: []string{"Anthropic-Version", "2023-06-01"}})
	if e.status != 200 {
		return e
	}
	testrig.NoError(testrig.Until(ctx, patience, "the request is not settled", func() bool { _, open := r.spent(ctx, "payer"); return open == 0 }))
	now, _ := r.spent(ctx, "payer")
	e.problem(now <= before, "the response was delivered, and nothing was charged: $%v before, $%v now", before, now)
	return e
}

// spent returns what a key has spent, and how many of its requests are open.
func (r *rig) spent(ctx context.Context, key string) (dollars float64, open int) {
	use := r.admin(ctx, "GET", "/api/v1/keys/"+r.ids[key]+"/limits", "")
	dollars, _ = strconv.ParseFloat(use.Str("spent"), 64) // the weak gateway has no such figure
	return dollars, use.Num("concurrency")
}

// usageRig starts a gateway with prices and a key with a large budget.
func usageRig(ctx context.Context, o options) (*rig, error) {
	return start(func(r *rig) *config {
		c := priced(tenantStore(r))
		c.keys = append(c.keys, keySpec{name: "payer", body: `"org":"a","models":["*"],"limits":{"budget":"1000","window_seconds":0}`})
		return c
	})(ctx, o)
}

// priced adds a price for every target.
func priced(c *config) *config {
	c.top = append(c.top, "prices:", "  models:")
	for _, d := range dialects() {
		c.top = append(c.top, fmt.Sprintf("    %q: { input: 1, output: 1 }", targetName(d)+"/*"))
	}
	return c
}
