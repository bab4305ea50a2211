package openairesponses

import (
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Request is the body of POST /v1/responses. Members that only OpenAI itself can
// act on (prompt, include, context_management, …) have no field and are kept as
// they are.
type Request struct {
	Model                wire.Opt[string]              `json:"model"`
	Input                wire.Opt[Input]               `json:"input"`
	Instructions         wire.Opt[string]              `json:"instructions"`
	PreviousResponseID   wire.Opt[string]              `json:"previous_response_id"`
	Conversation         wire.Raw                      `json:"conversation"` // an id, or an object with it
	Store                wire.Opt[bool]                `json:"store"`        // true if absent
	Background           wire.Opt[bool]                `json:"background"`
	Stream               wire.Opt[bool]                `json:"stream"`
	MaxOutputTokens      wire.Opt[wire.Number]         `json:"max_output_tokens"`
	Temperature          wire.Opt[wire.Number]         `json:"temperature"`
	TopP                 wire.Opt[wire.Number]         `json:"top_p"`
	PresencePenalty      wire.Opt[wire.Number]         `json:"presence_penalty"`  // Open Responses only
	FrequencyPenalty     wire.Opt[wire.Number]         `json:"frequency_penalty"` // Open Responses only
	TopLogprobs          wire.Opt[wire.Number]         `json:"top_logprobs"`
	Reasoning            wire.Opt[Reasoning]           `json:"reasoning"`
	Text                 wire.Opt[TextOptions]         `json:"text"`
	Tools                wire.Opt[wire.List[wire.Raw]] `json:"tools"`
	ToolChoice           wire.Opt[ToolChoice]          `json:"tool_choice"`
	ParallelToolCalls    wire.Opt[bool]                `json:"parallel_tool_calls"`
	Truncation           wire.Opt[string]              `json:"truncation"`
	Metadata             wire.Opt[wire.Object]         `json:"metadata"`
	User                 wire.Opt[string]              `json:"user"`
	SafetyIdentifier     wire.Opt[string]              `json:"safety_identifier"`
	PromptCacheKey       wire.Opt[string]              `json:"prompt_cache_key"`
	PromptCacheRetention wire.Opt[string]              `json:"prompt_cache_retention"`
	ServiceTier          wire.Opt[string]              `json:"service_tier"`
	Extra                wire.Extra                    `json:"-"`
}

// Input is a user message as a string, or a list of items.
type Input struct {
	Text  wire.Opt[string]              `wire:"string"`
	Items wire.Opt[wire.List[wire.Raw]] `wire:"array"`
}

// Reasoning sets the effort of reasoning and the kind of its summary.
type Reasoning struct {
	Effort  wire.Opt[string] `json:"effort"`
	Summary wire.Opt[string] `json:"summary"` // auto, concise, detailed
	Extra   wire.Extra       `json:"-"`
}

// TextOptions set the format and verbosity of the response's text.
type TextOptions struct {
	Format    wire.Opt[Format] `json:"format"`
	Verbosity wire.Opt[string] `json:"verbosity"`
	Extra     wire.Extra       `json:"-"`
}

// Format is the format of a structured response.
type Format struct {
	Type        wire.Opt[string] `json:"type"` // text, json_object, json_schema
	Name        wire.Opt[string] `json:"name"`
	Description wire.Opt[string] `json:"description"`
	Schema      wire.Raw         `json:"schema"`
	Strict      wire.Opt[bool]   `json:"strict"`
	Extra       wire.Extra       `json:"-"`
}

// Tool is a function, a custom tool or a namespace of those. The vendor runs all other
// tools, which are not decoded.
type Tool struct {
	Type        wire.Opt[string]              `json:"type"`
	Name        wire.Opt[string]              `json:"name"`
	Description wire.Opt[string]              `json:"description"`
	Parameters  wire.Raw                      `json:"parameters"`
	Strict      wire.Opt[bool]                `json:"strict"`
	Format      wire.Raw                      `json:"format"` // of a custom tool
	Tools       wire.Opt[wire.List[wire.Raw]] `json:"tools"`  // of a namespace
	Extra       wire.Extra                    `json:"-"`
}

// ToolChoice is none, auto or required, or an object that names tools.
type ToolChoice struct {
	Mode   wire.Opt[string] `wire:"string"`
	Object wire.Raw         `wire:"object"`
}

// NamedTool is a tool choice's object.
type NamedTool struct {
	Type      wire.Opt[string]              `json:"type"` // function, custom, allowed_tools, or a hosted tool
	Name      wire.Opt[string]              `json:"name"`
	Namespace wire.Opt[string]              `json:"namespace"`
	Mode      wire.Opt[string]              `json:"mode"`  // with allowed_tools
	Tools     wire.Opt[wire.List[wire.Raw]] `json:"tools"` // with allowed_tools
	Extra     wire.Extra                    `json:"-"`
}
