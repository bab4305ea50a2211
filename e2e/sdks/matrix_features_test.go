package sdks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// A feature is one thing that an SDK's user may want of a model. It is asked of every
// SDK on every upstream; what the model says is the same for all.
type feature struct {
	name    string
	column  string // in the table
	meaning string // of the column

	replies []testrig.Reply                         // what the upstream says, in order
	steps   func(d *rig.Dialect) []rig.Step         // instead of replies, for what is not an answer
	want    func(s *surface, d *rig.Dialect) string // what the SDK must report
	direct  string                                  // what it reports without a gateway, where that promises less
	asks    []rig.Facts                             // what the upstream must be asked, but for the model

	framed bool // asked of frameworks only, which keep a conversation in their own form
	// has says whether the SDK has such a thing; nil is for all.
	has func(s *surface) bool
	// local: the gateway answers by itself.
	local bool
	// faulty: the upstream misbehaves. Such requests go to a provider of their own.
	faulty bool
	leaves bool // the client disconnects, and the upstream has to see it
	// sealed: what the upstream sealed in its first answer has to come back.
	sealed bool
	// edited: the gateway may send other bytes than the SDK also where both speak one
	// dialect, or nothing at all.
	edited bool
}

// pixel is a picture whose base64 has all that tells the two alphabets apart.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJgggAA++//+/A="

var (
	hello    = testrig.Reply{Words: []string{"Hel", "lo", " there."}}
	thinking = testrig.Reply{Thought: []string{"Six times ", "seven."}, Words: []string{"42", " it is."}}
	person   = testrig.Reply{Words: []string{`{"name":"Ada",`, `"age":36,"tags":["math",`, `"首"]}`}}
	callOne  = testrig.Reply{Calls: []testrig.ToolCall{{ID: "call_1", Name: "get_weather", Args: []string{`{"ci`, `ty": "Par`, `is"}`}}}}
	callTwo  = testrig.Reply{Calls: []testrig.ToolCall{callOne.Calls[0], {ID: "call_2", Name: "get_weather", Args: []string{`{"city":"K`, `öln"}`}}}}
	warm     = testrig.Reply{Words: []string{"21 ", "degrees."}}

	askHello  = rig.Facts{System: "Be brief.", User: []string{"Say hello."}, MaxTokens: 64}
	askOne    = rig.Facts{User: []string{"How warm is it in Paris?"}, Tools: []string{"get_weather"}, MaxTokens: 64}
	askTwo    = rig.Facts{User: []string{"How warm is it in Paris and in Köln?"}, Tools: []string{"get_weather"}, MaxTokens: 64, Stream: true}
	resultOne = `get_weather{"city":"Paris"} = {"degrees":21}`
	resultTwo = `get_weather{"city":"Köln"} = {"degrees":22}`
)

func streamed(f *rig.Facts) { f.Stream = true }

func features() []feature {
	return slices.Concat(talkFeatures(), toolFeatures(), formFeatures(), faultFeatures(), listFeatures())
}

func talkFeatures() []feature {
	return []feature{
		{
			name: "text", column: "text", meaning: "a whole answer: system text, a question, a limit of tokens; its text and its finish reason",
			replies: []testrig.Reply{hello}, asks: []rig.Facts{askHello},
			want: func(s *surface, _ *rig.Dialect) string {
				return fmt.Sprintf(`{"text":"Hello there.","finish":%q}`, s.finish(hello))
			},
		},
		{
			name: "stream", column: "stream", meaning: "a streamed answer through the SDK's own helper or accumulator: each piece, the text as a whole, the finish reason",
			replies: []testrig.Reply{hello}, asks: []rig.Facts{askHello.With(streamed)},
			want: func(s *surface, _ *rig.Dialect) string {
				return fmt.Sprintf(`{"deltas":["Hel","lo"," there."],"text":"Hello there.","finish":%q}`, s.finish(hello))
			},
		},
		{
			name: "turns", column: "second question", meaning: "a second question in the same conversation, after the first answer, whole and then streamed",
			replies: []testrig.Reply{hello, warm}, framed: true,
			asks: []rig.Facts{askHello, askHello.With(func(f *rig.Facts) {
				f.Stream, f.User, f.Said = true, append(f.User[:1:1], askOne.User[0]), []string{"Hello there."}
			})},
			want: func(*surface, *rig.Dialect) string { return `{"texts":["Hello there.","21 degrees."]}` },
		},
	}
}

func toolFeatures() []feature {
	more := func(f *rig.Facts) { f.Results = []string{resultOne} }
	thinksOne := askOne.With(func(f *rig.Facts) { f.Thinking, f.MaxTokens = true, 4096 })
	thinksOneMore := thinksOne.With(more)
	thinkingCall := testrig.Reply{Thought: thinking.Thought, Calls: callOne.Calls}
	once := func(s *surface, _ *rig.Dialect) string {
		return fmt.Sprintf(`{"calls":[{"name":"get_weather","city":"Paris"}],"finish":[%q,%q],"text":"21 degrees."}`, s.finish(callOne), s.finish(warm))
	}
	return []feature{
		{
			name: "tools", column: "tools", meaning: "a tool call and its result in a second round, whole answers",
			replies: []testrig.Reply{callOne, warm},
			asks:    []rig.Facts{askOne, askOne.With(more)},
			want:    once,
		},
		{
			name: "parallel", column: "parallel tools, streamed", meaning: "two tool calls in one turn and both results, streamed",
			replies: []testrig.Reply{callTwo, warm},
			asks:    []rig.Facts{askTwo, askTwo.With(func(f *rig.Facts) { f.Results = []string{resultOne, resultTwo} })},
			want: func(s *surface, _ *rig.Dialect) string {
				return fmt.Sprintf(`{"calls":[{"name":"get_weather","city":"Paris"},{"name":"get_weather","city":"Köln"}],"finish":[%q,%q],"text":"21 degrees."}`,
					s.finish(callTwo), s.finish(warm))
			},
		},
		{
			name: "runner", column: "tool runner", meaning: "the SDK's own tool runner. Anthropic's newest keep the conversation at the vendor unless they are told that it cannot be kept",
			replies: []testrig.Reply{callOne, warm}, edited: true,
			asks: []rig.Facts{askOne, askOne.With(more)},
			has:  func(s *surface) bool { return s.runner },
			want: func(*surface, *rig.Dialect) string { return `{"asked":["Paris"],"text":"21 degrees."}` },
		},
		{
			name: "sealed", column: "reasoning over tools",
			meaning: "thinking and a tool call in one turn: what the vendor sealed its reasoning with comes back with the tool's result, whole and streamed",
			replies: []testrig.Reply{thinkingCall, warm, thinkingCall, warm}, sealed: true,
			asks: []rig.Facts{thinksOne, thinksOneMore, thinksOne.With(streamed), thinksOneMore.With(streamed)},
			has:  func(s *surface) bool { return s.dialect != "openai-chat" }, // which has no place for it
			want: func(s *surface, d *rig.Dialect) string {
				return `{"whole":` + once(s, d) + `,"stream":` + once(s, d) + `}`
			},
		},
	}
}

func formFeatures() []feature {
	thinks := askHello.With(func(f *rig.Facts) { f.Thinking, f.MaxTokens = true, 4096 })
	structured := askHello.With(func(f *rig.Facts) { f.Schema = map[string]string{"name": "string", "age": "integer", "tags": "array"} })
	pictured := askHello.With(func(f *rig.Facts) { f.User, f.Images = []string{"What is this?"}, []string{"image/png " + pixel} })
	return []feature{
		{
			name: "structured", column: "structured", meaning: "an answer in a JSON schema, with the SDK's typed parse where it has one",
			replies: []testrig.Reply{person}, asks: []rig.Facts{structured},
			want: func(*surface, *rig.Dialect) string { return `{"parsed":{"name":"Ada","age":36,"tags":["math","首"]}}` },
		},
		{
			name: "structured_tool", column: "structured by a tool", meaning: "an answer in a JSON schema that is the schema of a tool, which has to be called",
			replies: []testrig.Reply{{Calls: []testrig.ToolCall{{ID: "call_1", Args: person.Words}}}}, framed: true,
			asks: []rig.Facts{askHello.With(func(f *rig.Facts) { f.Forced = true })},
			want: func(*surface, *rig.Dialect) string { return `{"parsed":{"name":"Ada","age":36,"tags":["math","首"]}}` },
		},
		{
			name: "image", column: "image in", meaning: "a picture in the question, byte for byte",
			replies: []testrig.Reply{hello}, asks: []rig.Facts{pictured},
			want: func(*surface, *rig.Dialect) string { return `{"text":"Hello there."}` },
		},
		{
			name: "reasoning", column: "reasoning", meaning: "thinking is asked for and shown, whole and streamed. Chat has no field for it of its own: `reasoning_content` is used",
			replies: []testrig.Reply{thinking, thinking}, asks: []rig.Facts{thinks, thinks.With(streamed)},
			want: func(*surface, *rig.Dialect) string {
				return `{"whole":{"reasoning":"Six times seven.","text":"42 it is."},"stream":{"reasoning":"Six times seven.","text":"42 it is."}}`
			},
		},
		{
			name: "usage", column: "usage", meaning: "tokens in, from the cache, out, and thought, whole and streamed. Converse does not count what was thought",
			replies: []testrig.Reply{thinking, thinking}, asks: []rig.Facts{askHello, askHello.With(streamed)},
			want: func(s *surface, d *rig.Dialect) string {
				thought := rig.TokensThought
				if s.dialect == "converse" || d.Name == "converse" { // which does not count it
					thought = 0
				}
				usage := fmt.Sprintf(`{"input":%d,"cached":%d,"output":%d,"reasoning":%d}`, rig.TokensIn, rig.TokensCached, rig.TokensOut, thought)
				return `{"whole":` + usage + `,"stream":` + usage + `}`
			},
		},
	}
}

func faultFeatures() []feature {
	return []feature{
		{
			name: "error_404", column: "404", meaning: "the upstream's 404 as the SDK's own exception, with the upstream's message",
			faulty: true,
			steps: func(d *rig.Dialect) []rig.Step {
				return []rig.Step{rig.Whole(404, d.Problem(404, "The file does not exist."))}
			},
			want: func(s *surface, _ *rig.Dialect) string { return s.problem(404, "The file does not exist.", "") },
		},
		{
			name: "error_unknown", column: "unknown model", meaning: "a model that the gateway does not have, as the SDK's own exception",
			local: true,
			steps: func(d *rig.Dialect) []rig.Step {
				return []rig.Step{rig.Whole(404, d.Problem(404, "The file does not exist."))}
			},
			want: func(s *surface, _ *rig.Dialect) string { return s.problem(404, "*", "") },
		},
		{
			name: "error_429", column: "429, retry-after", meaning: "the upstream's 429 as the SDK's own exception, with the time to wait: in the header, or for Google's SDKs in the details",
			faulty: true,
			steps: func(d *rig.Dialect) []rig.Step {
				if d.Name == "gemini" {
					return []rig.Step{rig.Whole(429, d.Problem(429, "Slow down."))} // Google says it in the body
				}
				return []rig.Step{rig.Whole(429, d.Problem(429, "Slow down."), "Retry-After", "7")}
			},
			want: func(s *surface, _ *rig.Dialect) string { return s.problem(429, "Slow down.", "7") },
		},
		{
			name: "cut", column: "cut stream raises", meaning: "the upstream breaks off in the middle of a stream: the SDK raises after the text that came",
			faulty: true, direct: `{"text":"half an ans","error":"*"}`,
			steps: func(d *rig.Dialect) []rig.Step {
				pieces := d.Reply(testrig.Reply{Words: []string{"half an ", "ans", "wer"}}).Stream().All()
				return []rig.Step{rig.CutStream(pieces[:upTo(pieces, `ans"`)]...)}
			},
			want: func(s *surface, _ *rig.Dialect) string {
				return fmt.Sprintf(`{"text":"half an ans","error":%q}`, s.cut)
			},
		},
		{
			name: "cancel", column: "cancel", meaning: "the user leaves a stream; the upstream sees it within a second",
			leaves: true,
			steps: func(d *rig.Dialect) []rig.Step {
				pieces := d.Reply(testrig.Reply{Words: []string{"one ", "two"}}).Stream().All()
				return []rig.Step{rig.Hang(pieces[:upTo(pieces, `one "`)]...)}
			},
			want: func(*surface, *rig.Dialect) string { return `{"text":"one "}` },
		},
	}
}

func listFeatures() []feature {
	return []feature{
		{
			name: "models", column: "models", meaning: "the list of models in the caller's dialect, every typed field filled",
			local: true,
			has:   func(s *surface) bool { return rig.DialectNamed(s.dialect).Models != nil },
			steps: func(d *rig.Dialect) []rig.Step {
				if d.Models == nil {
					return nil
				}
				return []rig.Step{rig.Whole(200, d.Models(modelNames()))}
			},
			want: func(*surface, *rig.Dialect) string {
				return `{"ids":` + testrig.Compact(modelNames()) + `,"typed":true}`
			},
		},
		{
			name: "count_tokens", column: "count_tokens", meaning: "the number of tokens of a prompt, where the upstream can count them",
			edited: true,
			steps: func(d *rig.Dialect) []rig.Step {
				if d.Counted == "" {
					return nil
				}
				return []rig.Step{d.Counts()}
			},
			has: func(s *surface) bool { return s.dialect == "anthropic" || s.dialect == "converse" },
			want: func(_ *surface, d *rig.Dialect) string {
				if d.Counted == "" {
					return `{"refused":true}` // ANT-32: nobody there can count, and no message is sent for it
				}
				return fmt.Sprintf(`{"tokens":%d}`, rig.TokensCounted)
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
