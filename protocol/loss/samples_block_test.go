package loss

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func seal(form llm.SealForm, origin string) []llm.Seal {
	return []llm.Seal{{Form: form, Data: aNeedle, Origin: origin}}
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
	sealedThought := func(form llm.SealForm, whose func(scene) string) func(*llm.Request, scene) {
		return func(r *llm.Request, s scene) {
			thought(r, &llm.Thought{Meta: llm.Meta{Seals: seal(form, whose(s))}, Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "hm"}}})
		}
	}
	sealedCall := func(whose func(scene) string) func(*llm.Request, scene) {
		return func(r *llm.Request, s scene) { call(r).Seals = seal(llm.Signature, whose(s)) }
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
		{fields: "text.citations citation.start citation.end citation.url citation.title citation.file_id citation.quote citation.protocol citation.raw",
			when: "of the same protocol", base: dialogue, set: cite(own), find: aNeedle},
		{fields: "text.citations citation.start citation.end citation.url citation.title citation.file_id citation.quote citation.protocol citation.raw",
			when: "of another protocol", base: dialogue, set: cite(other), find: aNeedle},
		{fields: "text.citations", when: "on the user's text, 2026-10-21", set: func(r *llm.Request, s scene) {
			said(r).Citations = []llm.Citation{{Protocol: s.own, Raw: `{"type":"char_location"}`}}
		}, version: "2026-10-21"},
		{fields: "text.logprobs refusal.logprobs", base: dialogue, set: func(r *llm.Request, _ scene) {
			answered(r).Logprobs = `[{"token":"hi","logprob":-0.5,"bytes":null,"top_logprobs":[]}]`
		}},
		{fields: "text.phase", base: dialogue, set: func(r *llm.Request, _ scene) { answered(r).Phase = "commentary" }, find: "commentary"},
		{fields: "refusal.text", base: dialogue, set: func(r *llm.Request, _ scene) {
			r.Turns[1].Blocks = []llm.Block{&llm.Refusal{Text: aNeedle}}
		}, find: aNeedle},

		{fields: "block.id", base: dialogue, set: func(r *llm.Request, _ scene) { answered(r).ID = "msg_" + aNeedle }},
		{fields: "block.cache cache_mark.ttl", when: "5m or 1h", set: mark("1h"), find: "1h"},
		{fields: "block.cache cache_mark.ttl", when: "another lifetime", set: mark("30m")},
		{fields: "block.cache cache_mark.ttl", when: "of the same protocol", base: home, set: func(r *llm.Request, s scene) {
			said(r).Cache = &llm.CacheMark{TTL: "1h", Ext: llm.Ext{Protocol: s.own, Members: []llm.Member{{Name: "prompt_cache_breakpoint", Value: `{"ttl":"1h"}`}}}}
		}, find: "1h"},
		{fields: "cache_mark.ext", when: "of another protocol", base: func(s scene) *llm.Request {
			r := hello(s)
			said(r).Cache = &llm.CacheMark{TTL: "1h"}
			return r
		}, set: func(r *llm.Request, s scene) { said(r).Cache.Ext = member(s.other) }},
		{fields: "block.ext", when: "of the same protocol", base: home, set: func(r *llm.Request, s scene) { said(r).Ext = member(s.own) }, find: aNeedle},
		{fields: "block.ext", when: "of another protocol", set: func(r *llm.Request, s scene) { said(r).Ext = member(s.other) }},

		{fields: "thought.parts.text thought.parts.form", when: "full, without a seal, of another protocol", base: dialogue, set: func(r *llm.Request, s scene) {
			thought(r, &llm.Thought{Parts: parts(llm.FullReasoning), Meta: llm.Meta{Ext: llm.Ext{Protocol: s.other}}})
		}},
		{fields: "thought.parts.text thought.parts.form", when: "summary, without a seal, of another protocol", base: dialogue, set: func(r *llm.Request, s scene) {
			thought(r, &llm.Thought{Parts: parts(llm.SummaryReasoning), Meta: llm.Meta{Ext: llm.Ext{Protocol: s.other}}})
		}},
		{fields: "thought.parts.text", when: "on a server that wants it back", base: dialogue, set: func(r *llm.Request, s scene) {
			thought(r, &llm.Thought{Parts: parts(llm.FullReasoning), Meta: llm.Meta{Ext: llm.Ext{Protocol: s.other}}})
		}, gates: gates{ReasoningHistory: "reasoning_content"}, find: aNeedle},
		{fields: "thought block.seals seal.form seal.data seal.origin", when: "signature, of the same protocol", base: dialogue, set: sealedThought(llm.Signature, own), find: aNeedle},
		{fields: "thought block.seals seal.form seal.data seal.origin", when: "encrypted, of the same protocol", base: dialogue, set: sealedThought(llm.Encrypted, own), find: aNeedle},
		{fields: "thought block.seals seal.form seal.data seal.origin", when: "redacted, of the same protocol", base: dialogue, set: sealedThought(llm.Redacted, own), find: aNeedle},
		{fields: "thought block.seals seal.form seal.data seal.origin", when: "of another protocol", base: dialogue, set: sealedThought(llm.Signature, other)},
		{fields: "tool_call block.seals seal.form seal.data seal.origin", when: "of the same protocol", base: working, set: sealedCall(own), find: aNeedle},
		{fields: "tool_call block.seals seal.form seal.data seal.origin", when: "of another protocol", base: working, set: sealedCall(other), find: aNeedle},
		{fields: "tool_call block.seals", when: "none, on a model that wants one", base: dialogue, set: func(r *llm.Request, _ scene) {
			r.Turns[1].Blocks = append(r.Turns[1].Blocks, &llm.ToolCall{CallID: "c", Kind: llm.FunctionTool, Name: "f", Args: "{}"})
			r.Turns[2] = llm.Turn{Role: llm.ToolRole, Blocks: []llm.Block{&llm.ToolResult{CallID: "c", Blocks: text("r")}}}
			r.Tools = []llm.Tool{{Kind: llm.FunctionTool, Name: "f"}}
		}, model: "gemini-3-pro"},
		{fields: "text block.seals seal.form seal.data seal.origin", when: "of the same protocol", base: dialogue, set: func(r *llm.Request, s scene) {
			answered(r).Seals = seal(llm.Signature, s.own)
		}, find: aNeedle},
		{fields: "text block.seals seal.form seal.data seal.origin", when: "of another protocol", base: dialogue, set: func(r *llm.Request, s scene) {
			answered(r).Seals = seal(llm.Signature, s.other)
		}, find: aNeedle},

		{fields: "server_call.protocol server_call.type server_call.raw", when: "of the same protocol", base: dialogue, set: served(own, "[search]"), find: aNeedle},
		{fields: "server_call.digest", when: "of another protocol", base: dialogue, set: served(other, aNeedle+" digest"), find: aNeedle + " digest"},
		{fields: "server_call.raw", when: "of another protocol, without a digest", base: dialogue, set: served(other, "")},
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
