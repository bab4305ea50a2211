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

// Role is the author of a message. It is an open set.
type Role string

// The roles. RoleFunction is deprecated.
const (
	RoleDeveloper Role = "developer"
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleFunction  Role = "function"
)

// Message is one message of any role. A response's message is sent back in the
// next request.
type Message struct {
	Role    wire.Opt[Role]      `json:"role"`
	Content wire.Opt[Content]   `json:"content"`
	Refusal wire.Opt[wire.Text] `json:"refusal"`

	// Reasoning, under the names that different servers use. None of them is in
	// OpenAI's specification.
	ReasoningContent wire.Opt[wire.Text]           `json:"reasoning_content"`
	Reasoning        wire.Opt[wire.Text]           `json:"reasoning"`
	Thinking         wire.Opt[wire.Text]           `json:"thinking"`
	ReasoningDetails wire.Opt[wire.List[wire.Raw]] `json:"reasoning_details"`

	Name         wire.Opt[string]                `json:"name"`
	ToolCallID   wire.Opt[string]                `json:"tool_call_id"` // in a tool message: the call that it belongs to
	ToolCalls    wire.Opt[wire.List[ToolCall]]   `json:"tool_calls"`
	FunctionCall wire.Opt[FunctionCall]          `json:"function_call"` // deprecated by ToolCalls
	Annotations  wire.Opt[wire.List[Annotation]] `json:"annotations"`
	Audio        wire.Opt[Audio]                 `json:"audio"`
	Extra        wire.Extra                      `json:"-"`
}

// Content is a message's content: text, or a list of parts.
type Content struct {
	Text  wire.Opt[wire.Text]       `wire:"string"`
	Parts wire.Opt[wire.List[Part]] `wire:"array"`
}

// NewContent returns a content that is a single text.
func NewContent(s string) Content { return Content{Text: wire.Some(wire.NewText(s))} }

// PartType is the kind of a part. It is an open set.
type PartType string

// The part types. PartRefusal occurs in assistant messages only.
const (
	PartText       PartType = "text"
	PartImageURL   PartType = "image_url"
	PartInputAudio PartType = "input_audio"
	PartFile       PartType = "file"
	PartRefusal    PartType = "refusal"
)

// Part is one part of a message's content.
type Part struct {
	Type       wire.Opt[PartType]   `json:"type"`
	Text       wire.Opt[wire.Text]  `json:"text"`
	ImageURL   wire.Opt[Image]      `json:"image_url"`
	InputAudio wire.Opt[InputAudio] `json:"input_audio"`
	File       wire.Opt[File]       `json:"file"`
	Refusal    wire.Opt[wire.Text]  `json:"refusal"`

	PromptCacheBreakpoint wire.Opt[CacheBreakpoint] `json:"prompt_cache_breakpoint"`

	Extra wire.Extra `json:"-"`
}

// CacheBreakpoint requests that the provider caches the prompt up to a part.
type CacheBreakpoint struct {
	TTL   wire.Opt[string] `json:"ttl"`
	Extra wire.Extra       `json:"-"`
}

// Image is an image by its URL. Some clients send the bare URL.
type Image struct {
	URL    wire.Opt[wire.Text] `wire:"string"`
	Object wire.Opt[ImageURL]  `wire:"object"`
}

// ImageURL is an http or data URL of an image, and the level of detail.
type ImageURL struct {
	URL    wire.Opt[wire.Text] `json:"url"`
	Detail wire.Opt[string]    `json:"detail"` // auto, low, high, original
	Extra  wire.Extra          `json:"-"`
}

// InputAudio is audio input.
type InputAudio struct {
	Data   wire.Opt[wire.Text] `json:"data"`   // base64
	Format wire.Opt[string]    `json:"format"` // wav, mp3
	Extra  wire.Extra          `json:"-"`
}

// File is a file, inline or by the id of an upload.
type File struct {
	FileData wire.Opt[wire.Text] `json:"file_data"`
	FileID   wire.Opt[string]    `json:"file_id"`
	Filename wire.Opt[string]    `json:"filename"`
	Extra    wire.Extra          `json:"-"`
}
