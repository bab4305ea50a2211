package gemini

import (
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Response is a non-streaming response, or one event of a stream.
type Response struct {
	Candidates     wire.Opt[wire.List[Candidate]] `json:"candidates"`
	PromptFeedback wire.Opt[PromptFeedback]       `json:"promptFeedback"`
	UsageMetadata  wire.Opt[Usage]                `json:"usageMetadata"`
	ModelVersion   wire.Opt[string]               `json:"modelVersion"`
	ResponseID     wire.Opt[string]               `json:"responseId"`
	Extra          wire.Extra                     `json:"-"`
}

// Candidate is one choice of a response.
type Candidate struct {
	Content      wire.Raw              `json:"content"`
	FinishReason wire.Opt[string]      `json:"finishReason"`
	Index        wire.Opt[wire.Number] `json:"index"`
	Extra        wire.Extra            `json:"-"`
}

// PromptFeedback is the reason for which a prompt was blocked.
type PromptFeedback struct {
	BlockReason wire.Opt[string] `json:"blockReason"`
	Extra       wire.Extra       `json:"-"`
}

// Usage counts tokens. The prompt's count includes cached tokens and excludes those
// that tools added. The candidates' count excludes thoughts.
type Usage struct {
	PromptTokenCount        wire.Opt[wire.Number] `json:"promptTokenCount"`
	CandidatesTokenCount    wire.Opt[wire.Number] `json:"candidatesTokenCount"`
	TotalTokenCount         wire.Opt[wire.Number] `json:"totalTokenCount"`
	CachedContentTokenCount wire.Opt[wire.Number] `json:"cachedContentTokenCount"`
	ThoughtsTokenCount      wire.Opt[wire.Number] `json:"thoughtsTokenCount"`
	ToolUsePromptTokenCount wire.Opt[wire.Number] `json:"toolUsePromptTokenCount"`
	Extra                   wire.Extra            `json:"-"`
}
