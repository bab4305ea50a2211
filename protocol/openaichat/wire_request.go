package openaichat

import (
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Request is the body of POST /v1/chat/completions. Members that only OpenAI's servers
// act on, such as audio and prediction, are not decoded further.
type Request struct {
	Model               wire.Opt[string]              `json:"model"`
	Messages            wire.Opt[wire.List[Message]]  `json:"messages"`
	Stream              wire.Opt[bool]                `json:"stream"`
	StreamOptions       wire.Opt[StreamOptions]       `json:"stream_options"`
	MaxCompletionTokens wire.Opt[wire.Number]         `json:"max_completion_tokens"`
	MaxTokens           wire.Opt[wire.Number]         `json:"max_tokens"` // deprecated by MaxCompletionTokens
	N                   wire.Opt[wire.Number]         `json:"n"`
	Temperature         wire.Opt[wire.Number]         `json:"temperature"`
	TopP                wire.Opt[wire.Number]         `json:"top_p"`
	FrequencyPenalty    wire.Opt[wire.Number]         `json:"frequency_penalty"`
	PresencePenalty     wire.Opt[wire.Number]         `json:"presence_penalty"`
	LogitBias           wire.Opt[wire.Object]         `json:"logit_bias"`
	Logprobs            wire.Opt[bool]                `json:"logprobs"`
	TopLogprobs         wire.Opt[wire.Number]         `json:"top_logprobs"` // needs Logprobs
	Seed                wire.Opt[wire.Number]         `json:"seed"`
	Stop                wire.Opt[Stop]                `json:"stop"`
	Tools               wire.Opt[wire.List[Tool]]     `json:"tools"`
	ToolChoice          wire.Opt[ToolChoice]          `json:"tool_choice"`
	ParallelToolCalls   wire.Opt[bool]                `json:"parallel_tool_calls"`
	Functions           wire.Opt[wire.List[Function]] `json:"functions"`     // deprecated by Tools
	FunctionCall        wire.Opt[FunctionCallChoice]  `json:"function_call"` // deprecated by ToolChoice
	ResponseFormat      wire.Opt[ResponseFormat]      `json:"response_format"`
	ReasoningEffort     wire.Opt[string]              `json:"reasoning_effort"`
	Verbosity           wire.Opt[string]              `json:"verbosity"`
	Modalities          wire.Opt[[]string]            `json:"modalities"`
	Audio               wire.Opt[wire.Object]         `json:"audio"`
	Prediction          wire.Opt[wire.Object]         `json:"prediction"`
	WebSearchOptions    wire.Opt[wire.Object]         `json:"web_search_options"`
	ServiceTier         wire.Opt[string]              `json:"service_tier"`
	Store               wire.Opt[bool]                `json:"store"`
	Metadata            wire.Opt[wire.Object]         `json:"metadata"`
	Moderation          wire.Opt[wire.Object]         `json:"moderation"`

	PromptCacheKey       wire.Opt[string]      `json:"prompt_cache_key"`
	PromptCacheOptions   wire.Opt[wire.Object] `json:"prompt_cache_options"`
	PromptCacheRetention wire.Opt[string]      `json:"prompt_cache_retention"` // deprecated by PromptCacheOptions
	SafetyIdentifier     wire.Opt[string]      `json:"safety_identifier"`
	User                 wire.Opt[string]      `json:"user"` // deprecated by SafetyIdentifier and PromptCacheKey

	NvExt wire.Raw   `json:"nvext"` // NVIDIA Dynamo's own members
	Extra wire.Extra `json:"-"`
}

// Stop is one stop sequence, or several.
type Stop struct {
	One  wire.Opt[string]   `wire:"string"`
	Many wire.Opt[[]string] `wire:"array"`
}

// Sequences returns the stop sequences of either form.
func (s Stop) Sequences() []string {
	if one, ok := s.One.Get(); ok {
		return []string{one}
	}
	return s.Many.Value()
}

// StreamOptions are the options of a streaming response.
type StreamOptions struct {
	IncludeUsage       wire.Opt[bool] `json:"include_usage"`
	IncludeObfuscation wire.Opt[bool] `json:"include_obfuscation"`
	Extra              wire.Extra     `json:"-"`
}

// ResponseFormat is the format that the response must have.
type ResponseFormat struct {
	Type       wire.Opt[string]     `json:"type"` // text, json_object, json_schema
	JSONSchema wire.Opt[JSONSchema] `json:"json_schema"`
	Extra      wire.Extra           `json:"-"`
}

// JSONSchema is a named schema that the response must follow.
type JSONSchema struct {
	Name        wire.Opt[string]    `json:"name"`
	Description wire.Opt[wire.Text] `json:"description"`
	Schema      wire.Raw            `json:"schema"`
	Strict      wire.Opt[bool]      `json:"strict"`
	Extra       wire.Extra          `json:"-"`
}

// ToolType is the kind of a tool, of a call or of a choice. It is an open set.
type ToolType string

// The tool types. ToolTypeAllowed occurs in a choice only.
const (
	ToolTypeFunction ToolType = "function"
	ToolTypeCustom   ToolType = "custom"
	ToolTypeAllowed  ToolType = "allowed_tools"
)

// Tool is a tool that the model may call.
type Tool struct {
	Type     wire.Opt[ToolType]   `json:"type"`
	Function wire.Opt[Function]   `json:"function"`
	Custom   wire.Opt[CustomTool] `json:"custom"`
	Extra    wire.Extra           `json:"-"`
}

// Function is a tool whose arguments are a JSON object.
type Function struct {
	Name        wire.Opt[string]    `json:"name"`
	Description wire.Opt[wire.Text] `json:"description"`
	Parameters  wire.Raw            `json:"parameters"` // a JSON schema
	Strict      wire.Opt[bool]      `json:"strict"`
	Extra       wire.Extra          `json:"-"`
}

// CustomTool is a tool whose input is free text.
type CustomTool struct {
	Name        wire.Opt[string]    `json:"name"`
	Description wire.Opt[wire.Text] `json:"description"`
	Format      wire.Raw            `json:"format"` // {"type":"text"}, or a grammar
	Extra       wire.Extra          `json:"-"`
}

// ToolChoice says whether and which tools are called: a mode, or an object that
// names a tool or a set of tools.
type ToolChoice struct {
	Mode   wire.Opt[string]      `wire:"string"` // none, auto, required
	Object wire.Opt[NamedChoice] `wire:"object"`
}

// NamedChoice is a tool choice that names tools: one function, one custom tool,
// or those that are allowed.
type NamedChoice struct {
	Type         wire.Opt[ToolType]     `json:"type"`
	Function     wire.Opt[Named]        `json:"function"`
	Custom       wire.Opt[Named]        `json:"custom"`
	AllowedTools wire.Opt[AllowedTools] `json:"allowed_tools"`
	Extra        wire.Extra             `json:"-"`
}

// Named is something called by its name.
type Named struct {
	Name  wire.Opt[string] `json:"name"`
	Extra wire.Extra       `json:"-"`
}

// AllowedTools is a choice among some of the request's tools.
type AllowedTools struct {
	Mode  wire.Opt[string]                 `json:"mode"` // auto, required
	Tools wire.Opt[wire.List[NamedChoice]] `json:"tools"`
	Extra wire.Extra                       `json:"-"`
}

// FunctionCallChoice is the deprecated form of a tool choice: "none", "auto", or
// an object with a function's name.
type FunctionCallChoice struct {
	Mode     wire.Opt[string] `wire:"string"`
	Function wire.Opt[Named]  `wire:"object"`
}

// ToolCall is a call that the model has made.
type ToolCall struct {
	ID       wire.Opt[string]       `json:"id"`
	Type     wire.Opt[ToolType]     `json:"type"`
	Function wire.Opt[FunctionCall] `json:"function"`
	Custom   wire.Opt[CustomCall]   `json:"custom"`
	Extra    wire.Extra             `json:"-"`
}

// FunctionCall is the name of a function and what it is called with. In a
// stream both may be fragments.
type FunctionCall struct {
	Name      wire.Opt[string]    `json:"name"`
	Arguments wire.Opt[Arguments] `json:"arguments"`
	Extra     wire.Extra          `json:"-"`
}

// CustomCall is the name of a custom tool and its input.
type CustomCall struct {
	Name  wire.Opt[string]    `json:"name"`
	Input wire.Opt[wire.Text] `json:"input"`
	Extra wire.Extra          `json:"-"`
}

// Arguments are a call's arguments: a string that should hold a JSON object, or
// with some servers the object itself.
type Arguments struct {
	Text  wire.Opt[wire.Text] `wire:"string"`
	Value wire.Raw            `wire:"any"`
}

// NewArguments returns the arguments with that JSON text.
func NewArguments(json string) Arguments { return Arguments{Text: wire.Some(wire.NewText(json))} }

// String returns the arguments' JSON text.
func (a Arguments) String() string { return a.asText().String() }

// asText returns arguments of either form as a string literal, with number text
// and member order kept.
func (a Arguments) asText() wire.Text {
	if t, ok := a.Text.Get(); ok {
		return t
	}
	return wire.NewText(string(wire.Compact(a.Value)))
}
