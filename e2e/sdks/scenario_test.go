package sdks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// A scenario is one thing that a user does with an SDK. Every SDK has a function of
// that name, which does it and reports what it saw as one JSON object.
type scenario struct {
	name  string
	steps []rig.Step // what the upstream answers, in order
	want  string     // what the SDK must report, as JSON; "*" stands for any value but null

	// direct is what the SDK reports without a gateway, where the gateway's
	// promise goes beyond what an upstream gives.
	direct string
	// local: the gateway answers by itself and the upstream must see nothing; the
	// steps are for the run without a gateway.
	local bool
	// faulty: the upstream misbehaves, so the scenario gets a gateway of its own;
	// what the gateway learns about its target is not held against the next one.
	faulty bool
	// cancel: the client goes away, and the upstream must see it.
	cancel cancel
	// key is the client's key, if not the right one.
	key string
	// only names the one language whose SDK has such a helper.
	only string
}

type cancel int

const (
	stays       cancel = iota
	leaves             // the client closes its stream by itself
	leavesOnCue        // the client waits to be told, once the upstream has the request
)

func scenarios() []scenario {
	return slices.Concat(chatScenarios(), streamScenarios(), toolScenarios(), structuredScenarios(),
		embeddingScenarios(), modelScenarios(), errorScenarios(), cutScenarios(), cancelScenarios())
}

const (
	usageReport = `{"prompt":11,"completion":7,"total":18,"cached":4,"reasoning":3}`
	unicodeText = "Grüße, 世界! עברית \u2028 é e\u0301 👩‍👩‍👧 \U0001F9FF \\ \" \t \u0001 </script>"
)

// chatReport is what an SDK tells of an answer with the text s.
func chatReport(s string) string {
	return fmt.Sprintf(`{"id":"chatcmpl-w","model":"gpt-real-0001","content":%s,"finish":"stop","usage":%s,"request_id":"*"}`, rig.Quote(s), usageReport)
}

func chatScenarios() []scenario {
	const escaped = `"caf\u00e9 \ud83e\uddff \u4e16\u754c \/ \b"`
	extras := strings.Replace(
		answer(`{"index":0,"message":{"role":"assistant","content":"42","reasoning_content":"6*7"},"finish_reason":"stop"}`),
		`"service_tier"`, `"timings":{"predicted_ms":12.5,"cache_n":0},"service_tier"`, 1)
	long := strings.Repeat("abcdefg ", 1<<17)
	return []scenario{
		{name: "chat_text", steps: []rig.Step{rig.Whole(200, says("Hello there."))}, want: chatReport("Hello there.")},
		{name: "chat_unicode", steps: []rig.Step{rig.Whole(200, says(unicodeText))}, want: chatReport(unicodeText)},
		{name: "chat_escapes", steps: []rig.Step{rig.Whole(200, answer(choice(0, escaped, "stop")))}, want: chatReport("café \U0001F9FF 世界 / \b")},
		{name: "chat_alias", steps: []rig.Step{rig.Whole(200, says("by another name"))}, want: chatReport("by another name")},
		{name: "chat_slashed", steps: []rig.Step{rig.Whole(200, says("with a slash"))}, want: chatReport("with a slash")},
		{name: "chat_gzip", steps: []rig.Step{gzipped(says(strings.Repeat("packed ", 500)))}, want: chatReport(strings.Repeat("packed ", 500))},
		{name: "chat_large", steps: []rig.Step{rig.Whole(200, says(long))}, want: fmt.Sprintf(`{"length":%d}`, len(long))},
		{
			name:  "chat_n2",
			steps: []rig.Step{rig.Whole(200, answer(choice(0, `"first"`, "stop")+","+choice(1, `"second"`, "length")))},
			want:  `{"choices":[{"index":0,"content":"first","finish":"stop"},{"index":1,"content":"second","finish":"length"}]}`,
		},
		{
			name:  "chat_extra_fields",
			steps: []rig.Step{rig.Whole(200, extras)},
			want:  `{"content":"42","reasoning_content":"6*7","timings":{"predicted_ms":12.5,"cache_n":0}}`,
		},
		{
			name:  "chat_headers",
			steps: []rig.Step{rig.Whole(200, says("counted"), "X-Ratelimit-Remaining-Requests", "41", "X-Ratelimit-Reset-Tokens", "6m0s")},
			want:  `{"content":"counted","remaining":"41","reset":"6m0s"}`,
		},
	}
}

func streamScenarios() []scenario {
	hello := []string{role(0), text(0, "Hel"), text(0, "lo"), text(0, " there."), finish(0, "stop")}
	usage := strings.Replace(event(""), `"choices":[]`, `"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,`+
		`"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}`, 1)
	framed := strings.ReplaceAll(strings.Join(hello, ": keep-alive\n\n")+"data:[DONE]\n\n", "\n", "\r\n")
	framed = strings.ReplaceAll(framed, "data: ", "data:")
	return []scenario{
		{
			name:  "stream_helper",
			steps: []rig.Step{rig.Stream(append(slices.Clone(hello), rig.Done)...)},
			want:  `{"id":"chatcmpl-s","model":"gpt-real-0001","deltas":["Hel","lo"," there."],"content":"Hello there.","finish":"stop"}`,
		},
		{
			name:  "stream_raw",
			steps: []rig.Step{rig.Stream(append(slices.Clone(hello), rig.Done)...)},
			want:  `{"chunks":["","Hel","lo"," there.",""],"finish":"stop","error":null}`,
		},
		{
			name:  "stream_async",
			steps: []rig.Step{rig.Stream(append(slices.Clone(hello), rig.Done)...)},
			want:  `{"chunks":["","Hel","lo"," there.",""],"finish":"stop","error":null}`,
			only:  "python",
		},
		{
			name:  "stream_unicode", // every write ends inside a character or an event
			steps: []rig.Step{rig.Stream(pieces(strings.Join([]string{role(0), text(0, unicodeText), text(0, "👩‍👩‍👧"), finish(0, "stop"), rig.Done}, ""), 5)...)},
			want:  fmt.Sprintf(`{"chunks":["",%s,"👩‍👩‍👧",""],"finish":"stop","error":null}`, rig.Quote(unicodeText)),
		},
		{
			name:  "stream_framing", // CRLF, comments, no space after the colon
			steps: []rig.Step{rig.Stream(framed)},
			want:  `{"chunks":["","Hel","lo"," there.",""],"finish":"stop","error":null}`,
		},
		{
			name:  "stream_no_done", // SSE-18: a finish reason is proof enough
			steps: []rig.Step{rig.Stream(hello...)},
			want:  `{"chunks":["","Hel","lo"," there.",""],"finish":"stop","error":null}`,
		},
		{
			name:  "stream_usage",
			steps: []rig.Step{rig.Stream(append(slices.Clone(hello), usage, rig.Done)...)},
			want:  `{"content":"Hello there.","usage":` + usageReport + `,"chunks_without_choices":1}`,
		},
		{
			name: "stream_n2",
			steps: []rig.Step{rig.Stream(role(0), role(1), text(1, "zwei"), text(0, "eins"), text(1, "!"), finish(1, "stop"),
				text(0, "?"), finish(0, "stop"), rig.Done)},
			want: `{"choices":[{"index":0,"content":"eins?","finish":"stop"},{"index":1,"content":"zwei!","finish":"stop"}]}`,
		},
	}
}

// pieces cuts s every n bytes.
func pieces(s string, n int) []string {
	var out []string
	for len(s) > n {
		out, s = append(out, s[:n]), s[n:]
	}
	return append(out, s)
}

func toolScenarios() []scenario {
	const (
		paris = `{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Paris\"}"}}`
		koeln = `{"id":"call_2","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Köln\",\"unit\":\"c\"}"}}`
		calls = `{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` + paris + `,` + koeln + `],"refusal":null},"logprobs":null,"finish_reason":"tool_calls"}`
		saw   = `{"calls":[{"id":"call_1","name":"get_weather","arguments":"{\"city\": \"Paris\"}"},{"id":"call_2","name":"get_weather","arguments":"{\"city\":\"Köln\",\"unit\":\"c\"}"}],` +
			`"finish":["tool_calls","stop"],"content":"21 and 22 degrees."}`
	)
	fragments := []string{
		role(0),
		call(`{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}}`),
		call(`{"index":0,"function":{"arguments":"{\"ci"}}`),
		call(`{"index":0,"function":{"arguments":"ty\": \"Par"}}`),
		call(`{"index":0,"function":{"arguments":"is\"}"}}`),
		call(`{"index":1,"id":"call_2","type":"function","function":{"name":"get_weather","arguments":""}}`),
		call(`{"index":1,"function":{"arguments":"{\"city\":\"K"}}`),
		call(`{"index":1,"function":{"arguments":"öln\",\"unit\":\"c\""}}`),
		call(`{"index":1,"function":{"arguments":"}"}}`),
		finish(0, "tool_calls"), rig.Done,
	}
	spoken := rig.Stream(role(0), text(0, "21 and "), text(0, "22 degrees."), finish(0, "stop"), rig.Done)
	return []scenario{
		{name: "tools_whole", steps: []rig.Step{rig.Whole(200, answer(calls)), rig.Whole(200, says("21 and 22 degrees."))}, want: saw},
		{name: "tools_stream", steps: []rig.Step{rig.Stream(fragments...), spoken}, want: saw},
		{
			name:  "tools_runner",
			steps: []rig.Step{rig.Stream(fragments...), spoken},
			want:  `{"asked":["Paris","Köln"],"content":"21 and 22 degrees."}`,
			only:  "node",
		},
	}
}

func structuredScenarios() []scenario {
	const person = `{"name":"Ada","age":36,"tags":["math","首"]}`
	parsed := `{"parsed":` + person + `,"refusal":""}`
	refused := answer(`{"index":0,"message":{"role":"assistant","content":null,"refusal":"I will not."},"logprobs":null,"finish_reason":"stop"}`)
	return []scenario{
		{name: "structured_whole", steps: []rig.Step{rig.Whole(200, answer(choice(0, rig.Quote(person), "stop")))}, want: parsed},
		{
			name:  "structured_stream",
			steps: []rig.Step{rig.Stream(role(0), text(0, person[:9]), text(0, person[9:20]), text(0, person[20:]), finish(0, "stop"), rig.Done)},
			want:  parsed,
		},
		{name: "structured_refusal", steps: []rig.Step{rig.Whole(200, refused)}, want: `{"parsed":null,"refusal":"I will not."}`},
	}
}

func embeddingScenarios() []scenario {
	const want = `{"vectors":[[0.5,-0.25,2],[0,1,-8]],"usage":{"prompt":9,"total":9},"model":"text-embedding-3-small"}`
	return []scenario{
		{name: "embeddings", steps: []rig.Step{embed}, want: want},
		{name: "embeddings_float", steps: []rig.Step{embed}, want: want},
	}
}

func modelScenarios() []scenario {
	const entry = `{"id":%q,"object":"model","created":1763000000,"owned_by":"isogloss"}`
	row := func(id string) string { return fmt.Sprintf(entry, id) }
	list := `{"object":"list","data":[` + strings.Join([]string{row("gpt-real"), row("alias"), row("vendor/slashed"), row("embed")}, ",") + `]}`
	return []scenario{
		{name: "models_list", local: true, steps: []rig.Step{rig.Whole(200, list)}, want: `{"ids":["alias","embed","gpt-real","vendor/slashed"]}`},
		{name: "models_retrieve", local: true, steps: []rig.Step{rig.Whole(200, row("gpt-real"))}, want: `{"id":"gpt-real","object":"model","owned_by":"*"}`},
		{name: "models_retrieve_slashed", local: true, steps: []rig.Step{rig.Whole(200, row("vendor/slashed"))}, want: `{"id":"vendor/slashed","object":"model","owned_by":"*"}`},
	}
}
