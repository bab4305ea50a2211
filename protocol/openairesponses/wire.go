package openairesponses

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// Request is the body of POST /v1/responses. Members that only OpenAI itself can
// act on (prompt, include, context_management, …) have no field and are kept as
// they are.
type Request struct {
	Model                wire.Opt[string]      `json:"model"`
	Input                wire.Opt[Input]       `json:"input"`
	Instructions         wire.Opt[string]      `json:"instructions"`
	PreviousResponseID   wire.Opt[string]      `json:"previous_response_id"`
	Conversation         wire.Raw              `json:"conversation"` // an id, or an object with it
	Store                wire.Opt[bool]        `json:"store"`        // true if absent
	Background           wire.Opt[bool]        `json:"background"`
	Stream               wire.Opt[bool]        `json:"stream"`
	MaxOutputTokens      wire.Opt[wire.Number] `json:"max_output_tokens"`
	Temperature          wire.Opt[wire.Number] `json:"temperature"`
	TopP                 wire.Opt[wire.Number] `json:"top_p"`
	PresencePenalty      wire.Opt[wire.Number] `json:"presence_penalty"`  // Open Responses only
	FrequencyPenalty     wire.Opt[wire.Number] `json:"frequency_penalty"` // Open Responses only
	TopLogprobs          wire.Opt[wire.Number] `json:"top_logprobs"`
	Reasoning            wire.Opt[Reasoning]   `json:"reasoning"`
	Text                 wire.Opt[TextOptions] `json:"text"`
	Tools                wire.Opt[[]wire.Raw]  `json:"tools"`
	ToolChoice           wire.Opt[ToolChoice]  `json:"tool_choice"`
	ParallelToolCalls    wire.Opt[bool]        `json:"parallel_tool_calls"`
	Truncation           wire.Opt[string]      `json:"truncation"`
	Metadata             wire.Opt[wire.Object] `json:"metadata"`
	User                 wire.Opt[string]      `json:"user"`
	SafetyIdentifier     wire.Opt[string]      `json:"safety_identifier"`
	PromptCacheKey       wire.Opt[string]      `json:"prompt_cache_key"`
	PromptCacheRetention wire.Opt[string]      `json:"prompt_cache_retention"`
	ServiceTier          wire.Opt[string]      `json:"service_tier"`
	Extra                wire.Extra            `json:"-"`
}

// Input is a user's text, or items.
type Input struct {
	Text  wire.Opt[string]     `wire:"string"`
	Items wire.Opt[[]wire.Raw] `wire:"array"`
}

// Reasoning says how much the model thinks and what of it is shown.
type Reasoning struct {
	Effort  wire.Opt[string] `json:"effort"`
	Summary wire.Opt[string] `json:"summary"` // auto, concise, detailed
	Extra   wire.Extra       `json:"-"`
}

// TextOptions say what the answer's text is like.
type TextOptions struct {
	Format    wire.Opt[Format] `json:"format"`
	Verbosity wire.Opt[string] `json:"verbosity"`
	Extra     wire.Extra       `json:"-"`
}

// Format is the form that the answer must have.
type Format struct {
	Type        wire.Opt[string] `json:"type"` // text, json_object, json_schema
	Name        wire.Opt[string] `json:"name"`
	Description wire.Opt[string] `json:"description"`
	Schema      wire.Raw         `json:"schema"`
	Strict      wire.Opt[bool]   `json:"strict"`
	Extra       wire.Extra       `json:"-"`
}

// Tool is a function, a custom tool or a namespace of those. Other tools are run
// by the vendor and are not read.
type Tool struct {
	Type        wire.Opt[string]     `json:"type"`
	Name        wire.Opt[string]     `json:"name"`
	Description wire.Opt[string]     `json:"description"`
	Parameters  wire.Raw             `json:"parameters"`
	Strict      wire.Opt[bool]       `json:"strict"`
	Format      wire.Raw             `json:"format"` // of a custom tool
	Tools       wire.Opt[[]wire.Raw] `json:"tools"`  // of a namespace
	Extra       wire.Extra           `json:"-"`
}

// ToolChoice is none, auto or required, or an object that names tools.
type ToolChoice struct {
	Mode   wire.Opt[string] `wire:"string"`
	Object wire.Raw         `wire:"object"`
}

// NamedTool is a tool choice's object.
type NamedTool struct {
	Type      wire.Opt[string]     `json:"type"` // function, custom, allowed_tools, or a hosted tool
	Name      wire.Opt[string]     `json:"name"`
	Namespace wire.Opt[string]     `json:"namespace"`
	Mode      wire.Opt[string]     `json:"mode"`  // with allowed_tools
	Tools     wire.Opt[[]wire.Raw] `json:"tools"` // with allowed_tools
	Extra     wire.Extra           `json:"-"`
}

// Item is a message, a stretch of reasoning, a call of a client's tool or its
// output. Items of other types are not read.
type Item struct {
	Type   wire.Opt[string] `json:"type"` // may be missing on messages
	ID     wire.Opt[string] `json:"id"`
	Status wire.Opt[string] `json:"status"`

	Role    wire.Opt[string]  `json:"role"`
	Content wire.Opt[Content] `json:"content"`
	Phase   wire.Opt[string]  `json:"phase"` // commentary, final_answer

	Summary          wire.Opt[[]Part] `json:"summary"`
	EncryptedContent wire.Opt[string] `json:"encrypted_content"`

	CallID    wire.Opt[string]    `json:"call_id"`
	Name      wire.Opt[string]    `json:"name"`
	Namespace wire.Opt[string]    `json:"namespace"`
	Arguments wire.Opt[Arguments] `json:"arguments"`
	Input     wire.Opt[string]    `json:"input"` // of a custom tool's call
	Output    wire.Opt[Content]   `json:"output"`

	ExtraContent wire.Raw   `json:"extra_content"` // seals of other protocols
	Extra        wire.Extra `json:"-"`
}

// AdditionalTools is an item that declares tools in mid-conversation, or before it.
type AdditionalTools struct {
	Type  wire.Opt[string]     `json:"type"`
	ID    wire.Opt[string]     `json:"id"`
	Role  wire.Opt[string]     `json:"role"`
	Tools wire.Opt[[]wire.Raw] `json:"tools"`
	Extra wire.Extra           `json:"-"`
}

// SearchItem is the call of a search for tools that the client runs, or what the
// search has found.
type SearchItem struct {
	Type      wire.Opt[string]     `json:"type"`
	ID        wire.Opt[string]     `json:"id"`
	CallID    wire.Opt[string]     `json:"call_id"`
	Execution wire.Opt[string]     `json:"execution"` // client; the vendor's own is not read
	Status    wire.Opt[string]     `json:"status"`
	Arguments wire.Opt[Arguments]  `json:"arguments"` // of the call; an object
	Tools     wire.Opt[[]wire.Raw] `json:"tools"`     // that were found

	ExtraContent wire.Raw   `json:"extra_content"`
	Extra        wire.Extra `json:"-"`
}

// Arguments are a JSON text, or with some clients the object itself.
type Arguments struct {
	Text  wire.Opt[string] `wire:"string"`
	Value wire.Raw         `wire:"any"`
}

// Content is one text, or parts.
type Content struct {
	Text  wire.Opt[string] `wire:"string"`
	Parts wire.Opt[[]Part] `wire:"array"`
}

// Part is a part of a message, of an output or of reasoning.
type Part struct {
	Type    wire.Opt[string] `json:"type"`
	Text    wire.Opt[string] `json:"text"`
	Refusal wire.Opt[string] `json:"refusal"`

	ImageURL   wire.Opt[ImageURL]   `json:"image_url"`
	FileID     wire.Opt[string]     `json:"file_id"`
	FileData   wire.Opt[string]     `json:"file_data"`
	FileURL    wire.Opt[string]     `json:"file_url"`
	Filename   wire.Opt[string]     `json:"filename"`
	Detail     wire.Opt[string]     `json:"detail"`
	InputAudio wire.Opt[InputAudio] `json:"input_audio"`

	Annotations wire.Opt[[]wire.Raw] `json:"annotations"`
	Logprobs    wire.Raw             `json:"logprobs"`

	PromptCacheBreakpoint wire.Opt[CacheBreakpoint] `json:"prompt_cache_breakpoint"`
	ExtraContent          wire.Raw                  `json:"extra_content"`
	Extra                 wire.Extra                `json:"-"`
}

// ImageURL is an address, http or data. Clients of Chat Completions wrap it in an
// object, which OpenAI refuses and others accept.
type ImageURL struct {
	URL    wire.Opt[string]      `wire:"string"`
	Object wire.Opt[wire.Object] `wire:"object"`
}

// InputAudio is sound.
type InputAudio struct {
	Data   wire.Opt[string] `json:"data"`   // base64
	Format wire.Opt[string] `json:"format"` // mp3, wav
	Extra  wire.Extra       `json:"-"`
}

// CacheBreakpoint asks to cache the prompt up to a part.
type CacheBreakpoint struct {
	TTL   wire.Opt[string] `json:"ttl"`
	Extra wire.Extra       `json:"-"`
}

var (
	requestShape   = wire.Describe[Request]()
	toolShape      = wire.Describe[Tool]()
	namedToolShape = wire.Describe[NamedTool]()
	itemShape      = wire.Describe[Item]()

	additionalShape = wire.Describe[AdditionalTools]()
	searchShape     = wire.Describe[SearchItem]()

	partShape = wire.Describe[Part]()
)
