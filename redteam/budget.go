package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The budget of a key: requests for ten tokens fit into it, requests for ten thousand do
// not. A token of output costs a dollar for a million.
const budgetTokens = 3000

// numberForms returns the ways to write a large number that some upstream reads.
func numberForms() map[string]string {
	return map[string]string{
		"plain": "10000", "fraction": "10000.0", "exponent": "1e4", "exponent-plus": "1E+4", "exponent-fraction": "1.0e4", "string": `"10000"`, "string-fraction": `"10000.0"`, "string-exponent": `"1e4"`, "string-space": `" 10000 "`, "string-plus": `"+10000"`,
		"shifted": "100000000e-4", "huge": "1e300", "over-int64": "9223372036854775808", "over-int32": "4294967306", "over-float": "1e999", "string-hex": `"0x2710"`, "list": "[10000]", "underscore": `"10_000"`,
	}
}

// budgetMembers returns the members by which a request asks for much output; %s stands for
// the number.
func budgetMembers() map[string]string {
	return map[string]string{
		"chat/max_tokens":                `"max_tokens":%s`,
		"chat/max_completion_tokens":     `"max_completion_tokens":%s`,
		"chat/n":                         `"max_tokens":10,"n":%s`,
		"completions/max_tokens":         `"max_tokens":%s`,
		"completions/best_of":            `"max_tokens":10,"best_of":%s`,
		"completions/n":                  `"max_tokens":10,"n":%s`,
		"resp/max_output_tokens":         `"max_output_tokens":%s`,
		"msgs/max_tokens":                `"max_tokens":%s`,
		"gem/maxOutputTokens":            `"generationConfig":{"maxOutputTokens":%s}`,
		"gem/snake":                      `"generation_config":{"max_output_tokens":%s}`,
		"gem/snake-inside":               `"generationConfig":{"max_output_tokens":%s}`,
		"gem/camel-inside":               `"generation_config":{"maxOutputTokens":%s}`,
		"gem/candidateCount":             `"generationConfig":{"maxOutputTokens":10,"candidateCount":%s}`,
		"gem/candidate_count":            `"generationConfig":{"maxOutputTokens":10,"candidate_count":%s}`,
		"gem/candidate_count-both-snake": `"generation_config":{"max_output_tokens":10,"candidate_count":%s}`,
	}
}

func budgetAttacks() (all []attack) {
	for place, member := range budgetMembers() {
		for form, number := range numberForms() {
			all = append(all, attack{name: "budget/" + place + "/" + form, do: sends(spend(place, fmt.Sprintf(member, number))), holds: []oracle{refuses(400, 402, 403, 413, 422, 429)}})
		}
	}
	for name, members := range map[string]string{
		"chat/both-limits":      `"max_tokens":10,"max_completion_tokens":10000`,
		"chat/both-limits-swap": `"max_completion_tokens":10000,"max_tokens":10`,
		"gem/both-configs":      `"generationConfig":{"maxOutputTokens":10},"generation_config":{"max_output_tokens":10000}`,
		"gem/both-inside":       `"generationConfig":{"maxOutputTokens":10,"max_output_tokens":10000}`,
		"chat/no-limit":         `"temperature":1`,
		"chat/zero":             `"max_tokens":0`,
		"chat/negative":         `"max_tokens":-10000`,
		"chat/null":             `"max_tokens":null`,
		"chat/true":             `"max_tokens":true`,
		"chat/object":           `"max_tokens":{"value":10000}`,
		"chat/case":             `"Max_Tokens":10000`,
		"resp/case":             `"MAX_OUTPUT_TOKENS":10000`,
	} {
		all = append(all, attack{name: "budget/" + name, do: sends(spend(name, members)), holds: []oracle{refuses(400, 402, 403, 413, 422, 429)}})
	}
	return all
}

// spend returns a request of the key with a budget.
func spend(place, members string) request {
	target, _, _ := strings.Cut(place, "/")
	d := map[string]testrig.Dialect{"chat": testrig.Chat, "resp": testrig.Responses, "msgs": testrig.Messages, "gem": testrig.Gemini}[target]
	q := request{path: d.Path(target+"/m", false), key: "poor"}
	switch target {
	case "completions":
		q.path, q.body = "/v1/completions", `{"model":"chat/m","prompt":"hi",`+members+`}`
	case "resp":
		q.body = `{"model":"resp/m","store":false,"input":"hi",` + members + `}`
	case "gem":
		q.body = `{"contents":[{"parts":[{"text":"hi"}]}],` + members + `}`
	default:
		q.body = fmt.Sprintf(`{"model":"%s/m","messages":[{"role":"user","content":"hi"}],%s}`, target, members)
	}
	if d == testrig.Messages {
		q.headers = []string{"Anthropic-Version", "2023-06-01"}
	}
	return q
}

// budgetRig starts a gateway with prices and a key that can pay for small requests only.
func budgetRig(ctx context.Context, o options) (*rig, error) {
	r, err := start(func(r *rig) *config {
		c := priced(tenantStore(r))
		c.keys = append(c.keys, keySpec{name: "poor", body: fmt.Sprintf(`"org":"a","models":["*"],"limits":{"budget":"0.%06d","window_seconds":0}`, budgetTokens)})
		return c
	})(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := testrig.Run(func() {
		for place, small := range map[string]string{"chat": `"max_tokens":10`, "resp": `"max_output_tokens":10`, "msgs": `"max_tokens":10`, "gem": `"generationConfig":{"maxOutputTokens":10}`, "completions": `"max_tokens":10`} {
			r.control(ctx, spend(place, small))
		}
	}); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}
