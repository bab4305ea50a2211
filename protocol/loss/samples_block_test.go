package loss

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func seal(form llm.SealForm, origin string) []llm.Seal {
	return []llm.Seal{{Form: form, Data: aNeedle, Origin: origin}}
}

// seals are the fields of a block's seals.
const seals = "block.seals seal.form seal.data seal.origin"

func sealedThought(form llm.SealForm, origin string) *llm.Thought {
	return &llm.Thought{Meta: llm.Meta{Seals: seal(form, origin)}, Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "hm"}}}
}

// ownThought is reasoning as the target itself has made it.
func ownThought(r *llm.Request, s scene) {
	t := sealedThought(nativeForm(s.own), s.own)
	if s.own == string(protocol.OpenAIChat) { // it has no seals, but members
		t.Seals = nil
		t.Ext = llm.Ext{Protocol: s.own, Members: []llm.Member{{Name: protocol.MarkPrefix + "reasoning_content", Value: `"n33dle"`}}}
	}
	thought(r, t)
}

func nativeForm(protocolName string) llm.SealForm {
	if protocolName == string(protocol.OpenAIResponses) {
		return llm.Encrypted
	}
	return llm.Signature
}

// thought is an earlier answer's reasoning before its text.
func thought(r *llm.Request, t *llm.Thought) {
	r.Turns[1].Blocks = append([]llm.Block{t}, r.Turns[1].Blocks...)
}

func parts(form string) []llm.ThoughtPart { return []llm.ThoughtPart{{Form: form, Text: aNeedle}} }

func blockSamples() []sample {
	own := func(s scene) string { return s.own }
	other := func(s scene) string { return s.other }
	mark := func(ttl string) func(*llm.Request, scene) {
		return func(r *llm.Request, _ scene) { said(r).Cache = &llm.CacheMark{TTL: ttl} }
	}
	cite := func(whose func(scene) string) func(*llm.Request, scene) {
		return func(r *llm.Request, s scene) {
			answered(r).Citations = []llm.Citation{{End: 2, URL: "https://example.com/" + aNeedle, Title: "t", FileID: "file-1", Quote: "hi",
				Protocol: whose(s), Raw: `{"type":"web_search_result_location","url":"` + aNeedle + `"}`}}
		}
	}
	served := func(whose func(scene) string, digest string) func(*llm.Request, scene) {
		return func(r *llm.Request, s scene) {
			r.Turns[1].Blocks = append(r.Turns[1].Blocks, &llm.ServerCall{Protocol: whose(s), Type: "web_search_call", Digest: digest,
				Raw: llm.Raw(`{"type":"web_search_call","id":"ws_1","toolCall":{"id":"` + aNeedle + `"}}`)})
		}
	}
	opaque := func(turn int, whose func(scene) string) func(*llm.Request, scene) {
		return func(r *llm.Request, s scene) {
			r.Turns[turn].Blocks = append(r.Turns[turn].Blocks, &llm.Opaque{Protocol: whose(s), Type: "odd", Raw: llm.Raw(`{"type":"odd","odd":"` + aNeedle + `"}`)})
		}
	}
	return []sample{
		{fields: "text.text", set: func(r *llm.Request, _ scene) { said(r).Text = aNeedle }, find: aNeedle},
		{fields: "text.text", when: "empty, of the assistant beside a call", base: working, set: func(r *llm.Request, _ scene) {
			r.Turns[1].Blocks = append(text(""), r.Turns[1].Blocks...)
		}},
		{fields: citations,
			when: "of the same protocol", base: dialogue, set: cite(own), find: aNeedle},
		{fields: citations,
			when: "of another protocol", base: dialogue, set: cite(other), find: aNeedle},
		{fields: "text.citations", when: "on the user's text, 2026-10-21", set: func(r *llm.Request, s scene) {
			said(r).Citations = []llm.Citation{{Protocol: s.own, Raw: `{"type":"n33dle"}`}}
		}, find: aNeedle, version: "2026-10-21"},
		{fields: "text.logprobs refusal.logprobs", base: dialogue, set: func(r *llm.Request, _ scene) {
			answered(r).Logprobs = `[{"token":"hi","logprob":-0.5,"bytes":null,"top_logprobs":[]}]`
		}},
		{fields: "text.phase", base: dialogue, set: func(r *llm.Request, _ scene) { answered(r).Phase = "commentary" }, find: "commentary"},
		{fields: "refusal.text", base: dialogue, set: func(r *llm.Request, _ scene) {
			r.Turns[1].Blocks = []llm.Block{&llm.Refusal{Text: aNeedle}}
		}, find: aNeedle},

		{fields: "block.id", base: dialogue, set: func(r *llm.Request, _ scene) { answered(r).ID = "msg_" + aNeedle }},
		{fields: "block.cache cache_mark.ttl", when: "5m or 1h", set: mark("1h"), find: "1h"},
		{fields: "block.cache cache_mark.ttl", when: "another lifetime", set: mark("30m"), find: "30m"},
		{fields: "block.cache cache_mark.ttl", when: "of the same protocol", base: home, set: func(r *llm.Request, s scene) {
			said(r).Cache = &llm.CacheMark{TTL: "1h", Ext: llm.Ext{Protocol: s.own, Members: []llm.Member{{Name: "prompt_cache_breakpoint", Value: `{"ttl":"1h"}`}}}}
		}, find: "1h"},
		{fields: "cache_mark.ext", when: "of another protocol", set: func(r *llm.Request, s scene) {
			said(r).Cache = &llm.CacheMark{TTL: "1h", Ext: member(s.other)}
		}, find: aNeedle},
		{fields: "block.ext", when: "of the same protocol", base: func(s scene) *llm.Request {
			r := home(s)
			r.Turns[0].List = true
			return r
		}, set: func(r *llm.Request, s scene) { said(r).Ext = member(s.own) }, find: aNeedle},
		{fields: "block.ext", when: "of another protocol", set: func(r *llm.Request, s scene) { said(r).Ext = member(s.other) }},

		{fields: "thought.parts.text thought.parts.form", when: "without a seal, of another protocol", base: dialogue, set: func(r *llm.Request, s scene) {
			thought(r, &llm.Thought{Parts: parts(llm.FullReasoning), Meta: llm.Meta{Ext: llm.Ext{Protocol: s.other}}})
		}, find: aNeedle},
		{fields: "thought.parts.text", when: "on a server that wants it back", base: dialogue, set: func(r *llm.Request, s scene) {
			thought(r, &llm.Thought{Parts: parts(llm.FullReasoning), Meta: llm.Meta{Ext: llm.Ext{Protocol: s.other}}})
		}, gates: gates{ReasoningHistory: "reasoning_content"}, find: aNeedle},
		{fields: "thought " + seals, when: "of the same protocol", base: dialogue, set: ownThought, find: aNeedle},
		{fields: "thought " + seals, when: "of another protocol", base: dialogue, set: func(r *llm.Request, s scene) {
			thought(r, sealedThought(llm.Signature, s.other))
		}, find: aNeedle},
		{fields: "thought " + seals, when: "redacted by Anthropic", base: dialogue, set: func(r *llm.Request, _ scene) {
			thought(r, &llm.Thought{Meta: llm.Meta{Seals: seal(llm.Redacted, string(protocol.Anthropic))}})
		}, find: aNeedle},
		{fields: "tool_call " + seals, when: "of Gemini", base: working, set: func(r *llm.Request, _ scene) {
			call(r).Seals = seal(llm.Signature, string(protocol.Gemini))
		}, find: aNeedle},
		{fields: "tool_call block.seals", when: "none, on a Gemini model of the third generation", base: working,
			set: func(r *llm.Request, _ scene) { r.Model = "gemini-3-pro" }},
		{fields: "text " + seals, when: "of Gemini", base: dialogue, set: func(r *llm.Request, _ scene) {
			answered(r).Seals = seal(llm.Signature, string(protocol.Gemini))
		}, find: aNeedle},
		{fields: "thought", when: "in the user's turn", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Thought{Parts: parts(llm.FullReasoning)})
		}, find: aNeedle},

		{fields: "server_call.protocol server_call.type server_call.raw", when: "of the same protocol", base: dialogue, set: served(own, "[search]"), find: aNeedle},
		{fields: "server_call.digest", when: "of another protocol", base: dialogue, set: served(other, aNeedle+" digest"), find: aNeedle + " digest"},
		{fields: "server_call.raw", when: "of another protocol, without a digest", base: dialogue, set: served(other, ""), find: aNeedle},
		{fields: "opaque.protocol opaque.type opaque.raw", when: "of the same protocol", base: home, set: opaque(0, own), find: aNeedle},
		{fields: "opaque.protocol opaque.type opaque.raw", when: "of another protocol, in the user's turn", base: dialogue, set: opaque(0, other)},
		{fields: "opaque.protocol opaque.type opaque.raw", when: "of another protocol, in the assistant's turn", base: dialogue, set: opaque(1, other)},
	}
}

func mediaSamples() []sample {
	return []sample{
		{fields: "media.kind media.mime media.data", when: "image", set: func(r *llm.Request, _ scene) { add(r, picture()) }, find: aPicture},
		{fields: "media.mime", when: "an image with a wrong label", set: func(r *llm.Request, _ scene) {
			m := picture()
			m.MIME = "image/jpeg"
			add(r, m)
		}},
		{fields: "media.mime", when: "an image that is neither JPEG, PNG, GIF nor WebP", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.Image, MIME: "image/heic", Data: "AAAA"})
		}, find: "AAAA"},
		{fields: "media.mime", when: "unset", set: func(r *llm.Request, _ scene) {
			m := picture()
			m.MIME = ""
			add(r, m)
		}, find: aPicture},
		{fields: "media.url", when: "of an image", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.Image, URL: "https://example.com/" + aNeedle})
		}, find: aNeedle},
		{fields: "media.url", when: "of an image, other than http", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.Image, URL: "gs://bucket/" + aNeedle})
		}, find: aNeedle},
		{fields: "media.url", when: "of a document", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.File, URL: "https://example.com/" + aNeedle})
		}, find: aNeedle},
		{fields: "media.file_id", when: "of the same vendor", base: home, set: func(r *llm.Request, s scene) {
			add(r, &llm.Media{Meta: llm.Meta{Ext: llm.Ext{Protocol: s.own}}, Kind: llm.File, FileID: aNeedle})
		}, find: aNeedle},
		{fields: "media.file_id", when: "of another vendor", set: func(r *llm.Request, s scene) {
			add(r, &llm.Media{Meta: llm.Meta{Ext: llm.Ext{Protocol: s.other}}, Kind: llm.File, FileID: aNeedle})
		}},
		{fields: "media.data media.mime", when: "PDF", set: func(r *llm.Request, _ scene) { add(r, document()) }, find: aPDF},
		{fields: "media.data media.mime", when: "a document of another type", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.File, MIME: "application/zip", Data: "AAAA"})
		}, find: "AAAA"},
		{fields: "media.text", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.File, MIME: "text/plain", Text: aNeedle})
		}, find: aNeedle},
		{fields: "media.name", base: with(document()), set: func(r *llm.Request, _ scene) { medium(r).Name = aNeedle }, find: aNeedle},
		{fields: "media.title", base: with(document()), set: func(r *llm.Request, _ scene) { medium(r).Title = aNeedle }, find: aNeedle},
		{fields: "media.context", base: with(document()), set: func(r *llm.Request, _ scene) { medium(r).Context = aNeedle }, find: aNeedle},
		{fields: "media.detail", base: with(picture()), set: func(r *llm.Request, _ scene) { medium(r).Detail = "low" }, find: "low"},
		{fields: "media.kind", when: "audio, WAV or MP3", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.Audio, MIME: "audio/wav", Data: aNeedle})
		}, find: aNeedle},
		{fields: "media.kind", when: "audio of another type", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.Audio, MIME: "audio/ogg", Data: aNeedle})
		}, find: aNeedle},
		{fields: "media.kind", when: "video", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.Video, MIME: "video/mp4", Data: aNeedle})
		}, find: aNeedle},
		{fields: "media", when: "empty", set: func(r *llm.Request, _ scene) { add(r, &llm.Media{Kind: llm.Image}) }},
		{fields: "media", when: "text data that is not base64", set: func(r *llm.Request, _ scene) {
			add(r, &llm.Media{Kind: llm.File, MIME: "text/plain", Data: "*"})
		}, find: "*"},
		{fields: "media", when: "in the assistant's turn", base: dialogue, set: func(r *llm.Request, _ scene) {
			r.Turns[1].Blocks = append(r.Turns[1].Blocks, picture())
		}, find: aPicture},
		{fields: "media", when: "in system text", set: func(r *llm.Request, _ scene) {
			r.Turns = append([]llm.Turn{{Role: llm.System, Blocks: []llm.Block{picture()}}}, r.Turns...)
		}, find: aPicture},
	}
}

type gates = protocol.Gates
