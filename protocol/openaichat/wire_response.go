package openaichat

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// The values of an answer's object member.
const (
	ObjectCompletion = "chat.completion"
	ObjectChunk      = "chat.completion.chunk"
)

// Response is an answer that is not streamed.
type Response struct {
	ID                wire.Opt[string]           `json:"id"`
	Object            wire.Opt[string]           `json:"object"`
	Created           wire.Opt[wire.Number]      `json:"created"` // seconds since 1970
	Model             wire.Opt[string]           `json:"model"`
	Choices           wire.Opt[[]Choice]         `json:"choices"`
	Usage             wire.Opt[Usage]            `json:"usage"`
	ServiceTier       wire.Opt[ServiceTier]      `json:"service_tier"`
	SystemFingerprint wire.Opt[string]           `json:"system_fingerprint"`
	Moderation        wire.Opt[ModerationResult] `json:"moderation"`
	Metadata          wire.Opt[wire.Object]      `json:"metadata"`
	Extra             wire.Extra                 `json:"-"`
}

// FinishReason says why a choice ended. It is an open set.
type FinishReason string

// The finish reasons. FinishFunctionCall is deprecated.
const (
	FinishStop          FinishReason = "stop"
	FinishLength        FinishReason = "length"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishContentFilter FinishReason = "content_filter"
	FinishFunctionCall  FinishReason = "function_call"
)

// Choice is one of the answers to a request.
type Choice struct {
	Index        wire.Opt[wire.Number]  `json:"index"`
	Message      wire.Opt[Message]      `json:"message"`
	Logprobs     wire.Opt[Logprobs]     `json:"logprobs"`
	FinishReason wire.Opt[FinishReason] `json:"finish_reason"`
	Extra        wire.Extra             `json:"-"`
}

// Logprobs are the probabilities of the tokens of a text and of a refusal.
type Logprobs struct {
	Content wire.Opt[[]TokenLogprob] `json:"content"`
	Refusal wire.Opt[[]TokenLogprob] `json:"refusal"`
	Extra   wire.Extra               `json:"-"`
}

// TokenLogprob is a token, its probability and those of its rivals.
type TokenLogprob struct {
	Token       wire.Opt[wire.Text]      `json:"token"`
	Logprob     wire.Opt[wire.Number]    `json:"logprob"`
	Bytes       wire.Raw                 `json:"bytes"` // array of numbers, or null
	TopLogprobs wire.Opt[[]TokenLogprob] `json:"top_logprobs"`
	Extra       wire.Extra               `json:"-"`
}

// Usage counts tokens. Cached and written tokens are part of the prompt's,
// reasoning is part of the completion's.
type Usage struct {
	PromptTokens            wire.Opt[wire.Number]             `json:"prompt_tokens"`
	CompletionTokens        wire.Opt[wire.Number]             `json:"completion_tokens"`
	TotalTokens             wire.Opt[wire.Number]             `json:"total_tokens"`
	PromptTokensDetails     wire.Opt[PromptTokensDetails]     `json:"prompt_tokens_details"`
	CompletionTokensDetails wire.Opt[CompletionTokensDetails] `json:"completion_tokens_details"`
	Extra                   wire.Extra                        `json:"-"`
}

// PromptTokensDetails sorts the prompt's tokens.
type PromptTokensDetails struct {
	CachedTokens     wire.Opt[wire.Number] `json:"cached_tokens"`
	CacheWriteTokens wire.Opt[wire.Number] `json:"cache_write_tokens"`
	AudioTokens      wire.Opt[wire.Number] `json:"audio_tokens"`
	ImageTokens      wire.Opt[wire.Number] `json:"image_tokens"`
	TextTokens       wire.Opt[wire.Number] `json:"text_tokens"`
	Extra            wire.Extra            `json:"-"`
}

// CompletionTokensDetails sorts the completion's tokens.
type CompletionTokensDetails struct {
	ReasoningTokens          wire.Opt[wire.Number] `json:"reasoning_tokens"`
	AudioTokens              wire.Opt[wire.Number] `json:"audio_tokens"`
	TextTokens               wire.Opt[wire.Number] `json:"text_tokens"`
	AcceptedPredictionTokens wire.Opt[wire.Number] `json:"accepted_prediction_tokens"`
	RejectedPredictionTokens wire.Opt[wire.Number] `json:"rejected_prediction_tokens"`
	Extra                    wire.Extra            `json:"-"`
}

// ModerationResult is what moderation found on either side.
type ModerationResult struct {
	Input  wire.Opt[ModerationFindings] `json:"input"`
	Output wire.Opt[ModerationFindings] `json:"output"`
	Extra  wire.Extra                   `json:"-"`
}

// ModerationFindings are results, or the error that came instead of them.
type ModerationFindings struct {
	Type    wire.Opt[string]     `json:"type"` // moderation_results, error
	Model   wire.Opt[string]     `json:"model"`
	Results wire.Opt[[]wire.Raw] `json:"results"`
	Code    wire.Opt[string]     `json:"code"`
	Message wire.Opt[string]     `json:"message"`
	Extra   wire.Extra           `json:"-"`
}

// ErrorBody is the body of an error answer.
type ErrorBody struct {
	Error wire.Opt[ErrorValue] `json:"error"`
	Extra wire.Extra           `json:"-"`
}

// ErrorValue is an error member: OpenAI's object, or whatever else a server has
// put there.
type ErrorValue struct {
	Object wire.Opt[ErrorObject] `wire:"object"`
	Text   wire.Opt[wire.Text]   `wire:"string"`
	Other  wire.Raw              `wire:"any"`
}

// ErrorObject says what went wrong.
type ErrorObject struct {
	Message      wire.Opt[wire.Text] `json:"message"`
	Type         wire.Opt[string]    `json:"type"`
	Param        wire.Opt[string]    `json:"param"`
	Code         wire.Opt[ErrorCode] `json:"code"`
	Misalignment wire.Raw            `json:"misalignment"`
	Extra        wire.Extra          `json:"-"`
}

// ErrorCode is a word, or with some servers a number.
type ErrorCode struct {
	Word   wire.Opt[string]      `wire:"string"`
	Number wire.Opt[wire.Number] `wire:"number"`
	Other  wire.Raw              `wire:"any"`
}
