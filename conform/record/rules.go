package record

import (
	"regexp"
	"strings"
)

// The lists below say what is kept, for all dialects together, because both sides of
// an exchange must be treated alike. Everything else is masked, also members that a vendor
// adds later.

// words lists members whose value is a keyword of the dialect.
var words = set(`type role object status finish_reason stop_reason finishReason native_finish_reason service_tier serviceTier reasoning_effort effort
	verbosity truncation mode language outcome phase blockReason probability category threshold reason thinkingLevel level modality responseModalities modalities
	include stop_details execution syntax ttl mediaResolution severity environment format voice prompt_cache_retention media_type mimeType mime_type
	anthropic_version thinking_level @type domain`)

// few lists the keywords of members that can also contain text.
var few = set(`auto low high original concise detailed`)

// ids lists members that contain an id.
var ids = set(`id call_id tool_call_id tool_use_id item_id response_id responseId request_id message_id previous_response_id previous_message_id event_id file_id
	container container_id system_fingerprint approval_request_id conversation thread_id`)

// seals lists members that only the vendor can read.
var seals = set(`signature thoughtSignature thought_signature encrypted_content encrypted_index redacted redacted_thinking encrypted_stdout`)

// arguments lists members that contain JSON as a string.
var arguments = set(`arguments partial_json`)

// schemas lists members that contain a schema.
var schemas = set(`parameters input_schema schema parametersJsonSchema responseSchema responseJsonSchema response_schema response_json_schema output_schema parameters_json_schema`)

// containers lists members whose content the dialect defines.
var containers = set(`messages content contents parts choices message delta tool_calls function function_call functionCall functionResponse functionCalls tools functionDeclarations
	function_declarations systemInstruction system_instruction system generationConfig generation_config toolConfig tool_config functionCallingConfig function_calling_config thinkingConfig
	thinking_config thinking reasoning reasoning_details text response_format json_schema input output item part response error errors details usage usageMetadata usage_metadata candidates citations citation
	annotations annotation citationMetadata citationSources groundingMetadata groundingChunks groundingSupports web segment groundingChunkIndices source cache_control image_url input_audio file inlineData inline_data fileData file_data
	stream_options tool_choice output_config context_management incomplete_details content_block summary prompt_tokens_details completion_tokens_details input_tokens_details output_tokens_details
	promptTokensDetails candidatesTokensDetails cacheTokensDetails toolUsePromptTokensDetails cache_creation server_tool_use promptFeedback safetyRatings safetySettings custom grammar format definition allowed_tools allowedFunctionNames
	allowed_function_names stop stop_sequences stopSequences modalities responseModalities include extra_content google openai anthropic instructions audio refusal executableCode codeExecutionResult
	video_url input_file tool_result thread container prediction web_search_options search_results voiceConfig speechConfig filters action sources stop_details iterations logprobs top_logprobs
	imageConfig image_config videoMetadata tool_references edits url_citation file_citation container_file_citation document logprobsResult chosenCandidates topCandidates x_groq fieldViolations detail`)

// numbers lists members whose number is a setting, a position or a log probability.
var numbers = set(`temperature top_p topP top_k topK n seed candidateCount candidate_count presence_penalty presencePenalty frequency_penalty frequencyPenalty repetition_penalty
	max_tokens max_completion_tokens max_output_tokens maxOutputTokens budget_tokens thinkingBudget thinking_budget index created created_at completed_at sequence_number code
	top_logprobs logprobs responseLogprobs max_tool_calls max_uses dim startIndex endIndex start_index end_index output_index content_index summary_index annotation_index min_p logprob logProbability avgLogprobs`)

// wholes lists containers in which every number is kept.
var wholes = set(`usage usageMetadata usage_metadata`)

// schemaNumbers lists the schema keywords with a number.
var schemaNumbers = set(`minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems minProperties maxProperties`)

// schemaNames lists the keywords whose members are names of properties, schemaLists those
// that list such names, and schemaWords those with a keyword as their value.
var (
	schemaNames = set(`properties $defs definitions dependentRequired dependentSchemas patternProperties`)
	schemaLists = set(`required propertyOrdering`)
	schemaWords = set(`type format $ref $schema`)
)

// plain lists names that a gateway writes into free JSON.
var plain = set(`result output error content type text input user_id _raw value`)

// prefixes lists parts of ids that show their type.
var prefixes = set(`call toolu srvtoolu chatcmpl msg resp rs fc ctc req item gen run tool function cmpl reasoning fcall ws`)

func set(list string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}

var (
	word      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*([_.:/+-][A-Za-z0-9]+)*$`)
	modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)
	toolName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:/-]*$`)
	paramPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*([.\[][A-Za-z0-9_\]]+)*$`)
	delay     = regexp.MustCompile(`^\d+(\.\d+)?s$`)
	fieldName = regexp.MustCompile(`^[@$]?[A-Za-z_][A-Za-z0-9_.:/-]*$`)
	reference = regexp.MustCompile(`^[#A-Za-z0-9_$./:-]+$`)
)

// most is the maximum length of a keyword.
const most = 64

func isWord(s string) bool { return len(s) <= most && word.MatchString(s) }

func isModel(s string) bool { return len(s) <= 2*most && modelName.MatchString(s) }

func isField(s string) bool { return len(s) <= most && fieldName.MatchString(s) }

func isTool(s string) bool { return len(s) <= 2*most && toolName.MatchString(s) }
