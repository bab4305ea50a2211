package anthropic

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// Request is the body of POST /v1/messages.
type Request struct {
	Model         wire.Opt[string]       `json:"model"`
	MaxTokens     wire.Opt[wire.Number]  `json:"max_tokens"`
	System        wire.Opt[Content]      `json:"system"`
	Messages      wire.Opt[[]Message]    `json:"messages"`
	Tools         wire.Opt[[]wire.Raw]   `json:"tools"`
	ToolChoice    wire.Opt[ToolChoice]   `json:"tool_choice"`
	Thinking      wire.Opt[Thinking]     `json:"thinking"`
	OutputConfig  wire.Opt[OutputConfig] `json:"output_config"`
	OutputFormat  wire.Opt[Format]       `json:"output_format"` // the beta's place for output_config.format
	StopSequences wire.Opt[[]wire.Text]  `json:"stop_sequences"`
	Temperature   wire.Opt[wire.Number]  `json:"temperature"`
	TopP          wire.Opt[wire.Number]  `json:"top_p"`
	TopK          wire.Opt[wire.Number]  `json:"top_k"`
	Metadata      wire.Opt[Metadata]     `json:"metadata"`
	ServiceTier   wire.Opt[string]       `json:"service_tier"` // auto, standard_only
	Speed         wire.Opt[string]       `json:"speed"`        // standard, fast
	CacheControl  wire.Opt[CacheControl] `json:"cache_control"`
	Stream        wire.Opt[bool]         `json:"stream"`
	Thread        wire.Raw               `json:"thread"`
	Extra         wire.Extra             `json:"-"`
}

// Message is one message.
type Message struct {
	Role    wire.Opt[string]  `json:"role"` // user, assistant, system
	Content wire.Opt[Content] `json:"content"`
	Extra   wire.Extra        `json:"-"`
}

// Content is text, or a list of blocks. Blocks are kept as they came, because
// most kinds of them mean something to the vendor only.
type Content struct {
	Text   wire.Opt[wire.Text]  `wire:"string"`
	Blocks wire.Opt[[]wire.Raw] `wire:"array"`
}

// Block is a content block of any of the kinds that the package understands.
type Block struct {
	Type wire.Opt[string] `json:"type"`

	ID        wire.Opt[string] `json:"id"`   // tool_use
	Name      wire.Opt[string] `json:"name"` // tool_use
	Input     wire.Raw         `json:"input"`
	ToolUseID wire.Opt[string] `json:"tool_use_id"` // tool_result

	Text      wire.Opt[wire.Text] `json:"text"`
	Thinking  wire.Opt[wire.Text] `json:"thinking"`
	Signature wire.Opt[string]    `json:"signature"`
	Data      wire.Opt[string]    `json:"data"` // redacted_thinking

	Source  wire.Opt[Source]    `json:"source"` // image, document
	Title   wire.Opt[wire.Text] `json:"title"`
	Context wire.Opt[wire.Text] `json:"context"`

	Content wire.Opt[Content] `json:"content"` // tool_result
	IsError wire.Opt[bool]    `json:"is_error"`

	Citations    wire.Raw               `json:"citations"` // a list on text, an object on documents
	CacheControl wire.Opt[CacheControl] `json:"cache_control"`
	ExtraContent wire.Raw               `json:"extra_content"` // the carrier of other protocols' seals
	Extra        wire.Extra             `json:"-"`
}

// Source is where an image or a document comes from.
type Source struct {
	Type      wire.Opt[string]    `json:"type"` // base64, url, file, text, content
	MediaType wire.Opt[string]    `json:"media_type"`
	Data      wire.Opt[wire.Text] `json:"data"`
	URL       wire.Opt[wire.Text] `json:"url"`
	FileID    wire.Opt[string]    `json:"file_id"`
	Extra     wire.Extra          `json:"-"`
}

// CacheControl marks the end of a prefix that is worth caching.
type CacheControl struct {
	Type  wire.Opt[string] `json:"type"` // ephemeral
	TTL   wire.Opt[string] `json:"ttl"`  // 5m, 1h
	Extra wire.Extra       `json:"-"`
}

// Tool is a tool that the client runs.
type Tool struct {
	Type         wire.Opt[string]       `json:"type"` // custom, which is an ordinary function, or absent
	Name         wire.Opt[string]       `json:"name"`
	Description  wire.Opt[wire.Text]    `json:"description"`
	InputSchema  wire.Raw               `json:"input_schema"`
	Strict       wire.Opt[bool]         `json:"strict"`
	CacheControl wire.Opt[CacheControl] `json:"cache_control"`
	Extra        wire.Extra             `json:"-"`
}

// ToolChoice says which tools may or must be used.
type ToolChoice struct {
	Type                   wire.Opt[string] `json:"type"` // auto, any, tool, none
	Name                   wire.Opt[string] `json:"name"`
	DisableParallelToolUse wire.Opt[bool]   `json:"disable_parallel_tool_use"`
	Extra                  wire.Extra       `json:"-"`
}

// Thinking says whether the model thinks.
type Thinking struct {
	Type         wire.Opt[string]      `json:"type"` // enabled, adaptive, disabled, between_tools
	BudgetTokens wire.Opt[wire.Number] `json:"budget_tokens"`
	Display      wire.Opt[string]      `json:"display"` // summarized, omitted
	Extra        wire.Extra            `json:"-"`
}

// OutputConfig says how hard the model tries and what its answer looks like.
type OutputConfig struct {
	Effort wire.Opt[string] `json:"effort"`
	Format wire.Opt[Format] `json:"format"`
	Extra  wire.Extra       `json:"-"`
}

// Format is the form of a structured answer.
type Format struct {
	Type   wire.Opt[string] `json:"type"` // json_schema
	Schema wire.Raw         `json:"schema"`
	Extra  wire.Extra       `json:"-"`
}

// Metadata is on whose behalf a request is made.
type Metadata struct {
	UserID wire.Opt[wire.Text] `json:"user_id"`
	Extra  wire.Extra          `json:"-"`
}

// Response is a whole answer.
type Response struct {
	ID           wire.Opt[string]      `json:"id"`
	Type         wire.Opt[string]      `json:"type"` // message
	Role         wire.Opt[string]      `json:"role"` // assistant
	Model        wire.Opt[string]      `json:"model"`
	Content      wire.Opt[[]wire.Raw]  `json:"content"`
	StopReason   wire.Opt[string]      `json:"stop_reason"`
	StopSequence wire.Opt[wire.Text]   `json:"stop_sequence"`
	StopDetails  wire.Opt[StopDetails] `json:"stop_details"`
	Usage        wire.Opt[Usage]       `json:"usage"`
	Error        wire.Raw              `json:"error"` // in place of an answer
	Extra        wire.Extra            `json:"-"`
}

// StopDetails says why a request was refused.
type StopDetails struct {
	Type        wire.Opt[string]    `json:"type"` // refusal
	Category    wire.Opt[string]    `json:"category"`
	Explanation wire.Opt[wire.Text] `json:"explanation"`
	Extra       wire.Extra          `json:"-"`
}

// Usage counts tokens. InputTokens leaves out what the cache was read or written
// for; OutputTokens holds thinking too.
type Usage struct {
	InputTokens              wire.Opt[wire.Number]   `json:"input_tokens"`
	CacheCreationInputTokens wire.Opt[wire.Number]   `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     wire.Opt[wire.Number]   `json:"cache_read_input_tokens"`
	OutputTokens             wire.Opt[wire.Number]   `json:"output_tokens"`
	OutputTokensDetails      wire.Opt[OutputDetails] `json:"output_tokens_details"`
	ServiceTier              wire.Opt[string]        `json:"service_tier"`
	Extra                    wire.Extra              `json:"-"`
}

// OutputDetails splits the output tokens.
type OutputDetails struct {
	ThinkingTokens wire.Opt[wire.Number] `json:"thinking_tokens"`
	Extra          wire.Extra            `json:"-"`
}

var (
	requestShape  = wire.Describe[Request]()
	blockShape    = wire.Describe[Block]()
	toolShape     = wire.Describe[Tool]()
	responseShape = wire.Describe[Response]()
	usageShape    = wire.Describe[Usage]()
	detailsShape  = wire.Describe[StopDetails]()
)
