package openaichat

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// Request is the body of POST /v1/chat/completions.
type Request struct {
	Model               wire.Opt[string]             `json:"model"`
	Messages            wire.Opt[[]Message]          `json:"messages"`
	Stream              wire.Opt[bool]               `json:"stream"`
	StreamOptions       wire.Opt[StreamOptions]      `json:"stream_options"`
	MaxCompletionTokens wire.Opt[wire.Number]        `json:"max_completion_tokens"`
	MaxTokens           wire.Opt[wire.Number]        `json:"max_tokens"` // deprecated by MaxCompletionTokens
	N                   wire.Opt[wire.Number]        `json:"n"`
	Temperature         wire.Opt[wire.Number]        `json:"temperature"`
	TopP                wire.Opt[wire.Number]        `json:"top_p"`
	FrequencyPenalty    wire.Opt[wire.Number]        `json:"frequency_penalty"`
	PresencePenalty     wire.Opt[wire.Number]        `json:"presence_penalty"`
	LogitBias           wire.Opt[wire.Object]        `json:"logit_bias"`
	Logprobs            wire.Opt[bool]               `json:"logprobs"`
	TopLogprobs         wire.Opt[wire.Number]        `json:"top_logprobs"` // needs Logprobs
	Seed                wire.Opt[wire.Number]        `json:"seed"`
	Stop                wire.Opt[Stop]               `json:"stop"`
	Tools               wire.Opt[[]Tool]             `json:"tools"`
	ToolChoice          wire.Opt[ToolChoice]         `json:"tool_choice"`
	ParallelToolCalls   wire.Opt[bool]               `json:"parallel_tool_calls"`
	Functions           wire.Opt[[]Function]         `json:"functions"`     // deprecated by Tools
	FunctionCall        wire.Opt[FunctionCallChoice] `json:"function_call"` // deprecated by ToolChoice
	ResponseFormat      wire.Opt[ResponseFormat]     `json:"response_format"`
	ReasoningEffort     wire.Opt[ReasoningEffort]    `json:"reasoning_effort"`
	Verbosity           wire.Opt[Verbosity]          `json:"verbosity"`
	Modalities          wire.Opt[[]Modality]         `json:"modalities"`
	Audio               wire.Opt[AudioOptions]       `json:"audio"`
	Prediction          wire.Opt[Prediction]         `json:"prediction"`
	WebSearchOptions    wire.Opt[WebSearchOptions]   `json:"web_search_options"`
	ServiceTier         wire.Opt[ServiceTier]        `json:"service_tier"`
	Store               wire.Opt[bool]               `json:"store"`
	Metadata            wire.Opt[wire.Object]        `json:"metadata"`
	Moderation          wire.Opt[ModerationOptions]  `json:"moderation"`

	PromptCacheKey       wire.Opt[string]             `json:"prompt_cache_key"`
	PromptCacheOptions   wire.Opt[PromptCacheOptions] `json:"prompt_cache_options"`
	PromptCacheRetention wire.Opt[string]             `json:"prompt_cache_retention"` // deprecated by PromptCacheOptions
	SafetyIdentifier     wire.Opt[string]             `json:"safety_identifier"`
	User                 wire.Opt[string]             `json:"user"` // deprecated by SafetyIdentifier and PromptCacheKey

	NvExt wire.Raw   `json:"nvext"` // NVIDIA Dynamo's own members
	Extra wire.Extra `json:"-"`
}

// ReasoningEffort says how long the model may think. It is an open set.
type ReasoningEffort string

// The efforts; which of them a model takes is the model's business.
const (
	EffortNone    ReasoningEffort = "none"
	EffortMinimal ReasoningEffort = "minimal"
	EffortLow     ReasoningEffort = "low"
	EffortMedium  ReasoningEffort = "medium"
	EffortHigh    ReasoningEffort = "high"
	EffortXHigh   ReasoningEffort = "xhigh"
	EffortMax     ReasoningEffort = "max"
)

// Verbosity says how long answers should be. It is an open set.
type Verbosity string

// The verbosities.
const (
	VerbosityLow    Verbosity = "low"
	VerbosityMedium Verbosity = "medium"
	VerbosityHigh   Verbosity = "high"
)

// Modality is a kind of output. It is an open set.
type Modality string

// The modalities.
const (
	ModalityText  Modality = "text"
	ModalityAudio Modality = "audio"
)

// ServiceTier is the class of service. It is an open set.
type ServiceTier string

// The service tiers. The answer reports TierPriority for TierFast.
const (
	TierAuto     ServiceTier = "auto"
	TierDefault  ServiceTier = "default"
	TierFlex     ServiceTier = "flex"
	TierScale    ServiceTier = "scale"
	TierPriority ServiceTier = "priority"
	TierFast     ServiceTier = "fast"
)

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

// StreamOptions are the options of a streamed answer.
type StreamOptions struct {
	IncludeUsage       wire.Opt[bool] `json:"include_usage"`
	IncludeObfuscation wire.Opt[bool] `json:"include_obfuscation"`
	Extra              wire.Extra     `json:"-"`
}

// ResponseFormat is the form that the answer must have.
type ResponseFormat struct {
	Type       wire.Opt[FormatType] `json:"type"`
	JSONSchema wire.Opt[JSONSchema] `json:"json_schema"`
	Extra      wire.Extra           `json:"-"`
}

// FormatType is the kind of a response format. It is an open set.
type FormatType string

// The response formats.
const (
	FormatText       FormatType = "text"
	FormatJSONObject FormatType = "json_object"
	FormatJSONSchema FormatType = "json_schema"
)

// JSONSchema is a named schema that the answer must follow.
type JSONSchema struct {
	Name        wire.Opt[string]    `json:"name"`
	Description wire.Opt[wire.Text] `json:"description"`
	Schema      wire.Raw            `json:"schema"`
	Strict      wire.Opt[bool]      `json:"strict"`
	Extra       wire.Extra          `json:"-"`
}

// AudioOptions say how spoken output should be.
type AudioOptions struct {
	Format wire.Opt[string] `json:"format"`
	Voice  wire.Opt[Voice]  `json:"voice"`
	Extra  wire.Extra       `json:"-"`
}

// Voice is a voice's name, or an object with the id of a voice of one's own.
type Voice struct {
	Name   wire.Opt[string]    `wire:"string"`
	Custom wire.Opt[Reference] `wire:"object"`
}

// Reference names something by its id.
type Reference struct {
	ID    wire.Opt[string] `json:"id"`
	Extra wire.Extra       `json:"-"`
}

// Prediction is text that most of the answer is expected to equal.
type Prediction struct {
	Type    wire.Opt[string]  `json:"type"` // "content"
	Content wire.Opt[Content] `json:"content"`
	Extra   wire.Extra        `json:"-"`
}

// WebSearchOptions are the options of search models.
type WebSearchOptions struct {
	SearchContextSize wire.Opt[string]       `json:"search_context_size"` // low, medium, high
	UserLocation      wire.Opt[UserLocation] `json:"user_location"`
	Extra             wire.Extra             `json:"-"`
}

// UserLocation is where the user is, roughly.
type UserLocation struct {
	Type        wire.Opt[string]   `json:"type"` // "approximate"
	Approximate wire.Opt[Location] `json:"approximate"`
	Extra       wire.Extra         `json:"-"`
}

// Location is a place.
type Location struct {
	City     wire.Opt[string] `json:"city"`
	Country  wire.Opt[string] `json:"country"` // two letters, ISO 3166-1
	Region   wire.Opt[string] `json:"region"`
	Timezone wire.Opt[string] `json:"timezone"` // IANA name
	Extra    wire.Extra       `json:"-"`
}

// ModerationOptions ask for moderation of the request and its answer.
type ModerationOptions struct {
	Model  wire.Opt[string]           `json:"model"`
	Policy wire.Opt[ModerationPolicy] `json:"policy"`
	Extra  wire.Extra                 `json:"-"`
}

// ModerationPolicy says what moderation does on either side.
type ModerationPolicy struct {
	Input  wire.Opt[ModerationMode] `json:"input"`
	Output wire.Opt[ModerationMode] `json:"output"`
	Extra  wire.Extra               `json:"-"`
}

// ModerationMode is "score" or "block".
type ModerationMode struct {
	Mode  wire.Opt[string] `json:"mode"`
	Extra wire.Extra       `json:"-"`
}

// PromptCacheOptions steer the provider's prompt cache.
type PromptCacheOptions struct {
	Mode  wire.Opt[string] `json:"mode"` // implicit, explicit
	TTL   wire.Opt[string] `json:"ttl"`
	Extra wire.Extra       `json:"-"`
}
