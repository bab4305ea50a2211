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

// Role is the author of a message. It is an open set.
type Role string

// The roles. RoleFunction is deprecated.
const (
	RoleDeveloper Role = "developer"
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleFunction  Role = "function"
)

// Message is one message of any role. A response's message is sent back in the
// next request.
type Message struct {
	Role    wire.Opt[Role]      `json:"role"`
	Content wire.Opt[Content]   `json:"content"`
	Refusal wire.Opt[wire.Text] `json:"refusal"`

	// Reasoning, under the names that different servers use. None of them is in
	// OpenAI's specification.
	ReasoningContent wire.Opt[wire.Text]           `json:"reasoning_content"`
	Reasoning        wire.Opt[wire.Text]           `json:"reasoning"`
	Thinking         wire.Opt[wire.Text]           `json:"thinking"`
	ReasoningDetails wire.Opt[wire.List[wire.Raw]] `json:"reasoning_details"`

	Name         wire.Opt[string]                `json:"name"`
	ToolCallID   wire.Opt[string]                `json:"tool_call_id"` // in a tool message: the call that it belongs to
	ToolCalls    wire.Opt[wire.List[ToolCall]]   `json:"tool_calls"`
	FunctionCall wire.Opt[FunctionCall]          `json:"function_call"` // deprecated by ToolCalls
	Annotations  wire.Opt[wire.List[Annotation]] `json:"annotations"`
	Audio        wire.Opt[Audio]                 `json:"audio"`
	Extra        wire.Extra                      `json:"-"`
}

// Content is a message's content: text, or a list of parts.
type Content struct {
	Text  wire.Opt[wire.Text]       `wire:"string"`
	Parts wire.Opt[wire.List[Part]] `wire:"array"`
}

// NewContent returns a content that is a single text.
func NewContent(s string) Content { return Content{Text: wire.Some(wire.NewText(s))} }

// PartType is the kind of a part. It is an open set.
type PartType string

// The part types. PartRefusal occurs in assistant messages only.
const (
	PartText       PartType = "text"
	PartImageURL   PartType = "image_url"
	PartInputAudio PartType = "input_audio"
	PartFile       PartType = "file"
	PartRefusal    PartType = "refusal"
)

// Part is one part of a message's content.
type Part struct {
	Type       wire.Opt[PartType]   `json:"type"`
	Text       wire.Opt[wire.Text]  `json:"text"`
	ImageURL   wire.Opt[Image]      `json:"image_url"`
	InputAudio wire.Opt[InputAudio] `json:"input_audio"`
	File       wire.Opt[File]       `json:"file"`
	Refusal    wire.Opt[wire.Text]  `json:"refusal"`

	PromptCacheBreakpoint wire.Opt[CacheBreakpoint] `json:"prompt_cache_breakpoint"`

	Extra wire.Extra `json:"-"`
}

// CacheBreakpoint requests that the provider caches the prompt up to a part.
type CacheBreakpoint struct {
	TTL   wire.Opt[string] `json:"ttl"`
	Extra wire.Extra       `json:"-"`
}

// Image is an image by its URL. Some clients send the bare URL.
type Image struct {
	URL    wire.Opt[wire.Text] `wire:"string"`
	Object wire.Opt[ImageURL]  `wire:"object"`
}

// ImageURL is an http or data URL of an image, and the level of detail.
type ImageURL struct {
	URL    wire.Opt[wire.Text] `json:"url"`
	Detail wire.Opt[string]    `json:"detail"` // auto, low, high, original
	Extra  wire.Extra          `json:"-"`
}

// InputAudio is audio input.
type InputAudio struct {
	Data   wire.Opt[wire.Text] `json:"data"`   // base64
	Format wire.Opt[string]    `json:"format"` // wav, mp3
	Extra  wire.Extra          `json:"-"`
}

// File is a file, inline or by the id of an upload.
type File struct {
	FileData wire.Opt[wire.Text] `json:"file_data"`
	FileID   wire.Opt[string]    `json:"file_id"`
	Filename wire.Opt[string]    `json:"filename"`
	Extra    wire.Extra          `json:"-"`
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
