package all_test

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// seal returns seals that contain the needle.
func seal(form llm.SealForm, origin string) []llm.Seal {
	return []llm.Seal{{Form: form, Data: needle, Origin: origin}}
}

func sealedThought(form llm.SealForm, origin string) *llm.Thought {
	return &llm.Thought{Meta: llm.Meta{Seals: seal(form, origin)}, Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "hm"}}}
}

// addOwnThought adds reasoning that is sealed by the target's vendor.
func addOwnThought(r request) {
	t := sealedThought(nativeForm(r.own), r.own)
	if r.own == string(protocol.OpenAIChat) { // it has no seals, but members
		t.Seals = nil
		t.Ext = llm.Ext{Protocol: r.own, Members: []llm.Member{{Name: codec.MarkPrefix + "reasoning_content", Value: `"n33dle"`}}}
	}
	addThought(t)(r)
}

// addForeignThought adds reasoning of the client's protocol, without a seal.
func addForeignThought(r request) {
	addThought(&llm.Thought{Parts: parts(llm.FullReasoning), Meta: llm.Meta{Ext: llm.Ext{Protocol: r.other}}})(r)
}

// nativeForm returns the form of the seals that a protocol has.
func nativeForm(protocolName string) llm.SealForm {
	if protocolName == string(protocol.OpenAIResponses) {
		return llm.Encrypted
	}
	return llm.Signature
}

// addThought returns an edit that puts reasoning at the beginning of an earlier response.
func addThought(t *llm.Thought) requestEdit {
	return func(r request) { r.Turns[1].Blocks = slices.Insert(r.Turns[1].Blocks, 0, llm.Block(t)) }
}

func parts(form string) []llm.ThoughtPart { return []llm.ThoughtPart{{Form: form, Text: needle}} }

func textSamples() []requestSample {
	mark := func(ttl string) requestEdit {
		return func(r request) { r.userText().Cache = &llm.CacheMark{TTL: ttl} }
	}
	cite := func(from origin) requestEdit {
		return func(r request) {
			r.earlierText().Citations = []llm.Citation{{End: 2, URL: "https://example.com/" + needle, Title: "t", FileID: "file-1", Quote: "hi",
				Protocol: r.from(from), Raw: `{"type":"web_search_result_location","url":"` + needle + `"}`}}
		}
	}
	return []requestSample{
		{name: "text.text", set: func(r request) { r.userText().Text = needle }, find: needle},
		{name: "text.text: empty, of the assistant beside a call", base: withToolResult, set: func(r request) {
			r.Turns[1].Blocks = append(text(""), r.Turns[1].Blocks...)
		}},
		{name: "text.citations citation.start .end .url .title .file_id .quote .protocol .raw: of the same protocol", base: withHistory, set: cite(own), find: needle},
		{name: "text.citations citation.start .end .url .title .file_id .quote .protocol .raw: of another protocol", base: withHistory, set: cite(other), find: needle},
		{name: "text.citations: on the user's text, 2026-10-21", set: func(r request) {
			r.userText().Citations = []llm.Citation{{Protocol: r.own, Raw: `{"type":"n33dle"}`}}
		}, find: needle, versions: map[protocol.Name]string{protocol.Anthropic: "2026-10-21"}},
		{name: "text.logprobs refusal.logprobs", base: withHistory, set: func(r request) {
			r.earlierText().Logprobs = `[{"token":"hi","logprob":-0.5,"bytes":null,"top_logprobs":[]}]`
		}},
		{name: "text.phase", base: withHistory, set: func(r request) { r.earlierText().Phase = "commentary" }, find: "commentary"},
		{name: "refusal.text", base: withHistory, set: func(r request) {
			r.Turns[1].Blocks = []llm.Block{&llm.Refusal{Text: needle}}
		}, find: needle},

		{name: "block.id", base: withHistory, set: func(r request) { r.earlierText().ID = "msg_" + needle }},
		{name: "block.cache cache_mark.ttl: 5m or 1h", set: mark("1h"), find: "1h"},
		{name: "block.cache cache_mark.ttl: another lifetime", set: mark("30m"), find: "30m"},
		{name: "block.cache cache_mark.ttl: of the same protocol", base: sameProtocol, set: func(r request) {
			r.userText().Cache = &llm.CacheMark{TTL: "1h", Ext: llm.Ext{Protocol: r.own, Members: []llm.Member{{Name: "prompt_cache_breakpoint", Value: `{"ttl":"1h"}`}}}}
		}, find: "1h"},
		{name: "cache_mark.ext: of another protocol", set: func(r request) {
			r.userText().Cache = &llm.CacheMark{TTL: "1h", Ext: member(r.other)}
		}, find: needle},
		{name: "block.ext: of the same protocol", base: edits(sameProtocol, func(r request) { r.Turns[0].List = true }), set: func(r request) { r.userText().Ext = member(r.own) }, find: needle},
		{name: "block.ext: of another protocol", set: func(r request) { r.userText().Ext = member(r.other) }},
	}
}

func thoughtSamples() []requestSample {
	return []requestSample{
		{name: "thought.parts.text .parts.form: without a seal, of another protocol", base: withHistory, set: addForeignThought, find: needle},
		{name: "thought.parts.text: on a server that wants it back", base: withHistory, set: addForeignThought, gates: gates{ReasoningHistory: "reasoning_content"}, find: needle},
		{name: "thought block.seals seal.form .data .origin: of the same protocol", base: withHistory, set: addOwnThought, find: needle},
		{name: "thought block.seals seal.form .data .origin: of another protocol", base: withHistory, set: func(r request) { addThought(sealedThought(llm.Signature, r.other))(r) }, find: needle},
		{name: "thought block.seals seal.form .data .origin: redacted by Anthropic", base: withHistory, set: addThought(&llm.Thought{Meta: llm.Meta{Seals: seal(llm.Redacted, string(protocol.Anthropic))}}), find: needle},
		{name: "seal.id: of OpenAI", base: withHistory, set: addThought(&llm.Thought{Meta: llm.Meta{
			Seals: []llm.Seal{{Form: llm.Encrypted, Data: "x", Origin: string(protocol.OpenAIResponses), ID: "rs_" + needle}},
		}}), find: "rs_" + needle},
		{name: "tool_call block.seals seal.form .data .origin: of Gemini", base: withToolResult, set: func(r request) { r.call().Seals = seal(llm.Signature, string(protocol.Gemini)) }, find: needle},
		{name: "tool_call block.seals: none, on a Gemini model of the third generation", base: withToolResult,
			set: func(r request) { r.Model = "gemini-3-pro" }},
		{name: "tool_call block.seals seal.form .data .origin: of Gemini, on a model that reads extra_content", base: withToolResult, set: func(r request) { r.call().Seals = seal(llm.Signature, string(protocol.Gemini)) }, find: needle,
			gates: gates{Carrier: true}},
		{name: "text block.seals seal.form .data .origin: of Gemini", base: withHistory, set: func(r request) { r.earlierText().Seals = seal(llm.Signature, string(protocol.Gemini)) }, find: needle},
		{name: "thought: in the user's turn", set: addBlock(0, &llm.Thought{Parts: parts(llm.FullReasoning)}), find: needle},
	}
}

func vendorBlockSamples() []requestSample {
	served := func(from origin, digest string) requestEdit {
		return func(r request) {
			r.Turns[1].Blocks = append(r.Turns[1].Blocks, &llm.ServerCall{Protocol: r.from(from), Type: "web_search_call", Digest: digest,
				Raw: llm.Raw(`{"type":"web_search_call","id":"ws_1","toolCall":{"id":"` + needle + `"}}`)})
		}
	}
	opaque := func(turn int, from origin) requestEdit {
		return func(r request) {
			r.Turns[turn].Blocks = append(r.Turns[turn].Blocks, &llm.Opaque{Protocol: r.from(from), Type: "odd", Raw: llm.Raw(`{"type":"odd","x_odd":"` + needle + `"}`)})
		}
	}
	return []requestSample{
		{name: "server_call.protocol .type .raw: of the same protocol", base: withHistory, set: served(own, "[search]"), find: needle},
		{name: "server_call.digest: of another protocol", base: withHistory, set: served(other, needle+" digest"), find: needle + " digest"},
		{name: "server_call.raw: of another protocol, without a digest", base: withHistory, set: served(other, ""), find: needle},
		{name: "opaque.protocol .type .raw: of the same protocol", base: sameProtocol, set: opaque(0, own), find: needle},
		{name: "opaque.protocol .type .raw: of another protocol, in the user's turn", base: withHistory, set: opaque(0, other)},
		{name: "opaque.protocol .type .raw: of another protocol, in the assistant's turn", base: withHistory, set: opaque(1, other)},
	}
}

func mediaSamples() []requestSample {
	uploaded := func(to origin) requestEdit {
		return func(r request) {
			addBlock(0, &llm.Media{Meta: llm.Meta{Ext: llm.Ext{Protocol: r.from(to)}}, Kind: llm.File, FileID: needle})(r)
		}
	}
	return []requestSample{
		{name: "media.kind .mime .data: image", set: addBlock(0, png()), find: pngData},
		{name: "media.mime: an image with a wrong label", set: addBlock(0, &llm.Media{Kind: llm.Image, MIME: "image/jpeg", Data: pngData})},
		{name: "media.mime: an image that is neither JPEG, PNG, GIF nor WebP", set: addBlock(0, &llm.Media{Kind: llm.Image, MIME: "image/heic", Data: "AAAA"}), find: "AAAA"},
		{name: "media.mime: unset", set: addBlock(0, &llm.Media{Kind: llm.Image, Data: pngData}), find: pngData},
		{name: "media.url: of an image", set: addBlock(0, &llm.Media{Kind: llm.Image, URL: "https://example.com/" + needle}), find: needle},
		{name: "media.url: of an image, other than http", set: addBlock(0, &llm.Media{Kind: llm.Image, URL: "gs://bucket/" + needle}), find: needle},
		{name: "media.url: of a document", set: addBlock(0, &llm.Media{Kind: llm.File, URL: "https://example.com/" + needle}), find: needle},
		{name: "media.file_id: of the same vendor", base: sameProtocol, set: uploaded(own), find: needle},
		{name: "media.file_id: of another vendor", set: uploaded(other)},
		{name: "media.data .mime: PDF", set: addBlock(0, pdf()), find: pdfData},
		{name: "media.data .mime: a document of another type", set: addBlock(0, &llm.Media{Kind: llm.File, MIME: "application/zip", Data: "AAAA"}), find: "AAAA"},
		{name: "media.text", set: addBlock(0, &llm.Media{Kind: llm.File, MIME: "text/plain", Text: needle}), find: needle},
		{name: "media.name", base: addBlock(0, pdf()), set: func(r request) { r.userMedia().Name = needle }, find: needle},
		{name: "media.name: with other signs", base: addBlock(0, pdf()), set: func(r request) { r.userMedia().Name = needle + ".pdf" }, find: needle},
		{name: "media.title", base: addBlock(0, pdf()), set: func(r request) { r.userMedia().Title = needle }, find: needle},
		{name: "media.context", base: addBlock(0, pdf()), set: func(r request) { r.userMedia().Context = needle }, find: needle},
		{name: "media.detail", base: addBlock(0, png()), set: func(r request) { r.userMedia().Detail = "low" }, find: "low"},
		{name: "media.kind: audio, WAV or MP3", set: addBlock(0, &llm.Media{Kind: llm.Audio, MIME: "audio/wav", Data: needle}), find: needle},
		{name: "media.kind: audio of another type", set: addBlock(0, &llm.Media{Kind: llm.Audio, MIME: "audio/ogg", Data: needle}), find: needle},
		{name: "media.kind: video", set: addBlock(0, &llm.Media{Kind: llm.Video, MIME: "video/mp4", Data: needle}), find: needle},
		{name: "media: empty", set: addBlock(0, &llm.Media{Kind: llm.Image})},
		{name: "media: a document without text beside it", set: func(r request) { r.Turns[0].Blocks = []llm.Block{pdf()} }, find: pdfData},
		{name: "media: text data that is not base64", set: addBlock(0, &llm.Media{Kind: llm.File, MIME: "text/plain", Data: "*"}), find: "*"},
		{name: "media: in the assistant's turn", base: withHistory, set: addBlock(1, png()), find: pngData},
		{name: "media: in system text", set: insertTurn(0, llm.System, []llm.Block{png()}), find: pngData},
	}
}

type gates = protocol.Gates
