package converse

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// Response is a non-streaming response.
type Response struct {
	Output           wire.Opt[Output]      `json:"output"`
	StopReason       wire.Opt[string]      `json:"stopReason"`
	Usage            wire.Opt[Usage]       `json:"usage"`
	Metrics          wire.Raw              `json:"metrics"`
	AdditionalFields wire.Opt[wire.Object] `json:"additionalModelResponseFields"`
	ServiceTier      wire.Opt[ServiceTier] `json:"serviceTier"`
	Extra            wire.Extra            `json:"-"`
}

// Output is a union.
type Output struct {
	Message wire.Opt[Message] `json:"message"`
	Extra   wire.Extra        `json:"-"`
}

// Usage counts tokens.
type Usage struct {
	InputTokens           wire.Opt[wire.Number] `json:"inputTokens"`
	OutputTokens          wire.Opt[wire.Number] `json:"outputTokens"`
	TotalTokens           wire.Opt[wire.Number] `json:"totalTokens"`
	CacheReadInputTokens  wire.Opt[wire.Number] `json:"cacheReadInputTokens"`
	CacheWriteInputTokens wire.Opt[wire.Number] `json:"cacheWriteInputTokens"`
	Extra                 wire.Extra            `json:"-"`
}

// cacheDetail is the number of tokens that are written to the cache with one lifetime. A list of them is among the
// unknown members of Usage.
type cacheDetail struct {
	InputTokens wire.Opt[wire.Number] `json:"inputTokens"`
	TTL         wire.Opt[string]      `json:"ttl"`
}

// Lifetimes of cache entries.
const (
	minutes = "5m"
	hour    = "1h"
)

// StreamEvent is the union ConverseStreamOutput. Exceptions are in Extra.
type StreamEvent struct {
	MessageStart      wire.Opt[Message]       `json:"messageStart"`
	ContentBlockStart wire.Opt[BlockStart]    `json:"contentBlockStart"`
	ContentBlockDelta wire.Opt[BlockDelta]    `json:"contentBlockDelta"`
	ContentBlockStop  wire.Opt[BlockPosition] `json:"contentBlockStop"`
	MessageStop       wire.Opt[Response]      `json:"messageStop"` // it has the stop members of a response
	Metadata          wire.Opt[Response]      `json:"metadata"`    // it has the other members of a response
	Extra             wire.Extra              `json:"-"`
}

// BlockPosition is the position of a block in the message.
type BlockPosition struct {
	Index wire.Opt[wire.Number] `json:"contentBlockIndex"`
	Extra wire.Extra            `json:"-"`
}

// BlockStart opens a block. Text and reasoning begin without it.
type BlockStart struct {
	Start wire.Opt[StartUnion]  `json:"start"`
	Index wire.Opt[wire.Number] `json:"contentBlockIndex"`
	Extra wire.Extra            `json:"-"`
}

// StartUnion is a union.
type StartUnion struct {
	ToolUse    wire.Opt[ToolUse]    `json:"toolUse"`
	ToolResult wire.Opt[ToolResult] `json:"toolResult"`
	Image      wire.Opt[Media]      `json:"image"`
	Extra      wire.Extra           `json:"-"`
}

// BlockDelta is a part of a block.
type BlockDelta struct {
	Delta wire.Opt[Delta]       `json:"delta"`
	Index wire.Opt[wire.Number] `json:"contentBlockIndex"`
	Extra wire.Extra            `json:"-"`
}

// Delta is a union.
type Delta struct {
	Text       wire.Opt[wire.Text]           `json:"text"`
	ToolUse    wire.Opt[InputDelta]          `json:"toolUse"`
	ToolResult wire.Opt[wire.List[wire.Raw]] `json:"toolResult"`
	Reasoning  wire.Opt[ReasoningDelta]      `json:"reasoningContent"`
	Citation   wire.Raw                      `json:"citation"`
	Image      wire.Opt[Media]               `json:"image"`
	Extra      wire.Extra                    `json:"-"`
}

// InputDelta is a part of a call's arguments.
type InputDelta struct {
	Input wire.Opt[wire.Text] `json:"input"`
	Extra wire.Extra          `json:"-"`
}

// ReasoningDelta is a union.
type ReasoningDelta struct {
	Text            wire.Opt[wire.Text] `json:"text"`
	RedactedContent wire.Opt[string]    `json:"redactedContent"`
	Signature       wire.Opt[string]    `json:"signature"`
	Extra           wire.Extra          `json:"-"`
}
