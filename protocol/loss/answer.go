package loss

func answerTopics() []topic {
	return []topic{
		{"The answer itself", Response, "What stands at the top of an answer.", envelopeEntries()},
		{"What the answer says", Response, "Text, its sources and its refusals.", spokenEntries()},
		{"Reasoning and seals", Response, "Reasoning is shown to every client, and seals travel with it, for the client to send back.", shownEntries()},
		{"Media, calls and other blocks", Response, "Everything in an answer that is not text.", answerBlockEntries()},
		{"Why it ended", Response, "Stop reasons.", stopEntries()},
		{"Token counts", Response, "Classes of tokens are disjoint in the neutral model; protocols count some of them twice.", usageEntries()},
	}
}

func envelopeEntries() []entry {
	return []entry{
		{"id", "", exact("id"), renamed("id", "an id of OpenAI's form is made of it"), exact("id"), renamed("responseId", "")},
		{"model", "", exact("model"), exact("model"), exact("model"), renamed("modelVersion", "")},
		{"created", "", exact("created"), renamed("created_at", ""), form("the header Date says it"), renamed("createTime", "")},
		{"tier", "default, priority", exact("service_tier"), exact("service_tier"), exact("usage.service_tier"), dropped("tier.unsupported", noMember)},
		{"tier", "another word", exact("service_tier"), exact("service_tier"), near("tier.mapped", "usage.service_tier", "standard"), dropped("tier.unsupported", noMember)},
		{"ext", "of the same protocol", exact("x_odd"), exact("x_odd"), exact("x_odd"), exact("x_odd")},
		{"ext", "of another protocol", dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers)},
		{
			"choices.index", "several answers", exact("choices[].message.content"), dropped("choices.dropped", "the first only"),
			dropped("choices.dropped", "the first only"), exact("candidates[].content.parts[].text"),
		},
		{"choices.ext", "of the same protocol", exact("choices[].x_odd"), form("a choice is no object; its members are the answer's"), exact("x_odd"), exact("candidates[].x_odd")},
		{"choices.ext", "of another protocol", dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers)},
	}
}

func spokenEntries() []entry {
	const (
		grounding = "candidates[].groundingMetadata"
		notes     = "choices[].message.annotations"
		foreign   = "clients can only read the vendor's own citations"
	)
	return []entry{
		{"text.text", "", exact("choices[].message.content"), exact("output[].content[].text"), exact("content[].text"), exact("candidates[].content.parts[].text")},
		{
			"text.citations citation.start citation.end citation.url citation.title", "of another protocol, with an address",
			renamed(notes, ""), renamed("output[].content[].annotations", ""), dropped("citation.foreign", foreign), renamed(grounding, "spans in bytes"),
		},
		{
			"citation.quote", "of another protocol, without an address", dropped("citation.no_url", "only addresses can be cited"),
			dropped("citation.no_url", "only addresses can be cited"), dropped("citation.foreign", foreign), renamed(grounding, "retrievedContext"),
		},
		{
			"citation.file_id", "of another protocol, without an address", dropped("citation.no_url", "only addresses can be cited"),
			dropped("citation.no_url", "only addresses can be cited"), dropped("citation.foreign", foreign), dropped("citation.no_url", "a source has an address or words"),
		},
		{
			"text.citations citation.protocol citation.raw", "of the same protocol", exact(notes),
			exact("output[].content[].annotations"), exact("content[].citations"), renamed(grounding, ""),
		},
		{
			"text.logprobs", "", renamed("choices[].logprobs.content", ""), exact("output[].content[].logprobs"), dropped("logprobs.unsupported", noMember),
			near("logprobs.form", "candidates[].logprobsResult", "without the tokens' bytes"),
		},
		{"refusal.logprobs", "", renamed("choices[].logprobs.refusal", ""), dropped("logprobs.unsupported", noMember), dropped("logprobs.unsupported", noMember), near("logprobs.form", "candidates[].logprobsResult", "without the tokens' bytes")},
		{"text.phase", "", dropped("text.phase", noMember), exact("output[].phase"), dropped("text.phase", noMember), dropped("text.phase", noMember)},
		{
			"refusal.text", "", exact("choices[].message.refusal"), exact("output[].content[].refusal"), near("refusal.as_text", "content[].text", "text"),
			near("refusal.as_text", "candidates[].content.parts[].text", "text"),
		},
		{"block.id", "", form("blocks have none"), exact("output[].id"), form("blocks have none"), form("blocks have none")},
		{
			"block.cache cache_mark.ttl cache_mark.ext", "", form("an answer has no marks"), form("an answer has no marks"),
			form("an answer has no marks"), form("an answer has no marks"),
		},
		{
			"block.ext", "of the same protocol", dropped("ext.unknown_field", "a text is no object here"), exact("output[].content[].x_odd"), exact("content[].x_odd"),
			exact("candidates[].content.parts[].x_odd"),
		},
		{"block.ext", "of another protocol", dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers)},
	}
}

func shownEntries() []entry {
	const (
		seals     = "block.seals seal.form seal.data seal.origin"
		carried   = "for the client to send back"
		signature = "candidates[].content.parts[].thoughtSignature"
		inside    = "inside, in a form of the gateway's own; " + carried
	)
	return []entry{
		{
			"thought.parts.text", "", renamed("choices[].message.reasoning_content", "the member that most servers use"), renamed("output[].summary[].text", ""),
			renamed("content[].thinking", ""), renamed("candidates[].content.parts[].text", "thought: true"),
		},
		{
			"thought.parts.form", "", near("reasoning.summary", "choices[].message.reasoning_content", "looks like the full text"), form("another vendor's reasoning is shown as a summary, word by word"),
			near("reasoning.summary", "content[].thinking", "a summary stands where all of it would"), form("what is shown is called a summary there in any case"),
		},
		{
			"thought " + seals, "of the same protocol", form("the protocol has no seals"), exact("output[].encrypted_content"), exact("content[].signature"), exact(signature),
		},
		{
			"thought " + seals, "redacted by Anthropic", renamed("choices[].message.reasoning_details[].data", carried), renamed("output[].extra_content", carried),
			exact("content[].data"), renamed(signature, inside),
		},
		{
			"thought " + seals, "of another protocol", renamed("choices[].message.reasoning_details[].signature", carried), renamed("output[].extra_content", carried),
			renamed("content[].signature", inside), renamed(signature, inside),
		},
		{
			"tool_call " + seals, "of another protocol", renamed("choices[].message.tool_calls[].extra_content", carried), renamed("output[].extra_content", carried),
			renamed("content[].extra_content", carried), renamed(signature, inside),
		},
		{
			"text " + seals, "of another protocol", renamed("choices[].message.extra_content", carried), renamed("output[].content[].extra_content", carried),
			renamed("content[].extra_content", carried), renamed(signature, inside),
		},
	}
}

func answerBlockEntries() []entry {
	const (
		call     = "candidates[].content.parts[].functionCall"
		function = "choices[].message.tool_calls[].function"
		noPlace  = "an answer has no place for it"
		unknown  = "nobody else can read it"
	)
	return []entry{
		{
			"media.kind media.mime media.data", "image", dropped("block.unknown", noPlace), renamed("output[].result", "image_generation_call"),
			near("media.unsupported", "content[].text", "a note that there was one"), exact("candidates[].content.parts[].inlineData.data"),
		},
		{
			"media.kind media.mime media.data", "audio, video or file", dropped("block.unknown", noPlace), dropped("media.unsupported", noPlace),
			near("media.unsupported", "content[].text", "a note that there was one"), exact("candidates[].content.parts[].inlineData.data"),
		},
		{
			"media.url media.file_id", "", dropped("block.unknown", noPlace), dropped("media.unsupported", noPlace),
			near("media.unsupported", "content[].text", "a note that there was one"), renamed("candidates[].content.parts[].fileData.fileUri", ""),
		},
		{
			"media.text media.name media.title media.context media.detail", "", dropped("block.unknown", noPlace), dropped("media.unsupported", noPlace),
			near("media.unsupported", "content[].text", "a note that there was one"), dropped("media.unsupported", noPlace),
		},
		{"tool_call.call_id", "", exact("choices[].message.tool_calls[].id"), exact("output[].call_id"), exact("content[].id"), exact(call + ".id")},
		{"tool_call.synthetic", "", form("the made id is sent"), form("the made id is sent"), form("the made id is sent"), form("the made id is left out")},
		{
			"tool_call.kind", "custom", exact("choices[].message.tool_calls[].custom.input"), exact("output[].input"),
			renamed("content[].input.input", "its clients declare no such tools"), renamed(call+".args.input", "its clients declare no such tools"),
		},
		{
			"tool_call.kind", "search", renamed(function+".arguments", "its clients declare no such tools"), exact("output[].arguments"),
			renamed("content[].input", "its clients declare no such tools"), renamed(call+".args", "its clients declare no such tools"),
		},
		{"tool_call.name", "", exact(function + ".name"), exact("output[].name"), exact("content[].name"), exact(call + ".name")},
		{
			"tool_call.namespace", "", form("its clients declare no namespaces"), exact("output[].namespace"),
			form("its clients declare no namespaces"), form("its clients declare no namespaces"),
		},
		{"tool_call.args", "an object", exact(function + ".arguments"), exact("output[].arguments"), renamed("content[].input", "as JSON, every digit kept"), renamed(call+".args", "as JSON, every digit kept")},
		{
			"tool_call.args", "no object", exact(function + ".arguments"), exact("output[].arguments"), near("args.wrapped", "content[].input", `in {"_raw":"…"}`),
			near("args.wrapped", call+".args", `in {"_raw":"…"}`),
		},
		{
			"tool_call", "a second call for a client of the deprecated functions", dropped("tool_call.parallel", "there is room for one"),
			form("not deprecated there"), form("not deprecated there"), form("not deprecated there"),
		},
		{
			"server_call.protocol server_call.type server_call.raw", "of the same protocol", dropped("block.unknown", noPlace), exact("output[].id"), exact("content[].id"),
			exact("candidates[].content.parts[].id"),
		},
		{
			"server_call.protocol server_call.type server_call.raw server_call.digest", "of another protocol", dropped("block.unknown", unknown),
			dropped("server_tool.dropped", unknown), dropped("server_tool.dropped", unknown), dropped("server_tool.dropped", unknown),
		},
		{
			"opaque.protocol opaque.type opaque.raw", "of the same protocol", dropped("block.unknown", noPlace), exact("output[].id"), exact("content[].id"),
			exact("candidates[].content.parts[].id"),
		},
		{
			"opaque.protocol opaque.type opaque.raw", "of another protocol", dropped("block.unknown", unknown), dropped("block.unknown", unknown),
			dropped("block.unknown", unknown), dropped("block.unknown", unknown),
		},
	}
}

func stopEntries() []entry {
	const (
		finish = "choices[].finish_reason"
		reason = "incomplete_details.reason"
		gemini = "candidates[].finishReason"
		lossy  = "stop_reason.lossy"
	)
	return []entry{
		{"choices.stop.kind", "end_turn", renamed(finish, "stop"), renamed("status", "completed"), exact("stop_reason"), renamed(gemini, "STOP")},
		{"choices.stop.kind", "tool_calls", exact(finish), form("completed, with calls"), renamed("stop_reason", "tool_use"), form("STOP, with calls")},
		{"choices.stop.kind", "max_tokens", renamed(finish, "length"), renamed(reason, "max_output_tokens"), exact("stop_reason"), exact(gemini)},
		{
			"choices.stop.kind", "context_window", near(lossy, finish, "length"), near(lossy, reason, "max_output_tokens"),
			renamed("stop_reason", "model_context_window_exceeded"), near(lossy, gemini, "MAX_TOKENS"),
		},
		{"choices.stop.kind", "stop_sequence", near(lossy, finish, "stop"), near(lossy, "status", "completed"), exact("stop_reason"), near(lossy, gemini, "STOP")},
		{
			"choices.stop.kind", "refusal", near(lossy, finish, "content_filter"), near(lossy, reason, "content_filter"), exact("stop_reason"),
			near(lossy, gemini, "SAFETY"),
		},
		{
			"choices.stop.kind", "refusal, with the refusal's words", renamed("choices[].message.refusal", "finish_reason is stop"),
			renamed("output[].content[].refusal", "status is completed"), near("refusal.as_text", "stop_reason", "the words are text"), near(lossy+" refusal.as_text", gemini, "SAFETY; the words are text"),
		},
		{"choices.stop.kind", "content_filter", exact(finish), exact(reason), near(lossy, "stop_reason", "refusal"), renamed(gemini, "SAFETY, or the source's own word")},
		{
			"choices.stop.kind", "prompt_blocked", near(lossy, finish, "content_filter"), near(lossy, reason, "content_filter"), near(lossy, "stop_reason", "refusal"),
			renamed("promptFeedback.blockReason", ""),
		},
		{
			"choices.stop.kind", "malformed_tool_call", near(lossy, finish, "stop"), near(lossy, "error.code", "failed, server_error"), near(lossy, "stop_reason", "the source's word, or end_turn"),
			renamed(gemini, "MALFORMED_FUNCTION_CALL"),
		},
		{"choices.stop.kind", "pause", near(lossy, finish, "length"), near(lossy, reason, "max_output_tokens"), renamed("stop_reason", "pause_turn"), near(lossy, gemini, "OTHER")},
		{"choices.stop.kind", "other", near(lossy, finish, "the source's word, or stop"), near(lossy, "status", "failed, or completed where the source has no word"), near(lossy, "stop_reason", "the source's word, or end_turn"), exact(gemini)},
		{"choices.stop.matched", "", near(lossy, finish, "stop"), near(lossy, "status", "completed"), renamed("stop_sequence", ""), near(lossy, gemini, "STOP")},
		{"choices.stop.category", "", dropped(lossy, noMember), dropped(lossy, noMember), exact("stop_details.category"), dropped(lossy, noMember)},
		{"choices.stop.explanation", "", dropped(lossy, noMember), dropped(lossy, noMember), exact("stop_details.explanation"), renamed("candidates[].finishMessage", "")},
		{"choices.stop.raw", "", near(lossy, finish, "the source's word"), near(lossy, "error.message", "failed; the word is in the message"), near(lossy, "stop_reason", "the source's word"), near(lossy, gemini, "OTHER")},
	}
}

func usageEntries() []entry {
	return []entry{
		{
			"usage.input", "", renamed("usage.prompt_tokens", "with what was cached"), renamed("usage.input_tokens", "with what was cached"),
			exact("usage.input_tokens"), renamed("usageMetadata.promptTokenCount", "with what was cached"),
		},
		{
			"usage.cache_read", "", renamed("usage.prompt_tokens_details.cached_tokens", ""), renamed("usage.input_tokens_details.cached_tokens", ""),
			renamed("usage.cache_read_input_tokens", ""), renamed("usageMetadata.cachedContentTokenCount", ""),
		},
		{
			"usage.cache_write", "", renamed("usage.prompt_tokens_details.cache_write_tokens", ""), renamed("usage.input_tokens_details.cache_write_tokens", ""),
			renamed("usage.cache_creation_input_tokens", ""), dropped("usage.cache_write", "counted as read anew"),
		},
		{
			"usage.output", "", renamed("usage.completion_tokens", "with reasoning"), renamed("usage.output_tokens", "with reasoning"),
			renamed("usage.output_tokens", "with reasoning"), renamed("usageMetadata.candidatesTokenCount", ""),
		},
		{
			"usage.reasoning", "", renamed("usage.completion_tokens_details.reasoning_tokens", ""), renamed("usage.output_tokens_details.reasoning_tokens", ""),
			renamed("usage.output_tokens_details.thinking_tokens", ""), renamed("usageMetadata.thoughtsTokenCount", ""),
		},
		{"usage", "none", exact("usage"), exact("usage"), near("usage.unknown", "usage", "zeros: clients add them up unasked"), exact("usageMetadata")},
	}
}
