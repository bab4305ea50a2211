package openaichat

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// Role says who speaks. It is an open set.
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

// Message is one message of any role, in a request or in an answer: what the
// model answers is sent back to it in the next request.
type Message struct {
	Role    wire.Opt[Role]      `json:"role"`
	Content wire.Opt[Content]   `json:"content"`
	Refusal wire.Opt[wire.Text] `json:"refusal"`

	// Reasoning under the names that different servers give it. None of them
	// is in OpenAI's specification.
	ReasoningContent wire.Opt[wire.Text]  `json:"reasoning_content"`
	Reasoning        wire.Opt[wire.Text]  `json:"reasoning"`
	Thinking         wire.Opt[wire.Text]  `json:"thinking"`
	ReasoningDetails wire.Opt[[]wire.Raw] `json:"reasoning_details"`

	Name         wire.Opt[string]       `json:"name"`
	ToolCallID   wire.Opt[string]       `json:"tool_call_id"` // in a tool message: the call that is answered
	ToolCalls    wire.Opt[[]ToolCall]   `json:"tool_calls"`
	FunctionCall wire.Opt[FunctionCall] `json:"function_call"` // deprecated by ToolCalls
	Annotations  wire.Opt[[]Annotation] `json:"annotations"`
	Audio        wire.Opt[Audio]        `json:"audio"`
	Extra        wire.Extra             `json:"-"`
}

// Content is a message's content: text, or a list of parts. Null is the Opt's.
type Content struct {
	Text  wire.Opt[wire.Text] `wire:"string"`
	Parts wire.Opt[[]Part]    `wire:"array"`
}

// NewContent returns the content that is one text.
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

// Part is one part of a content.
type Part struct {
	Type       wire.Opt[PartType]   `json:"type"`
	Text       wire.Opt[wire.Text]  `json:"text"`
	ImageURL   wire.Opt[Image]      `json:"image_url"`
	InputAudio wire.Opt[InputAudio] `json:"input_audio"`
	File       wire.Opt[File]       `json:"file"`
	Refusal    wire.Opt[wire.Text]  `json:"refusal"`

	PromptCacheBreakpoint wire.Opt[PromptCacheOptions] `json:"prompt_cache_breakpoint"`

	Extra wire.Extra `json:"-"`
}

// Image is an image by its address. Some clients send the bare address.
type Image struct {
	URL    wire.Opt[wire.Text] `wire:"string"`
	Object wire.Opt[ImageURL]  `wire:"object"`
}

// ImageURL is the address of an image, http or data, and how closely to look.
type ImageURL struct {
	URL    wire.Opt[wire.Text] `json:"url"`
	Detail wire.Opt[string]    `json:"detail"` // auto, low, high, original
	Extra  wire.Extra          `json:"-"`
}

// InputAudio is sound.
type InputAudio struct {
	Data   wire.Opt[wire.Text] `json:"data"`   // base64
	Format wire.Opt[string]    `json:"format"` // wav, mp3
	Extra  wire.Extra          `json:"-"`
}

// File is a file, inline or by the id that it was uploaded under.
type File struct {
	FileData wire.Opt[wire.Text] `json:"file_data"`
	FileID   wire.Opt[string]    `json:"file_id"`
	Filename wire.Opt[string]    `json:"filename"`
	Extra    wire.Extra          `json:"-"`
}

// Annotation is a remark on the answer's text.
type Annotation struct {
	Type        wire.Opt[string]      `json:"type"` // "url_citation"
	URLCitation wire.Opt[URLCitation] `json:"url_citation"`
	Extra       wire.Extra            `json:"-"`
}

// URLCitation is the page that a stretch of the text is taken from.
type URLCitation struct {
	StartIndex wire.Opt[wire.Number] `json:"start_index"`
	EndIndex   wire.Opt[wire.Number] `json:"end_index"`
	Title      wire.Opt[wire.Text]   `json:"title"`
	URL        wire.Opt[wire.Text]   `json:"url"`
	Extra      wire.Extra            `json:"-"`
}

// Audio is a spoken answer. In a request only the id is set; in a stream data
// and transcript come in pieces.
type Audio struct {
	ID         wire.Opt[string]      `json:"id"`
	Data       wire.Opt[wire.Text]   `json:"data"` // base64
	ExpiresAt  wire.Opt[wire.Number] `json:"expires_at"`
	Transcript wire.Opt[wire.Text]   `json:"transcript"`
	Extra      wire.Extra            `json:"-"`
}
