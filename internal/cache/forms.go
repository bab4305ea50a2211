package cache

import "maps"

// forms is by the gateway's names of endpoints. Where it is nil every request may be
// cached; an endpoint that is not here has none that may.
var forms = map[string]*form{
	"embeddings":                   nil,
	"rerank":                       nil,
	"count_tokens":                 nil,
	"gemini_countTokens":           nil,
	"gemini_embedContent":          nil,
	"gemini_batchEmbedContents":    nil,
	"chat_completions":             {members: chatMembers, must: []string{"temperature"}},
	"completions":                  {members: completionsMembers, must: []string{"temperature"}},
	"responses":                    {members: responsesMembers, must: []string{"temperature", "store"}}, // what is not said is stored there
	"messages":                     {members: messagesMembers, must: []string{"temperature"}},
	"gemini_generateContent":       {members: geminiMembers, must: []string{"generationConfig"}},
	"gemini_streamGenerateContent": {members: geminiMembers, must: []string{"generationConfig"}},
}

// sampling is what the dialects of OpenAI and its engines share.
var sampling = map[string]rule{
	"model": anything, "temperature": zero, "top_p": anything, "top_k": anything, "min_p": anything, "seed": anything, "n": one,
	"max_tokens": anything, "stop": anything, "stream": anything, "stream_options": anything, "logprobs": anything, "top_logprobs": anything,
	"logit_bias": anything, "presence_penalty": anything, "frequency_penalty": anything, "repetition_penalty": anything,
	"user": anything, "metadata": anything, "service_tier": anything,
}

var chatMembers = with(sampling, map[string]rule{
	"messages": anything, "max_completion_tokens": anything, "response_format": anything, "tools": typedTools, "tool_choice": anything,
	"parallel_tool_calls": anything, "functions": anything, "function_call": anything, "reasoning_effort": anything, "verbosity": anything,
	"prediction": anything, "prompt_cache_key": anything, "prompt_cache_retention": anything, "safety_identifier": anything, "store": off,
})

var completionsMembers = with(sampling, map[string]rule{
	"prompt": anything, "suffix": anything, "echo": anything, "best_of": one,
})

// Not here: previous_response_id, conversation and prompt, which name what is kept at
// the provider and may have changed; background, whose answer is a ticket.
var responsesMembers = map[string]rule{
	"model": anything, "input": anything, "instructions": anything, "temperature": zero, "top_p": anything, "max_output_tokens": anything,
	"stream": anything, "stream_options": anything, "text": anything, "tools": typedTools, "tool_choice": anything, "parallel_tool_calls": anything,
	"reasoning": anything, "include": anything, "truncation": anything, "top_logprobs": anything, "metadata": anything, "user": anything,
	"service_tier": anything, "prompt_cache_key": anything, "prompt_cache_retention": anything, "safety_identifier": anything,
	"store": off, "background": off,
}

// Not here: container and mcp_servers, which run things at the provider.
var messagesMembers = map[string]rule{
	"model": anything, "messages": anything, "system": anything, "max_tokens": anything, "temperature": zero, "top_p": anything, "top_k": anything,
	"stop_sequences": anything, "stream": anything, "tools": typedTools, "tool_choice": anything, "metadata": anything, "service_tier": anything,
	"thinking": anything, "output_config": anything, "output_format": anything, "cache_control": anything,
}

// Not here: cachedContent, which is kept at the provider.
var geminiMembers = map[string]rule{
	"contents": anything, "systemInstruction": anything, "system_instruction": anything, "generationConfig": generationConfig,
	"safetySettings": anything, "safety_settings": anything, "tools": geminiTools, "toolConfig": anything, "tool_config": anything, "labels": anything,
}

// geminiConfig has the names of the JSON form only. The other spelling is not known,
// and what is not known is not cached.
var geminiConfig = form{must: []string{"temperature"}, members: map[string]rule{
	"temperature": zero, "topP": anything, "topK": anything, "seed": anything, "candidateCount": one, "maxOutputTokens": anything,
	"stopSequences": anything, "responseMimeType": anything, "responseSchema": anything, "responseJsonSchema": anything,
	"presencePenalty": anything, "frequencyPenalty": anything, "thinkingConfig": anything, "responseLogprobs": anything, "logprobs": anything,
}}

func with(base, more map[string]rule) map[string]rule {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}
