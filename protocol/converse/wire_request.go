package converse

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// Request is the body of Converse and ConverseStream.
type Request struct {
	Messages         wire.Opt[wire.List[Message]]  `json:"messages"`
	System           wire.Opt[wire.List[wire.Raw]] `json:"system"`
	InferenceConfig  wire.Opt[InferenceConfig]     `json:"inferenceConfig"`
	ToolConfig       wire.Opt[ToolConfig]          `json:"toolConfig"`
	OutputConfig     wire.Opt[OutputConfig]        `json:"outputConfig"`
	ServiceTier      wire.Opt[ServiceTier]         `json:"serviceTier"`
	RequestMetadata  wire.Opt[wire.Object]         `json:"requestMetadata"`
	AdditionalFields wire.Opt[AdditionalFields]    `json:"additionalModelRequestFields"`
	ResponsePaths    wire.Opt[[]string]            `json:"additionalModelResponseFieldPaths"`
	Extra            wire.Extra                    `json:"-"`
}

// Message is one message.
type Message struct {
	Role    wire.Opt[string]              `json:"role"` // user, assistant, system
	Content wire.Opt[wire.List[wire.Raw]] `json:"content"`
	Extra   wire.Extra                    `json:"-"`
}

// InferenceConfig limits and samples the response.
type InferenceConfig struct {
	MaxTokens     wire.Opt[wire.Number] `json:"maxTokens"`
	Temperature   wire.Opt[wire.Number] `json:"temperature"`
	TopP          wire.Opt[wire.Number] `json:"topP"`
	StopSequences wire.Opt[[]wire.Text] `json:"stopSequences"`
	Extra         wire.Extra            `json:"-"`
}

// AdditionalFields are members of the request in the model's own form. Those without a
// field here are in Extra.
type AdditionalFields struct {
	TopK     wire.Opt[wire.Number] `json:"top_k"`
	Thinking wire.Opt[Thinking]    `json:"thinking"`
	Extra    wire.Extra            `json:"-"`
}

// Thinking controls the thinking of Claude.
type Thinking struct {
	Type         wire.Opt[string]      `json:"type"` // enabled, adaptive, disabled, between_tools
	BudgetTokens wire.Opt[wire.Number] `json:"budget_tokens"`
	Extra        wire.Extra            `json:"-"`
}

// ToolConfig declares the tools.
type ToolConfig struct {
	Tools      wire.Opt[wire.List[wire.Raw]] `json:"tools"`
	ToolChoice wire.Opt[ToolChoice]          `json:"toolChoice"`
	Extra      wire.Extra                    `json:"-"`
}

// Tool is a union: a tool that the client runs, one that the vendor runs, or the end of a
// prefix that the vendor caches.
type Tool struct {
	ToolSpec   wire.Opt[ToolSpec]   `json:"toolSpec"`
	CachePoint wire.Opt[CachePoint] `json:"cachePoint"`
	Extra      wire.Extra           `json:"-"`
}

// ToolSpec is a tool that the client runs.
type ToolSpec struct {
	Name        wire.Opt[string]      `json:"name"`
	Description wire.Opt[wire.Text]   `json:"description"`
	InputSchema wire.Opt[InputSchema] `json:"inputSchema"`
	Strict      wire.Opt[bool]        `json:"strict"`
	Extra       wire.Extra            `json:"-"`
}

// InputSchema is the schema of a tool's arguments.
type InputSchema struct {
	JSON  wire.Raw   `json:"json"`
	Extra wire.Extra `json:"-"`
}

// ToolChoice is a union.
type ToolChoice struct {
	Auto  wire.Raw           `json:"auto"`
	Any   wire.Raw           `json:"any"`
	Tool  wire.Opt[ToolName] `json:"tool"`
	Extra wire.Extra         `json:"-"`
}

// ToolName names the tool that the model must call.
type ToolName struct {
	Name  wire.Opt[string] `json:"name"`
	Extra wire.Extra       `json:"-"`
}

// OutputConfig sets the effort and the format of the response.
type OutputConfig struct {
	TextFormat wire.Opt[TextFormat] `json:"textFormat"`
	Effort     wire.Opt[string]     `json:"effort"`
	Extra      wire.Extra           `json:"-"`
}

// TextFormat is the format of a structured response.
type TextFormat struct {
	Type      wire.Opt[string]    `json:"type"` // json_schema
	Structure wire.Opt[Structure] `json:"structure"`
	Extra     wire.Extra          `json:"-"`
}

// Structure is a union.
type Structure struct {
	JSONSchema wire.Opt[JSONSchema] `json:"jsonSchema"`
	Extra      wire.Extra           `json:"-"`
}

// JSONSchema is a schema, as a text that contains JSON.
type JSONSchema struct {
	Schema      wire.Opt[wire.Text] `json:"schema"`
	Name        wire.Opt[wire.Text] `json:"name"`
	Description wire.Opt[wire.Text] `json:"description"`
	Extra       wire.Extra          `json:"-"`
}

// ServiceTier selects the service level.
type ServiceTier struct {
	Type  wire.Opt[string] `json:"type"` // priority, default, flex, reserved
	Extra wire.Extra       `json:"-"`
}

// Block is a content block, which is a union: one of its members is set. Blocks of other
// types are in Extra.
type Block struct {
	Text       wire.Opt[wire.Text]  `json:"text"`
	JSON       wire.Raw             `json:"json"` // in a tool result
	Image      wire.Opt[Media]      `json:"image"`
	Document   wire.Opt[Media]      `json:"document"`
	Video      wire.Opt[Media]      `json:"video"`
	Audio      wire.Opt[Media]      `json:"audio"`
	ToolUse    wire.Opt[ToolUse]    `json:"toolUse"`
	ToolResult wire.Opt[ToolResult] `json:"toolResult"`
	CachePoint wire.Opt[CachePoint] `json:"cachePoint"`
	Reasoning  wire.Opt[Reasoning]  `json:"reasoningContent"`
	Citations  wire.Opt[Citations]  `json:"citationsContent"`
	Extra      wire.Extra           `json:"-"`
}

// Media is an image, a document, a video or audio.
type Media struct {
	Format    wire.Opt[string]    `json:"format"`
	Name      wire.Opt[string]    `json:"name"` // of a document
	Source    wire.Opt[Source]    `json:"source"`
	Context   wire.Opt[wire.Text] `json:"context"`   // of a document
	Citations wire.Raw            `json:"citations"` // of a document
	Extra     wire.Extra          `json:"-"`
}

// Source is a union: the content of media, or the place where it is.
type Source struct {
	Bytes      wire.Opt[wire.Text]  `json:"bytes"` // base64
	S3Location wire.Opt[S3Location] `json:"s3Location"`
	Text       wire.Opt[wire.Text]  `json:"text"` // of a document
	Extra      wire.Extra           `json:"-"`
}

// S3Location is an object in a bucket.
type S3Location struct {
	URI   wire.Opt[wire.Text] `json:"uri"`
	Extra wire.Extra          `json:"-"`
}

// ToolUse is a call of a tool.
type ToolUse struct {
	ToolUseID    wire.Opt[string] `json:"toolUseId"`
	Name         wire.Opt[string] `json:"name"`
	Input        wire.Raw         `json:"input"`
	Type         wire.Opt[string] `json:"type"`          // server_tool_use: the vendor runs it
	ExtraContent wire.Raw         `json:"extra_content"` // the carrier of other protocols' seals
	Extra        wire.Extra       `json:"-"`
}

// ToolResult is the output of a tool.
type ToolResult struct {
	ToolUseID wire.Opt[string]              `json:"toolUseId"`
	Content   wire.Opt[wire.List[wire.Raw]] `json:"content"`
	Status    wire.Opt[string]              `json:"status"` // success, error
	Extra     wire.Extra                    `json:"-"`
}

// CachePoint ends a prefix that the vendor caches.
type CachePoint struct {
	Type  wire.Opt[string] `json:"type"` // default
	TTL   wire.Opt[string] `json:"ttl"`  // 5m, 1h
	Extra wire.Extra       `json:"-"`
}

// Reasoning is a union.
type Reasoning struct {
	ReasoningText   wire.Opt[ReasoningText] `json:"reasoningText"`
	RedactedContent wire.Opt[string]        `json:"redactedContent"` // base64
	Extra           wire.Extra              `json:"-"`
}

// ReasoningText is reasoning that the model shows.
type ReasoningText struct {
	Text      wire.Opt[wire.Text] `json:"text"`
	Signature wire.Opt[string]    `json:"signature"`
	Extra     wire.Extra          `json:"-"`
}

// Citations is text with its sources.
type Citations struct {
	Content   wire.Opt[wire.List[CitedText]] `json:"content"`
	Citations wire.Opt[wire.List[wire.Raw]]  `json:"citations"`
	Extra     wire.Extra                     `json:"-"`
}

// CitedText is a union.
type CitedText struct {
	Text  wire.Opt[wire.Text] `json:"text"`
	Extra wire.Extra          `json:"-"`
}
