package openai

// FieldNames returns where both dialects have fields of the neutral model.
func FieldNames() [][2]string {
	return [][2]string{
		{"sampling.temperature", "temperature"}, {"sampling.top_p", "top_p"}, {"sampling.top_k", "top_k"}, {"sampling.seed", "seed"},
		{"sampling.frequency_penalty", "frequency_penalty"}, {"sampling.presence_penalty", "presence_penalty"}, {"sampling.logit_bias", "logit_bias"}, {"sampling", "temperature"},
		{"output.stops", "stop"}, {"output.choices", "n"}, {"output.modalities", "modalities"}, {"output.logprobs", "logprobs"}, {"output.top_logprobs", "top_logprobs"},
		{"cache.key", "prompt_cache_key"}, {"cache.retention", "prompt_cache_retention"},
		{"state.store", "store"}, {"state.previous_id", "previous_response_id"}, {"state.conversation", "conversation"}, {"state.background", "background"}, {"state.truncation", "truncation"},
		{"identity.user", "user"}, {"identity.safety_id", "safety_identifier"}, {"identity.metadata", "metadata"},
		{"service.tier", "service_tier"}, {"service.speed", "service_tier"}, {"parallel", "parallel_tool_calls"},
	}
}
