package openaichat

import (
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Response is a non-streaming response.
type Response struct {
	ID                wire.Opt[string]            `json:"id"`
	Object            wire.Opt[string]            `json:"object"`
	Created           wire.Opt[wire.Number]       `json:"created"` // seconds since 1970
	Model             wire.Opt[string]            `json:"model"`
	Choices           wire.Opt[wire.List[Choice]] `json:"choices"`
	Usage             wire.Raw                    `json:"usage"`
	ServiceTier       wire.Opt[string]            `json:"service_tier"`
	SystemFingerprint wire.Opt[string]            `json:"system_fingerprint"`
	Moderation        wire.Opt[wire.Object]       `json:"moderation"`
	Metadata          wire.Opt[wire.Object]       `json:"metadata"`
	Extra             wire.Extra                  `json:"-"`
}

// Choice is one of the completions of a request.
type Choice struct {
	Index        wire.Opt[wire.Number]  `json:"index"`
	Message      wire.Opt[Message]      `json:"message"`
	Logprobs     wire.Opt[Logprobs]     `json:"logprobs"`
	FinishReason wire.Opt[FinishReason] `json:"finish_reason"`
	Extra        wire.Extra             `json:"-"`
}

// Logprobs are the probabilities of the tokens of a text and of a refusal.
type Logprobs struct {
	Content wire.Opt[wire.List[wire.Raw]] `json:"content"`
	Refusal wire.Opt[wire.List[wire.Raw]] `json:"refusal"`
	Extra   wire.Extra                    `json:"-"`
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

// Annotation is a remark on the response's text.
type Annotation struct {
	Type        wire.Opt[string]      `json:"type"` // "url_citation"
	URLCitation wire.Opt[URLCitation] `json:"url_citation"`
	Extra       wire.Extra            `json:"-"`
}

// URLCitation is the page that a span of the text is taken from.
type URLCitation struct {
	StartIndex wire.Opt[wire.Number] `json:"start_index"`
	EndIndex   wire.Opt[wire.Number] `json:"end_index"`
	Title      wire.Opt[wire.Text]   `json:"title"`
	URL        wire.Opt[wire.Text]   `json:"url"`
	Extra      wire.Extra            `json:"-"`
}

// Audio is an audio response. In a request only the id is set; in a stream data
// and transcript come in pieces.
type Audio struct {
	ID         wire.Opt[string]      `json:"id"`
	Data       wire.Opt[wire.Text]   `json:"data"` // base64
	ExpiresAt  wire.Opt[wire.Number] `json:"expires_at"`
	Transcript wire.Opt[wire.Text]   `json:"transcript"`
	Extra      wire.Extra            `json:"-"`
}
