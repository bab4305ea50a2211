package anthropic

import (
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Response is a non-streaming response.
type Response struct {
	ID           wire.Opt[string]              `json:"id"`
	Type         wire.Opt[string]              `json:"type"` // message
	Role         wire.Opt[string]              `json:"role"` // assistant
	Model        wire.Opt[string]              `json:"model"`
	Content      wire.Opt[wire.List[wire.Raw]] `json:"content"`
	StopReason   wire.Opt[string]              `json:"stop_reason"`
	StopSequence wire.Opt[wire.Text]           `json:"stop_sequence"`
	StopDetails  wire.Opt[StopDetails]         `json:"stop_details"`
	Usage        wire.Opt[Usage]               `json:"usage"`
	Error        wire.Raw                      `json:"error"` // in place of a response
	Extra        wire.Extra                    `json:"-"`
}

// StopDetails explains a refusal.
type StopDetails struct {
	Type        wire.Opt[string]    `json:"type"` // refusal
	Category    wire.Opt[string]    `json:"category"`
	Explanation wire.Opt[wire.Text] `json:"explanation"`
	Extra       wire.Extra          `json:"-"`
}

// Usage counts tokens. InputTokens excludes tokens read from or written to the cache.
// OutputTokens includes thinking.
type Usage struct {
	InputTokens              wire.Opt[wire.Number]   `json:"input_tokens"`
	CacheCreationInputTokens wire.Opt[wire.Number]   `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     wire.Opt[wire.Number]   `json:"cache_read_input_tokens"`
	OutputTokens             wire.Opt[wire.Number]   `json:"output_tokens"`
	OutputTokensDetails      wire.Opt[OutputDetails] `json:"output_tokens_details"`
	ServiceTier              wire.Opt[string]        `json:"service_tier"`
	Extra                    wire.Extra              `json:"-"`
}

// cacheCreation splits the tokens that are written to the cache by their lifetime. It is among the unknown members of
// Usage.
type cacheCreation struct {
	Minutes wire.Opt[wire.Number] `json:"ephemeral_5m_input_tokens"`
	Hour    wire.Opt[wire.Number] `json:"ephemeral_1h_input_tokens"`
}

// OutputDetails splits the output tokens.
type OutputDetails struct {
	ThinkingTokens wire.Opt[wire.Number] `json:"thinking_tokens"`
	Extra          wire.Extra            `json:"-"`
}
