package loss

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// answer is an answer without a value, and with it.
type answer struct {
	fields, when string
	base         func() *llm.Response // nil for a short text
	set          func(r *llm.Response, s scene)
	find         string
	finds        map[protocol.Name]string   // where it is spelled otherwise
	ask          func(s scene) *llm.Request // nil for hello
}

func short() *llm.Response {
	return &llm.Response{ID: "id_1", Model: "m", Created: 1, Usage: &llm.Usage{Input: 10, Output: 10},
		Choices: []llm.Choice{{Blocks: text("hi"), Stop: llm.Stop{Kind: llm.EndTurn}}}}
}

func counted() *llm.Response {
	r := short()
	r.Usage = &llm.Usage{Input: 100, Output: 100}
	return r
}

func calling() *llm.Response {
	r := short()
	r.Choices[0].Blocks = []llm.Block{&llm.ToolCall{CallID: "call_1", Kind: llm.FunctionTool, Name: "f", Args: `{"a":1}`}}
	r.Choices[0].Stop.Kind = llm.ToolUse
	return r
}

// musing is an answer with reasoning in it.
func musing() *llm.Response {
	r := short()
	hm := &llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "hm"}}}
	r.Choices[0].Blocks = append([]llm.Block{hm}, r.Choices[0].Blocks...)
	return r
}

func spoken(r *llm.Response) *llm.Text { return r.Choices[0].Blocks[0].(*llm.Text) }

func called(r *llm.Response) *llm.ToolCall { return r.Choices[0].Blocks[0].(*llm.ToolCall) }

func block(b llm.Block) func(*llm.Response, scene) {
	return func(r *llm.Response, _ scene) { r.Choices[0].Blocks = append(r.Choices[0].Blocks, b) }
}

func stop(s llm.Stop) func(*llm.Response, scene) {
	return func(r *llm.Response, _ scene) { r.Choices[0].Stop = s }
}

func answerSamples() []answer {
	list := append(answerBlockSamples(), stopSamples()...)
	usage := func(f func(u *llm.Usage)) func(*llm.Response, scene) {
		return func(r *llm.Response, _ scene) { f(r.Usage) }
	}
	return append(list,
		answer{fields: "id", set: func(r *llm.Response, _ scene) { r.ID = aNeedle }, find: aNeedle,
			finds: map[protocol.Name]string{protocol.OpenAIResponses: "resp_"}},
		answer{fields: "model", set: func(r *llm.Response, _ scene) { r.Model = aNeedle }, find: aNeedle},
		answer{fields: "created", set: func(r *llm.Response, _ scene) { r.Created = 1234567 }, find: "1234567",
			finds: map[protocol.Name]string{protocol.Gemini: "1970-01-15T06:56:07Z"}},
		answer{fields: "tier", when: "default, priority", set: func(r *llm.Response, _ scene) { r.Tier = "priority" }, find: "priority"},
		answer{fields: "tier", when: "another word", set: func(r *llm.Response, _ scene) { r.Tier = aNeedle }, find: aNeedle},
		answer{fields: "ext", when: "of the same protocol", set: func(r *llm.Response, s scene) { r.Ext = member(s.own) }, find: aNeedle},
		answer{fields: "ext", when: "of another protocol", set: func(r *llm.Response, s scene) { r.Ext = member(s.other) }},
		answer{fields: "choices.index", when: "several answers", set: func(r *llm.Response, _ scene) {
			r.Choices = append(r.Choices, llm.Choice{Index: 1, Blocks: text(aNeedle), Stop: llm.Stop{Kind: llm.EndTurn}})
		}, find: aNeedle},
		answer{fields: "choices.ext", when: "of the same protocol", set: func(r *llm.Response, s scene) { r.Choices[0].Ext = member(s.own) }, find: aNeedle},
		answer{fields: "choices.ext", when: "of another protocol", set: func(r *llm.Response, s scene) { r.Choices[0].Ext = member(s.other) }},
		answer{fields: "usage.input", base: counted, set: usage(func(u *llm.Usage) { u.Input = 1234 }), find: "1234"},
		answer{fields: "usage.cache_read", base: counted, set: usage(func(u *llm.Usage) { u.CacheRead = 1234 }), find: "1234"},
		answer{fields: "usage.cache_write", base: counted, set: usage(func(u *llm.Usage) { u.CacheWrite = 1234 }), find: "1234"},
		answer{fields: "usage.output", base: counted, set: usage(func(u *llm.Usage) { u.Output = 1234 }), find: "1234"},
		answer{fields: "usage.reasoning", base: counted, set: usage(func(u *llm.Usage) { u.Reasoning = 1234 }), find: "1234"},
		answer{fields: "usage", when: "none", set: func(r *llm.Response, _ scene) { r.Usage = nil }},
	)
}

func answerBlockSamples() []answer {
	own := func(s scene) string { return s.own }
	other := func(s scene) string { return s.other }
	cite := func(whose func(scene) string, c llm.Citation) func(*llm.Response, scene) {
		return func(r *llm.Response, s scene) {
			c.Protocol = whose(s)
			spoken(r).Citations = []llm.Citation{c}
		}
	}
	raw := func(b func(whose string) llm.Block, whose func(scene) string) func(*llm.Response, scene) {
		return func(r *llm.Response, s scene) { r.Choices[0].Blocks = append(r.Choices[0].Blocks, b(whose(s))) }
	}
	served := func(whose string) llm.Block {
		return &llm.ServerCall{Protocol: whose, Type: "web_search_call", Raw: `{"type":"web_search_call","id":"n33dle"}`, Digest: "[search]"}
	}
	opaque := func(whose string) llm.Block {
		return &llm.Opaque{Protocol: whose, Type: "odd", Raw: `{"type":"odd","id":"n33dle"}`}
	}
	const citation = "text.citations citation.start citation.end citation.url citation.title"
	return []answer{
		{fields: "text.text", set: func(r *llm.Response, _ scene) { spoken(r).Text = aNeedle }, find: aNeedle},
		{fields: citation, when: "of another protocol, with an address", set: cite(other, llm.Citation{End: 2, URL: "https://example.com/" + aNeedle, Title: "t"}), find: aNeedle},
		{fields: "citation.quote", when: "of another protocol, without an address", set: cite(other, llm.Citation{Quote: aNeedle}), find: aNeedle},
		{fields: "citation.file_id", when: "of another protocol, without an address", set: cite(other, llm.Citation{FileID: aNeedle}), find: aNeedle},
		{fields: "text.citations citation.protocol citation.raw", when: "of the same protocol", set: cite(own, llm.Citation{
			End: 2, URL: "https://example.com/" + aNeedle, Title: "t", Raw: `{"type":"url_citation","url":"https://example.com/n33dle","title":"t","x_odd":1}`}), find: aNeedle},
		{fields: "text.logprobs", set: func(r *llm.Response, _ scene) {
			spoken(r).Logprobs = `[{"token":"n33dle","logprob":-0.5,"bytes":null,"top_logprobs":[]}]`
		}, find: aNeedle},
		{fields: "text.phase", set: func(r *llm.Response, _ scene) { spoken(r).Phase = "commentary" }, find: "commentary"},
		{fields: "refusal.text", set: func(r *llm.Response, _ scene) {
			r.Choices[0].Blocks = []llm.Block{&llm.Refusal{Text: aNeedle}}
		}, find: aNeedle},
		{fields: "refusal.logprobs", base: func() *llm.Response {
			r := short()
			r.Choices[0].Blocks = []llm.Block{&llm.Refusal{Text: "no"}}
			return r
		}, set: func(r *llm.Response, _ scene) {
			r.Choices[0].Blocks[0].(*llm.Refusal).Logprobs = `[{"token":"n33dle","logprob":-0.5,"bytes":null,"top_logprobs":[]}]`
		}, find: aNeedle},
		{fields: "block.id", set: func(r *llm.Response, _ scene) { spoken(r).ID = "msg_" + aNeedle }, find: aNeedle},
		{fields: "block.cache cache_mark.ttl cache_mark.ext", set: func(r *llm.Response, _ scene) { spoken(r).Cache = &llm.CacheMark{TTL: "5m"} }},
		{fields: "block.ext", when: "of the same protocol", set: func(r *llm.Response, s scene) { spoken(r).Ext = member(s.own) }, find: aNeedle},
		{fields: "block.ext", when: "of another protocol", set: func(r *llm.Response, s scene) { spoken(r).Ext = member(s.other) }},
		{fields: "thought.parts.text", set: block(&llm.Thought{Parts: parts(llm.FullReasoning)}), find: aNeedle},
		{fields: "thought.parts.form", base: musing, set: func(r *llm.Response, _ scene) {
			r.Choices[0].Blocks[0].(*llm.Thought).Parts[0].Form = llm.SummaryReasoning
		}},
		{fields: "thought " + seals, when: "of the same protocol", base: musing, set: func(r *llm.Response, s scene) {
			r.Choices[0].Blocks[0].Common().Seals = seal(nativeForm(s.own), s.own)
		}, find: aNeedle},
		{fields: "thought " + seals, when: "redacted by Anthropic", set: func(r *llm.Response, _ scene) {
			b := &llm.Thought{Meta: llm.Meta{Seals: seal(llm.Redacted, string(protocol.Anthropic))}}
			r.Choices[0].Blocks = append([]llm.Block{b}, r.Choices[0].Blocks...)
		}},
		{fields: "thought " + seals, when: "of another protocol", base: musing, set: func(r *llm.Response, s scene) {
			r.Choices[0].Blocks[0].Common().Seals = seal(llm.Signature, s.other)
		}},
		{fields: "tool_call " + seals, when: "of another protocol", base: calling, set: func(r *llm.Response, s scene) {
			called(r).Seals = seal(llm.Signature, s.other)
		}},
		{fields: "text " + seals, when: "of another protocol", set: func(r *llm.Response, s scene) {
			spoken(r).Seals = seal(llm.Signature, s.other)
		}},
		{fields: "media.kind media.mime media.data", when: "image", set: block(&llm.Media{Kind: llm.Image, MIME: "image/png", Data: aPicture}), find: aPicture},
		{fields: "media.kind media.mime media.data", when: "audio, video or file", set: block(&llm.Media{Kind: llm.Audio, MIME: "audio/wav", Data: aNeedle}), find: aNeedle},
		{fields: "media.url media.file_id", set: block(&llm.Media{Kind: llm.Image, MIME: "image/png", URL: "https://example.com/" + aNeedle}), find: aNeedle},
		{fields: "media.text media.name media.title media.context media.detail", set: block(&llm.Media{
			Kind: llm.File, MIME: "text/plain", Text: aNeedle, Name: aNeedle, Title: aNeedle, Context: aNeedle, Detail: aNeedle})},
		{fields: "tool_call.call_id", base: calling, set: func(r *llm.Response, _ scene) { called(r).CallID = aNeedle }, find: aNeedle},
		{fields: "tool_call.synthetic", base: calling, set: func(r *llm.Response, _ scene) { called(r).Synthetic = true }},
		{fields: "tool_call.kind", when: "custom", base: calling, set: func(r *llm.Response, _ scene) {
			called(r).Kind, called(r).Args = llm.CustomTool, aNeedle
		}, find: aNeedle},
		{fields: "tool_call.kind", when: "search", base: calling, set: func(r *llm.Response, _ scene) {
			called(r).Kind, called(r).Args = llm.SearchTool, `{"query":"n33dle"}`
		}, find: aNeedle},
		{fields: "tool_call.name", base: calling, set: func(r *llm.Response, _ scene) { called(r).Name = aNeedle }, find: aNeedle},
		{fields: "tool_call.namespace", base: calling, set: func(r *llm.Response, _ scene) { called(r).Namespace = aNeedle }, find: aNeedle},
		{fields: "tool_call.args", when: "an object", base: calling, set: func(r *llm.Response, _ scene) { called(r).Args = `{"a":1.10}` }, find: "1.10"},
		{fields: "tool_call.args", when: "no object", base: calling, set: func(r *llm.Response, _ scene) { called(r).Args = `n33dle{` }, find: aNeedle},
		{fields: "tool_call", when: "a second call for a client of the deprecated functions", base: calling, set: func(r *llm.Response, _ scene) {
			r.Choices[0].Blocks = append(r.Choices[0].Blocks, &llm.ToolCall{CallID: "call_2", Kind: llm.FunctionTool, Name: "g", Args: "{}"})
		}, find: `"g"`, ask: func(s scene) *llm.Request {
			r := tooled(s)
			r.Tools[0].Ext = llm.Ext{Protocol: "openai-chat", Members: []llm.Member{{Name: protocol.MarkPrefix + "functions", Value: "true"}}}
			return r
		}},
		{fields: "server_call.protocol server_call.type server_call.raw", when: "of the same protocol", set: raw(served, own), find: aNeedle},
		{fields: "server_call.protocol server_call.type server_call.raw server_call.digest", when: "of another protocol", set: raw(served, other)},
		{fields: "opaque.protocol opaque.type opaque.raw", when: "of the same protocol", set: raw(opaque, own), find: aNeedle},
		{fields: "opaque.protocol opaque.type opaque.raw", when: "of another protocol", set: raw(opaque, other)},
	}
}

func stopSamples() []answer {
	var list []answer
	for _, k := range []llm.StopKind{llm.StopSequence, llm.MaxTokens, llm.ContextWindow, llm.Refused, llm.ContentFilter,
		llm.Malformed, llm.Pause, llm.Other} {
		list = append(list, answer{fields: "choices.stop.kind", when: string(k), set: stop(llm.Stop{Kind: k})})
	}
	return append(list,
		answer{fields: "choices.stop.kind", when: string(llm.EndTurn), base: func() *llm.Response {
			r := short()
			r.Choices[0].Stop.Kind = llm.MaxTokens
			return r
		}, set: stop(llm.Stop{Kind: llm.EndTurn})},
		answer{fields: "choices.stop.kind", when: string(llm.ToolUse), set: func(r *llm.Response, _ scene) { *r = *calling() }},
		answer{fields: "choices.stop.kind", when: "refusal, with the refusal's words", set: func(r *llm.Response, _ scene) {
			r.Choices[0].Blocks = []llm.Block{&llm.Refusal{Text: "no"}}
			r.Choices[0].Stop.Kind = llm.Refused
		}},
		answer{fields: "choices.stop.kind", when: string(llm.PromptBlocked), set: func(r *llm.Response, _ scene) {
			r.Choices[0] = llm.Choice{Stop: llm.Stop{Kind: llm.PromptBlocked}}
		}},
		answer{fields: "choices.stop.matched", set: stop(llm.Stop{Kind: llm.StopSequence, Matched: aNeedle}), find: aNeedle},
		answer{fields: "choices.stop.category", base: refusing, set: func(r *llm.Response, _ scene) { r.Choices[0].Stop.Category = aNeedle }, find: aNeedle},
		answer{fields: "choices.stop.explanation", base: refusing, set: func(r *llm.Response, _ scene) { r.Choices[0].Stop.Explanation = aNeedle }, find: aNeedle},
		answer{fields: "choices.stop.raw", set: stop(llm.Stop{Kind: llm.Other, Raw: "odd"}), find: "odd"},
	)
}

func refusing() *llm.Response {
	r := short()
	r.Choices[0].Stop.Kind = llm.Refused
	return r
}
