package all_test

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// responseSample describes a response without a value and the same response with it.
type responseSample struct {
	name    string                   // the value cell of the row, without backquotes
	base    responseEdit             // makes the response in which the value can be set; nil for baseResponse
	set     responseEdit             // sets the value
	find    string                   // the text that the row's member must contain
	finds   map[protocol.Name]string // the same for protocols that spell it differently
	request requestEdit              // makes the request that is answered; nil for baseRequest
}

// responseEdit changes a response.
type responseEdit func(r response)

// response is a response and the protocols of its translation.
type response struct {
	*llm.Response
	own   string // the protocol that is encoded
	other string // the protocol of the upstream
}

// baseResponse returns a short response to a request.
func baseResponse(to request) response {
	return response{own: to.own, other: to.other, Response: &llm.Response{
		ID: "id_1", Model: "m", Created: 1, Usage: &llm.Usage{Input: 10, Output: 10},
		Choices: []llm.Choice{{Blocks: text("hi"), Stop: llm.Stop{Kind: llm.EndTurn}}},
	}}
}

func (r response) from(o origin) string { return o(r.own, r.other) }

func (r response) block() llm.Block    { return r.Choices[0].Blocks[0] }
func (r response) text() *llm.Text     { return r.block().(*llm.Text) }
func (r response) call() *llm.ToolCall { return r.block().(*llm.ToolCall) }

func (r response) insert(at int, b llm.Block) {
	r.Choices[0].Blocks = slices.Insert(r.Choices[0].Blocks, at, b)
}

// The following edits make the responses that samples start from.

func withCacheWrite(r response) { r.Usage = &llm.Usage{Input: 100, CacheWrite: 2000, Output: 100} }

func withUsage(r response) { r.Usage = &llm.Usage{Input: 100, Output: 100} }

func withCall(r response) {
	r.Choices[0].Blocks = []llm.Block{&llm.ToolCall{CallID: "call_1", Kind: llm.FunctionTool, Name: "f", Args: `{"a":1}`}}
	r.Choices[0].Stop.Kind = llm.ToolUse
}

func withThought(r response) {
	r.insert(0, &llm.Thought{Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "hm"}}})
}

func withRefusal(r response) { r.Choices[0].Blocks = []llm.Block{&llm.Refusal{Text: "no"}} }

func withRefusedStop(r response) { r.Choices[0].Stop.Kind = llm.Refused }

// appendBlock returns an edit that appends a block.
func appendBlock(b llm.Block) responseEdit {
	return func(r response) { r.insert(len(r.Choices[0].Blocks), llm.CopyBlock(b)) }
}

// stop returns an edit that sets the stop reason.
func stop(s llm.Stop) responseEdit {
	return func(r response) { r.Choices[0].Stop = s }
}

func responseSamples() []responseSample {
	return slices.Concat(responseBlockSamples(), stopSamples(), []responseSample{
		{name: "id", set: func(r response) { r.ID = needle }, find: needle,
			finds: map[protocol.Name]string{protocol.OpenAIResponses: "resp_"}},
		{name: "model", set: func(r response) { r.Model = needle }, find: needle},
		{name: "created", set: func(r response) { r.Created = 1234567 }, find: "1234567",
			finds: map[protocol.Name]string{protocol.Gemini: "1970-01-15T06:56:07Z"}},
		{name: "tier: default, priority", set: func(r response) { r.Tier = "priority" }, find: "priority"},
		{name: "tier: another word", set: func(r response) { r.Tier = needle }, find: needle},
		{name: "ext: of the same protocol", set: func(r response) { r.Ext = member(r.own) }, find: needle},
		{name: "ext: of another protocol", set: func(r response) { r.Ext = member(r.other) }},
		{name: "choices.index: several answers", set: func(r response) {
			r.Choices = append(r.Choices, llm.Choice{Index: 1, Blocks: text(needle), Stop: llm.Stop{Kind: llm.EndTurn}})
		}, find: needle},
		{name: "choices.ext: of the same protocol", set: func(r response) { r.Choices[0].Ext = member(r.own) }, find: needle},
		{name: "choices.ext: of another protocol", set: func(r response) { r.Choices[0].Ext = member(r.other) }},
		{name: "usage.input", base: withUsage, set: func(r response) { r.Usage.Input = 1234 }, find: "1234"},
		{name: "usage.cache_read", base: withUsage, set: func(r response) { r.Usage.CacheRead = 1234 }, find: "1234"},
		{name: "usage.cache_write", base: withUsage, set: func(r response) { r.Usage.CacheWrite = 1234 }, find: "1234"},
		{name: "usage.output", base: withUsage, set: func(r response) { r.Usage.Output = 1234 }, find: "1234"},
		{name: "usage.reasoning", base: withUsage, set: func(r response) { r.Usage.Reasoning = 1234 }, find: "1234"},
		{name: "usage.other", base: withCacheWrite, set: func(r response) { *r.Usage.At(llm.CacheWrite1h) = 1234 },
			finds: map[protocol.Name]string{protocol.Anthropic: "1234", protocol.Converse: "1234"}},
		{name: "usage: none", set: func(r response) { r.Usage = nil }},
		{name: "usage_tier", base: withUsage, set: func(r response) { r.UsageTier = "flex" }},
	})
}

func responseBlockSamples() []responseSample {
	cite := func(from origin, c llm.Citation) responseEdit {
		return func(r response) {
			c.Protocol = r.from(from)
			r.text().Citations = []llm.Citation{c}
		}
	}
	raw := func(b func(whose string) llm.Block, from origin) responseEdit {
		return func(r response) { appendBlock(b(r.from(from)))(r) }
	}
	served := func(whose string) llm.Block {
		return &llm.ServerCall{Protocol: whose, Type: "web_search_call", Raw: `{"type":"web_search_call","id":"n33dle"}`, Digest: "[search]"}
	}
	opaque := func(whose string) llm.Block {
		return &llm.Opaque{Protocol: whose, Type: "odd", Raw: `{"type":"odd","id":"n33dle"}`}
	}
	return []responseSample{
		{name: "text.text", set: func(r response) { r.text().Text = needle }, find: needle},
		{name: "text.citations citation.start .end .url .title: of another protocol, with an address", set: cite(other, llm.Citation{End: 2, URL: "https://example.com/" + needle, Title: "t"}), find: needle},
		{name: "citation.quote: of another protocol, without an address", set: cite(other, llm.Citation{Quote: needle}), find: needle},
		{name: "citation.file_id: of another protocol, without an address", set: cite(other, llm.Citation{FileID: needle}), find: needle},
		{name: "text.citations citation.protocol .raw: of the same protocol", set: cite(own, llm.Citation{
			End: 2, URL: "https://example.com/" + needle, Title: "t", Raw: `{"type":"url_citation","url":"https://example.com/n33dle","title":"t","x_odd":1}`}), find: needle},
		{name: "text.logprobs", set: func(r response) {
			r.text().Logprobs = `[{"token":"n33dle","logprob":-0.5,"bytes":null,"top_logprobs":[]}]`
		}, find: needle},
		{name: "text.phase", set: func(r response) { r.text().Phase = "commentary" }, find: "commentary"},
		{name: "refusal.text", set: func(r response) {
			r.Choices[0].Blocks = []llm.Block{&llm.Refusal{Text: needle}}
		}, find: needle},
		{name: "refusal.logprobs", base: withRefusal, set: func(r response) {
			r.block().(*llm.Refusal).Logprobs = `[{"token":"n33dle","logprob":-0.5,"bytes":null,"top_logprobs":[]}]`
		}, find: needle},
		{name: "block.id", set: func(r response) { r.text().ID = "msg_" + needle }, find: needle},
		{name: "block.cache cache_mark.ttl .ext", set: func(r response) { r.text().Cache = &llm.CacheMark{TTL: "5m"} }},
		{name: "block.ext: of the same protocol", set: func(r response) { r.text().Ext = member(r.own) }, find: needle},
		{name: "block.ext: of another protocol", set: func(r response) { r.text().Ext = member(r.other) }},
		{name: "thought.parts.text", set: appendBlock(&llm.Thought{Parts: parts(llm.FullReasoning)}), find: needle},
		{name: "thought.parts.form", base: withThought, set: func(r response) {
			r.block().(*llm.Thought).Parts[0].Form = llm.SummaryReasoning
		}},
		{name: "thought block.seals seal.form .data .origin: of the same protocol", base: withThought, set: func(r response) {
			r.block().Common().Seals = seal(nativeForm(r.own), r.own)
		}, find: needle},
		{name: "thought block.seals seal.form .data .origin: redacted by Anthropic", set: func(r response) {
			r.insert(0, &llm.Thought{Meta: llm.Meta{Seals: seal(llm.Redacted, string(protocol.Anthropic))}})
		}},
		{name: "thought block.seals seal.form .data .origin: of another protocol", base: withThought, set: func(r response) {
			r.block().Common().Seals = seal(llm.Signature, r.other)
		}},
		{name: "seal.id: of OpenAI", base: withThought, set: func(r response) {
			r.block().Common().Seals = []llm.Seal{{Form: llm.Encrypted, Data: "x", Origin: string(protocol.OpenAIResponses), ID: "rs_" + needle}}
		}},
		{name: "tool_call block.seals seal.form .data .origin: of another protocol", base: withCall, set: func(r response) { r.call().Seals = seal(llm.Signature, r.other) }},
		{name: "text block.seals seal.form .data .origin: of another protocol", set: func(r response) { r.text().Seals = seal(llm.Signature, r.other) }},
		{name: "media.kind .mime .data: image", set: appendBlock(png()), find: pngData},
		{name: "media.kind .mime .data: audio, video or file", set: appendBlock(&llm.Media{Kind: llm.Audio, MIME: "audio/wav", Data: needle}), find: needle},
		{name: "media.url .file_id", set: appendBlock(&llm.Media{Kind: llm.Image, MIME: "image/png", URL: "https://example.com/" + needle}), find: needle},
		{name: "media.text .name .title .context .detail", set: appendBlock(&llm.Media{
			Kind: llm.File, MIME: "text/plain", Text: needle, Name: needle, Title: needle, Context: needle, Detail: needle})},
		{name: "tool_call.call_id", base: withCall, set: func(r response) { r.call().CallID = needle }, find: needle},
		{name: "tool_call.synthetic", base: withCall, set: func(r response) { r.call().Synthetic = true }},
		{name: "tool_call.kind: custom", base: withCall, set: func(r response) { r.call().Kind, r.call().Args = llm.CustomTool, needle }, find: needle},
		{name: "tool_call.kind: search", base: withCall, set: func(r response) { r.call().Kind, r.call().Args = llm.SearchTool, `{"query":"n33dle"}` }, find: needle},
		{name: "tool_call.name", base: withCall, set: func(r response) { r.call().Name = needle }, find: needle},
		{name: "tool_call.namespace", base: withCall, set: func(r response) { r.call().Namespace = needle }, find: needle},
		{name: "tool_call.args: an object", base: withCall, set: func(r response) { r.call().Args = `{"a":1.10}` }, find: "1.10"},
		{name: "tool_call.args: no object", base: withCall, set: func(r response) { r.call().Args = `n33dle{` }, find: needle},
		{name: "tool_call: a second call for a client of the deprecated functions", base: withCall, set: appendBlock(
			&llm.ToolCall{CallID: "call_2", Kind: llm.FunctionTool, Name: "g", Args: "{}"},
		), find: `"g"`, request: func(r request) {
			withTool(r)
			r.Tools[0].Ext = llm.Ext{Protocol: "openai-chat", Members: []llm.Member{{Name: codec.MarkPrefix + "functions", Value: "true"}}}
		}},
		{name: "server_call.protocol .type .raw: of the same protocol", set: raw(served, own), find: needle},
		{name: "server_call.protocol .type .raw .digest: of another protocol", set: raw(served, other)},
		{name: "opaque.protocol .type .raw: of the same protocol", set: raw(opaque, own), find: needle},
		{name: "opaque.protocol .type .raw: of another protocol", set: raw(opaque, other)},
	}
}

func stopSamples() []responseSample {
	var list []responseSample
	for _, k := range []llm.StopKind{llm.StopSequence, llm.MaxTokens, llm.ContextWindow, llm.Refused, llm.ContentFilter,
		llm.Malformed, llm.Pause, llm.Other} {
		list = append(list, responseSample{name: "choices.stop.kind: " + string(k), set: stop(llm.Stop{Kind: k})})
	}
	return append(list, []responseSample{
		{name: "choices.stop.kind: end_turn", base: stop(llm.Stop{Kind: llm.MaxTokens}), set: stop(llm.Stop{Kind: llm.EndTurn})},
		{name: "choices.stop.kind: " + string(llm.ToolUse), set: withCall},
		{name: "choices.stop.kind: refusal, with the refusal's words", set: func(r response) {
			withRefusal(r)
			withRefusedStop(r)
		}},
		{name: "choices.stop.kind: " + string(llm.PromptBlocked), set: func(r response) {
			r.Choices[0] = llm.Choice{Stop: llm.Stop{Kind: llm.PromptBlocked}}
		}},
		{name: "choices.stop.matched", set: stop(llm.Stop{Kind: llm.StopSequence, Matched: needle}), find: needle},
		{name: "choices.stop.category", base: withRefusedStop, set: func(r response) { r.Choices[0].Stop.Category = needle }, find: needle},
		{name: "choices.stop.explanation", base: withRefusedStop, set: func(r response) { r.Choices[0].Stop.Explanation = needle }, find: needle},
		{name: "choices.stop.raw", set: stop(llm.Stop{Kind: llm.Other, Raw: "odd"}), find: "odd"},
	}...)
}
