package openaichat

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// Chunk is the data of one event of a streamed answer.
type Chunk struct {
	ID                wire.Opt[string]           `json:"id"`
	Object            wire.Opt[string]           `json:"object"`
	Created           wire.Opt[wire.Number]      `json:"created"`
	Model             wire.Opt[string]           `json:"model"`
	Choices           wire.Opt[[]ChunkChoice]    `json:"choices"`
	Usage             wire.Opt[Usage]            `json:"usage"`
	ServiceTier       wire.Opt[ServiceTier]      `json:"service_tier"`
	SystemFingerprint wire.Opt[string]           `json:"system_fingerprint"`
	Moderation        wire.Opt[ModerationResult] `json:"moderation"`
	Metadata          wire.Opt[wire.Object]      `json:"metadata"`
	Obfuscation       wire.Opt[string]           `json:"obfuscation"` // padding against traffic analysis
	Error             wire.Opt[ErrorValue]       `json:"error"`       // the stream has failed
	Extra             wire.Extra                 `json:"-"`
}

// ChunkChoice is what a chunk adds to one choice.
type ChunkChoice struct {
	Index        wire.Opt[wire.Number]  `json:"index"`
	Delta        wire.Opt[Delta]        `json:"delta"`
	Logprobs     wire.Opt[Logprobs]     `json:"logprobs"`
	FinishReason wire.Opt[FinishReason] `json:"finish_reason"`
	Extra        wire.Extra             `json:"-"`
}

// Delta is what a chunk adds to a message. Texts are fragments.
type Delta struct {
	Role    wire.Opt[Role]      `json:"role"`
	Content wire.Opt[Content]   `json:"content"`
	Refusal wire.Opt[wire.Text] `json:"refusal"`

	ReasoningContent wire.Opt[wire.Text]  `json:"reasoning_content"`
	Reasoning        wire.Opt[wire.Text]  `json:"reasoning"`
	Thinking         wire.Opt[wire.Text]  `json:"thinking"`
	ReasoningDetails wire.Opt[[]wire.Raw] `json:"reasoning_details"`

	ToolCalls    wire.Opt[[]ToolCallDelta] `json:"tool_calls"`
	FunctionCall wire.Opt[FunctionCall]    `json:"function_call"` // deprecated by ToolCalls
	Annotations  wire.Opt[[]Annotation]    `json:"annotations"`
	Audio        wire.Opt[Audio]           `json:"audio"`
	Extra        wire.Extra                `json:"-"`
}

// ToolCallDelta is what a chunk adds to one tool call.
type ToolCallDelta struct {
	Index    wire.Opt[wire.Number]  `json:"index"`
	ID       wire.Opt[string]       `json:"id"`
	Type     wire.Opt[ToolType]     `json:"type"`
	Function wire.Opt[FunctionCall] `json:"function"`
	Custom   wire.Opt[CustomCall]   `json:"custom"`
	Extra    wire.Extra             `json:"-"`
}
