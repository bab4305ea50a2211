package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A feature is one thing that an SDK's user may want of a model. It is asked of every
// SDK on every upstream; what the model says is the same for all.
type feature struct {
	name    string
	column  string // in the table
	meaning string // of the column

	replies []reply                             // what the upstream says, in order
	steps   func(d *dialect) []step             // instead of replies, for what is not an answer
	want    func(s *surface, d *dialect) string // what the SDK must report
	direct  string                              // what it reports without a gateway, where that promises less
	asks    []facts                             // what the upstream must be asked, but for the model

	// has says whether the SDK has such a thing; nil is for all.
	has func(s *surface) bool
	// local: the gateway answers by itself.
	local bool
	// faulty: the upstream misbehaves. Such requests go to a provider of their own.
	faulty bool
	cancel cancel
	// sealed: what the upstream sealed in its first answer has to come back.
	sealed bool
	// edited: the gateway may send other bytes than the SDK also where both speak one
	// dialect, or nothing at all.
	edited bool
}

// pixel is a picture whose base64 has all that tells the two alphabets apart.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJgggAA++//+/A="

var (
	hello    = reply{text: []string{"Hel", "lo", " there."}}
	thinking = reply{thought: []string{"Six times ", "seven."}, text: []string{"42", " it is."}}
	person   = reply{text: []string{`{"name":"Ada",`, `"age":36,"tags":["math",`, `"首"]}`}}
	callOne  = reply{calls: []invocation{{"call_1", "get_weather", []string{`{"ci`, `ty": "Par`, `is"}`}}}}
	callTwo  = reply{calls: []invocation{callOne.calls[0], {"call_2", "get_weather", []string{`{"city":"K`, `öln"}`}}}}
	warm     = reply{text: []string{"21 ", "degrees."}}

	askHello  = facts{System: "Be brief.", User: []string{"Say hello."}, MaxTokens: 64}
	askOne    = facts{User: []string{"How warm is it in Paris?"}, Tools: []string{"get_weather"}, MaxTokens: 64}
	askTwo    = facts{User: []string{"How warm is it in Paris and in Köln?"}, Tools: []string{"get_weather"}, MaxTokens: 64, Stream: true}
	resultOne = `get_weather{"city":"Paris"} = {"degrees":21}`
	resultTwo = `get_weather{"city":"Köln"} = {"degrees":22}`
)

// with is f after a change.
func (f facts) with(change func(*facts)) facts {
	change(&f)
	return f
}

func streamed(f *facts) { f.Stream = true }

func features() []feature {
	return slices.Concat(talkFeatures(), toolFeatures(), formFeatures(), faultFeatures(), listFeatures())
}

func talkFeatures() []feature {
	return []feature{
		{
			name: "text", column: "text", meaning: "a whole answer: system text, a question, a limit of tokens; its text and its finish reason",
			replies: []reply{hello}, asks: []facts{askHello},
			want: func(s *surface, _ *dialect) string {
				return fmt.Sprintf(`{"text":"Hello there.","finish":%q}`, s.finish(hello))
			},
		},
		{
			name: "stream", column: "stream", meaning: "a streamed answer through the SDK's own helper or accumulator: each piece, the text as a whole, the finish reason",
			replies: []reply{hello}, asks: []facts{askHello.with(streamed)},
			want: func(s *surface, _ *dialect) string {
				return fmt.Sprintf(`{"deltas":["Hel","lo"," there."],"text":"Hello there.","finish":%q}`, s.finish(hello))
			},
		},
	}
}

func toolFeatures() []feature {
	more := func(f *facts) { f.Results = []string{resultOne} }
	thinksOne := askOne.with(func(f *facts) { f.Thinking, f.MaxTokens = true, 4096 })
	thinksOneMore := thinksOne.with(more)
	thinkingCall := reply{thought: thinking.thought, calls: callOne.calls}
	once := func(s *surface, _ *dialect) string {
		return fmt.Sprintf(`{"calls":[{"name":"get_weather","city":"Paris"}],"finish":[%q,%q],"text":"21 degrees."}`, s.finish(callOne), s.finish(warm))
	}
	return []feature{
		{
			name: "tools", column: "tools", meaning: "a tool call and its result in a second round, whole answers",
			replies: []reply{callOne, warm},
			asks:    []facts{askOne, askOne.with(more)},
			want:    once,
		},
		{
			name: "parallel", column: "parallel tools, streamed", meaning: "two tool calls in one turn and both results, streamed",
			replies: []reply{callTwo, warm},
			asks:    []facts{askTwo, askTwo.with(func(f *facts) { f.Results = []string{resultOne, resultTwo} })},
			want: func(s *surface, _ *dialect) string {
				return fmt.Sprintf(`{"calls":[{"name":"get_weather","city":"Paris"},{"name":"get_weather","city":"Köln"}],"finish":[%q,%q],"text":"21 degrees."}`,
					s.finish(callTwo), s.finish(warm))
			},
		},
		{
			name: "runner", column: "tool runner", meaning: "the SDK's own tool runner. Anthropic's newest keep the conversation at the vendor unless they are told that it cannot be kept",
			replies: []reply{callOne, warm}, edited: true,
			asks: []facts{askOne, askOne.with(more)},
			has:  func(s *surface) bool { return s.runner },
			want: func(*surface, *dialect) string { return `{"asked":["Paris"],"text":"21 degrees."}` },
		},
		{
			name: "sealed", column: "reasoning over tools",
			meaning: "thinking and a tool call in one turn: what the vendor sealed its reasoning with comes back with the tool's result, whole and streamed",
			replies: []reply{thinkingCall, warm, thinkingCall, warm}, sealed: true,
			asks: []facts{thinksOne, thinksOneMore, thinksOne.with(streamed), thinksOneMore.with(streamed)},
			has:  func(s *surface) bool { return s.dialect != "openai-chat" }, // which has no place for it
			want: func(s *surface, d *dialect) string {
				return `{"whole":` + once(s, d) + `,"stream":` + once(s, d) + `}`
			},
		},
	}
}

func formFeatures() []feature {
	thinks := askHello.with(func(f *facts) { f.Thinking, f.MaxTokens = true, 4096 })
	structured := askHello.with(func(f *facts) { f.Schema = map[string]string{"name": "string", "age": "integer", "tags": "array"} })
	pictured := askHello.with(func(f *facts) { f.User, f.Images = []string{"What is this?"}, []string{"image/png " + pixel} })
	usage := fmt.Sprintf(`{"input":%d,"cached":%d,"output":%d,"reasoning":%d}`, tokensIn, tokensCached, tokensOut, tokensThought)
	return []feature{
		{
			name: "structured", column: "structured", meaning: "an answer in a JSON schema, with the SDK's typed parse where it has one",
			replies: []reply{person}, asks: []facts{structured},
			want: func(*surface, *dialect) string { return `{"parsed":{"name":"Ada","age":36,"tags":["math","首"]}}` },
		},
		{
			name: "image", column: "image in", meaning: "a picture in the question, byte for byte",
			replies: []reply{hello}, asks: []facts{pictured},
			want: func(*surface, *dialect) string { return `{"text":"Hello there."}` },
		},
		{
			name: "reasoning", column: "reasoning", meaning: "thinking is asked for and shown, whole and streamed. Chat has no field for it of its own: `reasoning_content` is used",
			replies: []reply{thinking, thinking}, asks: []facts{thinks, thinks.with(streamed)},
			want: func(*surface, *dialect) string {
				return `{"whole":{"reasoning":"Six times seven.","text":"42 it is."},"stream":{"reasoning":"Six times seven.","text":"42 it is."}}`
			},
		},
		{
			name: "usage", column: "usage", meaning: "tokens in, from the cache, out, and thought, whole and streamed",
			replies: []reply{thinking, thinking}, asks: []facts{askHello, askHello.with(streamed)},
			want: func(*surface, *dialect) string { return `{"whole":` + usage + `,"stream":` + usage + `}` },
		},
	}
}

func faultFeatures() []feature {
	return []feature{
		{
			name: "error_404", column: "404", meaning: "the upstream's 404 as the SDK's own exception, with the upstream's message",
			faulty: true,
			steps:  func(d *dialect) []step { return []step{whole(404, d.problem(404, "The model does not exist."))} },
			want:   func(s *surface, _ *dialect) string { return s.problem(404, "The model does not exist.", "") },
		},
		{
			name: "error_unknown", column: "unknown model", meaning: "a model that the gateway does not have, as the SDK's own exception",
			local: true,
			steps: func(d *dialect) []step { return []step{whole(404, d.problem(404, "The model does not exist."))} },
			want:  func(s *surface, _ *dialect) string { return s.problem(404, "*", "") },
		},
		{
			name: "error_429", column: "429, retry-after", meaning: "the upstream's 429 as the SDK's own exception, with the time to wait: in the header, or for Google's SDKs in the details",
			faulty: true,
			steps: func(d *dialect) []step {
				if d.name == "gemini" {
					return []step{whole(429, d.problem(429, "Slow down."))} // Google says it in the body
				}
				return []step{whole(429, d.problem(429, "Slow down."), "Retry-After", "7")}
			},
			want: func(s *surface, _ *dialect) string { return s.problem(429, "Slow down.", "7") },
		},
		{
			name: "cut", column: "cut stream raises", meaning: "the upstream breaks off in the middle of a stream: the SDK raises after the text that came",
			faulty: true, direct: `{"text":"half an ans","error":"*"}`,
			steps: func(d *dialect) []step {
				pieces := d.stream(reply{text: []string{"half an ", "ans", "wer"}})
				return []step{cutStream(pieces[:upTo(pieces, `ans"`)]...)}
			},
			want: func(s *surface, _ *dialect) string { return fmt.Sprintf(`{"text":"half an ans","error":%q}`, s.cut) },
		},
		{
			name: "cancel", column: "cancel", meaning: "the user leaves a stream; the upstream sees it within a second",
			cancel: leaves,
			steps: func(d *dialect) []step {
				pieces := d.stream(reply{text: []string{"one ", "two"}})
				return []step{hang(pieces[:upTo(pieces, `one "`)]...)}
			},
			want: func(*surface, *dialect) string { return `{"text":"one "}` },
		},
	}
}

func listFeatures() []feature {
	return []feature{
		{
			name: "models", column: "models", meaning: "the list of models in the caller's dialect, every typed field filled",
			local: true,
			steps: func(d *dialect) []step { return []step{whole(200, d.models(modelNames()))} },
			want:  func(*surface, *dialect) string { return `{"ids":` + compact(modelNames()) + `,"typed":true}` },
		},
		{
			name: "count_tokens", column: "count_tokens", meaning: "the number of tokens of a prompt, where the upstream can count them",
			edited: true,
			steps: func(d *dialect) []step {
				if d.counted == "" {
					return nil
				}
				return []step{whole(http.StatusOK, d.counted)}
			},
			has: func(s *surface) bool { return s.dialect == "anthropic" },
			want: func(_ *surface, d *dialect) string {
				if d.counted == "" {
					return `{"refused":true}` // ANT-32: nobody there can count, and no message is sent for it
				}
				return fmt.Sprintf(`{"tokens":%d}`, tokensCounted)
			},
		},
	}
}

// upTo is the number of pieces up to the one that holds s.
func upTo(pieces []string, s string) int {
	for i, p := range pieces {
		if strings.Contains(p, s) {
			return i + 1
		}
	}
	panic("no piece holds " + s)
}
