package loss

func settingTopics() []topic {
	return []topic{
		{"Length, number and kind of answers", Request, "What the answer may be.", outputEntries()},
		{"Structured output", Request, "The form of an answer that is data.", formatEntries()},
		{"Sampling", Request, "How tokens are drawn.", samplingEntries()},
		{"Reasoning", Request, "How much the model thinks, and what of it is shown.", reasoningEntries()},
		{"State", Request, "What the vendor keeps between requests.", stateEntries()},
		{"Identity and service", Request, "On whose behalf, and how fast.", serviceEntries()},
	}
}

const noMember = "there is no member for it"

func outputEntries() []entry {
	const oneAnswer = "one request gives one answer"
	return []entry{
		{
			"output.max_tokens", "", renamed("max_completion_tokens", "or max_tokens, as the model's entry says"), renamed("max_output_tokens", ""),
			exact("max_tokens"), renamed("generationConfig.maxOutputTokens", ""),
		},
		{
			"output.max_tokens", "unset", form("left out"), form("left out"),
			near("max_tokens.defaulted", "max_tokens", "the protocol wants one: the model entry's, or 4096"), form("left out"),
		},
		{
			"output.max_tokens", "0: only fill the cache", refused("max_tokens.zero", "the protocol cannot do that"), renamed("prompt_cache_options.prewarm", ""),
			exact("max_tokens"), refused("max_tokens.zero", "the protocol cannot do that"),
		},
		{"output.choices", "1", renamed("n", ""), form("what is done unasked"), form("what is done unasked"), form("what is done unasked")},
		{
			"output.choices", "2 to 8", renamed("n", ""), refused("n.unsupported", oneAnswer), refused("n.unsupported", oneAnswer),
			renamed("generationConfig.candidateCount", ""),
		},
		{
			"output.choices", "more than 8", renamed("n", ""), refused("n.unsupported", oneAnswer), refused("n.unsupported", oneAnswer),
			refused("choices.too_many", "at most 8"),
		},
		{
			"output.stops", "up to 4", renamed("stop", ""), dropped("stop.unsupported", noMember), renamed("stop_sequences", ""),
			renamed("generationConfig.stopSequences", ""),
		},
		{
			"output.stops", "5", refused("stop.too_many", "at most 4"), dropped("stop.unsupported", noMember), renamed("stop_sequences", ""),
			renamed("generationConfig.stopSequences", ""),
		},
		{
			"output.stops", "6 or more", refused("stop.too_many", "at most 4"), dropped("stop.unsupported", noMember), renamed("stop_sequences", ""),
			refused("stop.too_many", "at most 5"),
		},
		{
			"output.stops", "white space only", renamed("stop", ""), dropped("stop.unsupported", noMember), dropped("stop.blank", "the vendor refuses it"),
			renamed("generationConfig.stopSequences", ""),
		},
		{
			"output.stops", "on a model that takes none", dropped("stop.unsupported_by_model", "the model refuses them"), dropped("stop.unsupported", noMember),
			dropped("stop.unsupported_by_model", "the model refuses them"), dropped("stop.unsupported_by_model", "the model refuses them"),
		},
		{
			"output.verbosity", "", exact("verbosity"), exact("text.verbosity"), dropped("verbosity.unsupported", noMember),
			dropped("verbosity.unsupported", noMember),
		},
		{"output.modalities", "text", exact("modalities"), form("what is done unasked"), form("what is done unasked"), form("what is done unasked")},
		{
			"output.modalities", "audio", exact("modalities"), refused("modality.audio", "there is no such output"),
			refused("modality.unsupported", "there is no such output"), renamed("generationConfig.responseModalities", ""),
		},
		{
			"output.modalities", "image", exact("modalities"), dropped("modality.image", "there is no such output"),
			refused("modality.unsupported", "there is no such output"), renamed("generationConfig.responseModalities", ""),
		},
		{
			"output.logprobs", "", exact("logprobs"), renamed("include", ""), dropped("logprobs.unsupported", noMember),
			renamed("generationConfig.responseLogprobs", ""),
		},
		{
			"output.top_logprobs", "", exact("top_logprobs"), exact("top_logprobs"), dropped("logprobs.unsupported", noMember),
			renamed("generationConfig.logprobs", ""),
		},
	}
}

func formatEntries() []entry {
	const (
		schema    = "response_format.json_schema"
		described = "the keyword is moved into the description"
	)
	return []entry{
		{"output.format.kind", "text", exact("response_format.type"), exact("text.format.type"), form("what is done unasked"), form("what is done unasked")},
		{
			"output.format.kind", "json_object", exact("response_format.type"), exact("text.format.type"),
			near("format.json_object", "system", "the model is told to answer in JSON"), renamed("generationConfig.responseMimeType", ""),
		},
		{
			"output.format.kind output.format.schema", "json_schema", exact(schema + ".schema"), exact("text.format.schema"),
			exact("output_config.format.schema"), renamed("generationConfig.responseJsonSchema", ""),
		},
		{
			"output.format.schema", "missing", exact("response_format.type"), exact("text.format.type"), refused("format.schema", "a structured answer needs one"),
			near("format.schema", "generationConfig.responseMimeType", "JSON of any form"),
		},
		{
			"output.format.schema", "keywords beyond the vendor's", exact(schema + ".schema"), exact("text.format.schema"),
			near("schema.keyword_moved", "output_config.format.schema", described), near("schema.keyword_moved", "generationConfig.responseJsonSchema", described),
		},
		{
			"output.format.schema", "refers to itself", exact(schema + ".schema"), exact("text.format.schema"), refused("schema.recursive", "the vendor refuses it"),
			exact("generationConfig.responseJsonSchema"),
		},
		{
			"output.format.kind", "enum", near("format.enum", schema+".schema", "a schema: the word comes as JSON"), dropped("format.enum", "use a schema"),
			near("format.enum", "output_config.format.schema", "a schema: the word comes as JSON"), renamed("generationConfig.responseJsonSchema", "text/x.enum"),
		},
		{
			"output.format.name", "", exact(schema + ".name"), exact("text.format.name"), dropped("format.name", noMember), dropped("format.name", noMember),
		},
		{
			"output.format.description", "", exact(schema + ".description"), exact("text.format.description"),
			dropped("format.description", noMember), dropped("format.description", noMember),
		},
		{
			"output.format.strict", "true", exact(schema + ".strict"), exact("text.format.strict"), form("a schema is always strict"),
			near("strict.best_effort", "", "schemas are followed as well as the model can"),
		},
		{
			"output.format.strict", "false", exact(schema + ".strict"), exact("text.format.strict"),
			near("format.strict", "", "a schema is always strict"), form("what is done unasked"),
		},
		{
			"output.format.ext", "of the same protocol", exact("response_format.x_odd"), exact("text.format.x_odd"), exact("output_config.format.x_odd"),
			form("a format is no object; its members are the request's"),
		},
		{
			"output.format.ext", "of another protocol", dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
			dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
		},
	}
}

func samplingEntries() []entry {
	const refuses = "the model refuses it"
	return []entry{
		{
			"sampling.temperature", "up to 1", exact("temperature"), exact("temperature"), exact("temperature"),
			exact("generationConfig.temperature"),
		},
		{
			"sampling.temperature", "over 1", exact("temperature"), exact("temperature"), near("temperature.clamped", "temperature", "1"),
			exact("generationConfig.temperature"),
		},
		{
			"sampling.temperature", "while the model thinks", exact("temperature"), exact("temperature"),
			dropped("temperature.with_thinking", "the vendor takes none but 1 then"), exact("generationConfig.temperature"),
		},
		{
			"sampling.temperature", "on a model that takes none", dropped("sampling.unsupported_by_model", refuses), dropped("temperature.unsupported_by_model", refuses),
			dropped("temperature.unsupported_by_model", refuses), dropped("temperature.unsupported_by_model", refuses),
		},
		{"sampling.top_p", "", exact("top_p"), exact("top_p"), exact("top_p"), exact("generationConfig.topP")},
		{
			"sampling.top_p", "while the model thinks", exact("top_p"), exact("top_p"), dropped("top_p.with_thinking", "the vendor takes none below 0.95 then"),
			exact("generationConfig.topP"),
		},
		{
			"sampling.top_p", "on a model that takes none", dropped("sampling.unsupported_by_model", refuses), dropped("top_p.unsupported_by_model", refuses),
			dropped("top_p.unsupported_by_model", refuses), dropped("top_p.unsupported_by_model", refuses),
		},
		{"sampling.top_k", "", dropped("top_k.unsupported", noMember), dropped("top_k.unsupported", noMember), exact("top_k"), exact("generationConfig.topK")},
		{
			"sampling.top_k", "while the model thinks", dropped("top_k.unsupported", noMember), dropped("top_k.unsupported", noMember),
			dropped("top_k.with_thinking", "the vendor takes none then"), exact("generationConfig.topK"),
		},
		{
			"sampling.top_k", "on a model that takes none", dropped("top_k.unsupported", noMember), dropped("top_k.unsupported", noMember),
			dropped("top_k.unsupported_by_model", refuses), dropped("top_k.unsupported_by_model", refuses),
		},
		{
			"sampling.frequency_penalty", "", exact("frequency_penalty"), dropped("frequency_penalty.unsupported", noMember),
			dropped("frequency_penalty.unsupported", noMember), exact("generationConfig.frequencyPenalty"),
		},
		{
			"sampling.presence_penalty", "", exact("presence_penalty"), dropped("presence_penalty.unsupported", noMember),
			dropped("presence_penalty.unsupported", noMember), exact("generationConfig.presencePenalty"),
		},
		{
			"sampling.seed", "of 32 bits", exact("seed"), dropped("seed.unsupported", noMember), dropped("seed.unsupported", noMember),
			exact("generationConfig.seed"),
		},
		{
			"sampling.seed", "larger", exact("seed"), dropped("seed.unsupported", noMember), dropped("seed.unsupported", noMember),
			near("seed.folded", "generationConfig.seed", "its last 31 bits"),
		},
		{
			"sampling.logit_bias", "", exact("logit_bias"), dropped("logit_bias.unsupported", noMember), dropped("logit_bias.unsupported", noMember),
			dropped("logit_bias.unsupported", "token numbers are each vendor's own"),
		},
	}
}

func reasoningEntries() []entry {
	return append(effortEntries(), budgetEntries()...)
}

const (
	thinkingConfig = "generationConfig.thinkingConfig"
	byItself       = "the model decides by itself"
)

func effortEntries() []entry {
	const (
		level   = thinkingConfig + ".thinkingLevel"
		shown   = thinkingConfig + ".includeThoughts"
		tokens  = "tokens that stand for it"
		nearest = "the nearest level that the model knows"
	)
	return []entry{
		{
			"reasoning.mode", "off", renamed("reasoning_effort", "none"), renamed("reasoning.effort", "none"), renamed("thinking.type", "disabled"),
			near("effort.cannot_be_off", level, "the least"),
		},
		{
			"reasoning.mode", "on or auto", near("reasoning.default", "", byItself), near("reasoning.default", "", byItself),
			near("effort.to_budget", "thinking.budget_tokens", "a medium budget"), renamed(shown, byItself),
		},
		{
			"reasoning.mode", "on or auto, on a model set by effort", near("reasoning.default", "", byItself), near("reasoning.default", "", byItself),
			renamed("thinking.type", "adaptive"), renamed(shown, byItself),
		},
		{
			"reasoning.mode", "between_tools", near("reasoning.default", "", byItself), near("reasoning.default", "", byItself),
			near("effort.to_budget", "thinking.budget_tokens", "a medium budget"), near("reasoning.default", shown, byItself),
		},
		{
			"reasoning.mode", "between_tools, on a model set by effort", near("reasoning.default", "", byItself), near("reasoning.default", "", byItself),
			exact("thinking.type"), near("reasoning.default", shown, byItself),
		},
		{
			"reasoning.effort", "none", renamed("reasoning_effort", ""), exact("reasoning.effort"), renamed("thinking.type", "disabled"),
			near("effort.cannot_be_off", level, "the least"),
		},
		{
			"reasoning.effort", "minimal", renamed("reasoning_effort", ""), exact("reasoning.effort"),
			near("effort.to_budget", "thinking.budget_tokens", tokens), near("effort.nearest", level, nearest),
		},
		{
			"reasoning.effort", "low to high", renamed("reasoning_effort", ""), exact("reasoning.effort"),
			near("effort.to_budget", "thinking.budget_tokens", tokens), renamed(level, ""),
		},
		{
			"reasoning.effort", "xhigh or max", renamed("reasoning_effort", ""), exact("reasoning.effort"),
			near("effort.to_budget", "thinking.budget_tokens", tokens), near("effort.nearest", level, nearest),
		},
		{
			"reasoning.effort", "low to high, on a model set by effort", renamed("reasoning_effort", ""), exact("reasoning.effort"),
			renamed("output_config.effort", "with adaptive thinking"), renamed(level, ""),
		},
		{
			"reasoning.effort", "minimal, on a model set by effort", renamed("reasoning_effort", ""), exact("reasoning.effort"),
			near("effort.nearest", "output_config.effort", "low"), near("effort.nearest", level, nearest),
		},
		{
			"reasoning.effort", "low to high, on a model set by a budget", renamed("reasoning_effort", ""), exact("reasoning.effort"),
			near("effort.to_budget", "thinking.budget_tokens", tokens), near("effort.to_budget", thinkingConfig+".thinkingBudget", tokens),
		},
		{
			"reasoning.effort", "a level that the model does not know", near("effort.nearest", "reasoning_effort", nearest), near("effort.nearest", "reasoning.effort", nearest),
			near("effort.nearest", "output_config.effort", nearest), near("effort.nearest", level, nearest),
		},
		{
			"reasoning.effort", "a word that nobody knows", renamed("reasoning_effort", "as it is"), exact("reasoning.effort"),
			near("effort.to_budget", "thinking.budget_tokens", "a medium budget"), dropped("effort.unknown", "there is no such level"),
		},
	}
}

func budgetEntries() []entry {
	const (
		level  = thinkingConfig + ".thinkingLevel"
		budget = thinkingConfig + ".thinkingBudget"
		shown  = thinkingConfig + ".includeThoughts"
		band   = "the level that stands for so many tokens"
		tokens = "thinking.budget_tokens"
	)
	chat, responses := near("effort.from_budget", "reasoning_effort", band), near("effort.from_budget", "reasoning.effort", band)
	return []entry{
		{"reasoning.budget", "1024 or more", chat, responses, renamed(tokens, ""), near("effort.from_budget", level, band)},
		{
			"reasoning.budget", "1024 or more, on a model set by effort", chat, responses,
			near("effort.from_budget", "output_config.effort", band), near("effort.from_budget", level, band),
		},
		{"reasoning.budget", "1024 or more, on a model set by a budget", chat, responses, renamed(tokens, ""), renamed(budget, "")},
		{
			"reasoning.budget", "less than 1024", chat, responses, near("budget.clamped", tokens, "1024"),
			near("effort.from_budget effort.nearest", level, band),
		},
		{
			"reasoning.budget", "beyond the model's, on a model set by a budget", chat, responses, near("budget.clamped", tokens, "what max_tokens has room for"),
			near("budget.clamped", budget, "the most that the model takes"),
		},
		{
			"reasoning.budget", "more than max_tokens has room for", chat, responses, dropped("reasoning.no_room", "not even 1024 tokens fit"),
			near("effort.from_budget", level, band),
		},
		{"reasoning.budget", "0", chat, responses, renamed("thinking.type", "disabled"), near("effort.cannot_be_off", level, "the least")},
		{
			"reasoning.budget", "-1: the model decides", near("reasoning.default", "", byItself), near("reasoning.default", "", byItself),
			near("effort.to_budget", tokens, "a medium budget"), renamed(shown, byItself),
		},
		{
			"reasoning.budget", "-1: the model decides, on a model set by a budget", near("reasoning.default", "", byItself), near("reasoning.default", "", byItself),
			near("effort.to_budget", tokens, "a medium budget"), renamed(budget, ""),
		},
		{
			"reasoning.budget", "while a tool is forced", chat, responses, dropped("reasoning.forced_tool", "the vendor refuses both at once"),
			near("effort.from_budget", level, band),
		},
		{
			"reasoning.budget", "while calls without signed reasoning are answered", chat, responses,
			dropped("reasoning.unsigned_history", "the vendor wants its own reasoning before the calls"), near("effort.from_budget", level, band),
		},
		{"reasoning.show", "none", form("nothing is asked for"), form("nothing is asked for"), renamed("thinking.display", "omitted"), renamed(shown, "")},
		{
			"reasoning.show", "auto, concise or detailed", dropped("reasoning.show_unsupported", noMember), renamed("reasoning.summary", ""), renamed("thinking.display", "summarized"),
			form("shown in any case while thinking is asked for"),
		},
		{
			"reasoning.show", "full", dropped("reasoning.show_unsupported", noMember), near("reasoning.summary", "reasoning.summary", "detailed"),
			near("reasoning.summary", "thinking.display", "summarized"), near("reasoning.summary", shown, "a summary"),
		},
		{
			"reasoning.ext", "of the same protocol", form("reasoning is no object; its members are the request's"), exact("reasoning.x_odd"),
			exact("thinking.x_odd"), exact(thinkingConfig + ".x_odd"),
		},
		{
			"reasoning.ext", "of another protocol", dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
			dropped("ext.unknown_field", noOddMembers), dropped("ext.unknown_field", noOddMembers),
		},
	}
}

func stateEntries() []entry {
	const sendAll = "nothing is kept; send the whole conversation"
	return []entry{
		{"state.store", "true", exact("store"), exact("store"), dropped("store.unsupported", "nothing is kept"), dropped("store.unsupported", "nothing is kept")},
		{"state.store", "false", exact("store"), form("sent where it is unset, too"), form("nothing is kept"), form("nothing is kept")},
		{
			"state.previous_id", "", refused("state.previous_response", sendAll), renamed("previous_response_id", ""),
			refused("state.previous_response", sendAll), refused("state.previous_response", sendAll),
		},
		{
			"state.conversation", "", refused("state.conversation", sendAll), exact("conversation"),
			refused("state.conversation", sendAll), refused("state.conversation", sendAll),
		},
		{
			"state.background", "", refused("state.background", "answers come at once"), exact("background"),
			refused("state.background", "answers come at once"), refused("state.background", "answers come at once"),
		},
		{
			"state.truncation", "", dropped("truncation.unsupported", "nothing is cut off"), exact("truncation"),
			dropped("truncation.unsupported", "nothing is cut off"), dropped("truncation.unsupported", "nothing is cut off"),
		},
	}
}

func serviceEntries() []entry {
	return []entry{
		{"identity.user", "", exact("user"), exact("user"), renamed("metadata.user_id", ""), dropped("user.dropped", noMember)},
		{
			"identity.safety_id", "", renamed("safety_identifier", ""), renamed("safety_identifier", ""), renamed("metadata.user_id", ""),
			dropped("user.dropped", noMember),
		},
		{
			"identity.safety_id", "beside a user", renamed("safety_identifier", ""), renamed("safety_identifier", ""), dropped("user.dropped", "there is room for one"),
			dropped("user.dropped", noMember),
		},
		{
			"identity.metadata", "", exact("metadata.team"), exact("metadata.team"), dropped("metadata.unsupported", noMember),
			dropped("metadata.unsupported", noMember),
		},
		{"service.tier", "auto", exact("service_tier"), exact("service_tier"), exact("service_tier"), form("what is done unasked")},
		{"service.tier", "default", exact("service_tier"), exact("service_tier"), renamed("service_tier", "standard_only"), renamed("serviceTier", "standard")},
		{"service.tier", "priority", exact("service_tier"), exact("service_tier"), near("tier.mapped", "service_tier", "auto"), exact("serviceTier")},
		{"service.tier", "flex", exact("service_tier"), exact("service_tier"), dropped("tier.unsupported", "there is no such tier"), exact("serviceTier")},
		{
			"service.tier", "scale", exact("service_tier"), exact("service_tier"), dropped("tier.unsupported", "there is no such tier"),
			dropped("tier.unsupported", "there is no such tier"),
		},
		{
			"service.tier", "another word", exact("service_tier"), dropped("tier.unsupported", "there is no such tier"),
			dropped("tier.unsupported", "there is no such tier"), dropped("tier.unsupported", "there is no such tier"),
		},
		{
			"service.speed", "", near("speed.as_tier", "service_tier", "fast"), near("speed.as_tier", "service_tier", "priority"), exact("speed"),
			near("speed.as_tier", "serviceTier", "priority"),
		},
	}
}
