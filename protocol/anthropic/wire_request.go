package anthropic

import (
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Request is the body of POST /v1/messages.
type Request struct {
	Model         wire.Opt[string]              `json:"model"`
	MaxTokens     wire.Opt[wire.Number]         `json:"max_tokens"`
	System        wire.Opt[Content]             `json:"system"`
	Messages      wire.Opt[wire.List[Message]]  `json:"messages"`
	Tools         wire.Opt[wire.List[wire.Raw]] `json:"tools"`
	ToolChoice    wire.Opt[ToolChoice]          `json:"tool_choice"`
	Thinking      wire.Opt[Thinking]            `json:"thinking"`
	OutputConfig  wire.Opt[OutputConfig]        `json:"output_config"`
	OutputFormat  wire.Opt[Format]              `json:"output_format"` // the beta's place for output_config.format
	StopSequences wire.Opt[[]wire.Text]         `json:"stop_sequences"`
	Temperature   wire.Opt[wire.Number]         `json:"temperature"`
	TopP          wire.Opt[wire.Number]         `json:"top_p"`
	TopK          wire.Opt[wire.Number]         `json:"top_k"`
	Metadata      wire.Opt[Metadata]            `json:"metadata"`
	ServiceTier   wire.Opt[string]              `json:"service_tier"` // auto, standard_only
	Speed         wire.Opt[string]              `json:"speed"`        // standard, fast
	CacheControl  wire.Opt[CacheControl]        `json:"cache_control"`
	Stream        wire.Opt[bool]                `json:"stream"`
	Thread        wire.Raw                      `json:"thread"`
	Extra         wire.Extra                    `json:"-"`
}

// Message is one message.
type Message struct {
	Role    wire.Opt[string]  `json:"role"` // user, assistant, system
	Content wire.Opt[Content] `json:"content"`
	Extra   wire.Extra        `json:"-"`
}

// Content is text, or a list of blocks. Blocks are not decoded here, because most
// types are known only to the vendor.
type Content struct {
	Text   wire.Opt[wire.Text]           `wire:"string"`
	Blocks wire.Opt[wire.List[wire.Raw]] `wire:"array"`
}

// Block is a content block of a type that the package decodes.
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

// Source is the content of an image or a document.
type Source struct {
	Type      wire.Opt[string]    `json:"type"` // base64, url, file, text, content
	MediaType wire.Opt[string]    `json:"media_type"`
	Data      wire.Opt[wire.Text] `json:"data"`
	URL       wire.Opt[wire.Text] `json:"url"`
	FileID    wire.Opt[string]    `json:"file_id"`
	Extra     wire.Extra          `json:"-"`
}

// CacheControl marks the end of a prefix that the vendor caches.
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

// ToolChoice controls which tools the model calls.
type ToolChoice struct {
	Type                   wire.Opt[string] `json:"type"` // auto, any, tool, none
	Name                   wire.Opt[string] `json:"name"`
	DisableParallelToolUse wire.Opt[bool]   `json:"disable_parallel_tool_use"`
	Extra                  wire.Extra       `json:"-"`
}

// Thinking controls thinking.
type Thinking struct {
	Type         wire.Opt[string]      `json:"type"` // enabled, adaptive, disabled, between_tools
	BudgetTokens wire.Opt[wire.Number] `json:"budget_tokens"`
	Display      wire.Opt[string]      `json:"display"` // summarized, omitted
	Extra        wire.Extra            `json:"-"`
}

// OutputConfig sets the effort and the format of the response.
type OutputConfig struct {
	Effort wire.Opt[string] `json:"effort"`
	Format wire.Opt[Format] `json:"format"`
	Extra  wire.Extra       `json:"-"`
}

// Format is the format of a structured response.
type Format struct {
	Type   wire.Opt[string] `json:"type"` // json_schema
	Schema wire.Raw         `json:"schema"`
	Extra  wire.Extra       `json:"-"`
}

// Metadata names the end user of a request.
type Metadata struct {
	UserID wire.Opt[wire.Text] `json:"user_id"`
	Extra  wire.Extra          `json:"-"`
}
