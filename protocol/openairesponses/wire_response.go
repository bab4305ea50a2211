package openairesponses

import (
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Item is a message, reasoning, a call of a client's tool or the call's output. Items
// of other types are not decoded.
type Item struct {
	Type   wire.Opt[string] `json:"type"` // may be missing on messages
	ID     wire.Opt[string] `json:"id"`
	Status wire.Opt[string] `json:"status"`

	Role    wire.Opt[string]  `json:"role"`
	Content wire.Opt[Content] `json:"content"`
	Phase   wire.Opt[string]  `json:"phase"` // commentary, final_answer

	Summary          wire.Opt[wire.List[Part]] `json:"summary"`
	EncryptedContent wire.Opt[string]          `json:"encrypted_content"`

	CallID    wire.Opt[string]    `json:"call_id"`
	Name      wire.Opt[string]    `json:"name"`
	Namespace wire.Opt[string]    `json:"namespace"`
	Arguments wire.Opt[Arguments] `json:"arguments"`
	Input     wire.Opt[string]    `json:"input"` // of a custom tool's call
	Output    wire.Opt[Content]   `json:"output"`

	ExtraContent wire.Raw   `json:"extra_content"` // seals of other protocols
	Extra        wire.Extra `json:"-"`
}

// AdditionalTools is an item that declares tools in mid-conversation, or before it.
type AdditionalTools struct {
	Type  wire.Opt[string]              `json:"type"`
	ID    wire.Opt[string]              `json:"id"`
	Role  wire.Opt[string]              `json:"role"`
	Tools wire.Opt[wire.List[wire.Raw]] `json:"tools"`
	Extra wire.Extra                    `json:"-"`
}

// SearchItem is the call of a tool search that the client runs, or its result.
type SearchItem struct {
	Type      wire.Opt[string]              `json:"type"`
	ID        wire.Opt[string]              `json:"id"`
	CallID    wire.Opt[string]              `json:"call_id"`
	Execution wire.Opt[string]              `json:"execution"` // client; a search that the vendor runs is not decoded
	Status    wire.Opt[string]              `json:"status"`
	Arguments wire.Opt[Arguments]           `json:"arguments"` // of the call; an object
	Tools     wire.Opt[wire.List[wire.Raw]] `json:"tools"`     // that were found

	ExtraContent wire.Raw   `json:"extra_content"`
	Extra        wire.Extra `json:"-"`
}

// Arguments are a JSON text, or with some clients the object itself.
type Arguments struct {
	Text  wire.Opt[string] `wire:"string"`
	Value wire.Raw         `wire:"any"`
}

// Content is one text, or parts.
type Content struct {
	Text  wire.Opt[string]          `wire:"string"`
	Parts wire.Opt[wire.List[Part]] `wire:"array"`
}

// Part is a part of a message, of an output or of reasoning.
type Part struct {
	Type    wire.Opt[string] `json:"type"`
	Text    wire.Opt[string] `json:"text"`
	Refusal wire.Opt[string] `json:"refusal"`

	ImageURL   wire.Opt[ImageURL]   `json:"image_url"`
	FileID     wire.Opt[string]     `json:"file_id"`
	FileData   wire.Opt[string]     `json:"file_data"`
	FileURL    wire.Opt[string]     `json:"file_url"`
	Filename   wire.Opt[string]     `json:"filename"`
	Detail     wire.Opt[string]     `json:"detail"`
	InputAudio wire.Opt[InputAudio] `json:"input_audio"`

	Annotations wire.Opt[wire.List[wire.Raw]] `json:"annotations"`
	Logprobs    wire.Raw                      `json:"logprobs"`

	PromptCacheBreakpoint wire.Opt[CacheBreakpoint] `json:"prompt_cache_breakpoint"`
	ExtraContent          wire.Raw                  `json:"extra_content"`
	Extra                 wire.Extra                `json:"-"`
}

// ImageURL is an address, http or data. Clients of Chat Completions wrap it in an
// object, which OpenAI refuses and others accept.
type ImageURL struct {
	URL    wire.Opt[string]      `wire:"string"`
	Object wire.Opt[wire.Object] `wire:"object"`
}

// InputAudio is audio input.
type InputAudio struct {
	Data   wire.Opt[string] `json:"data"`   // base64
	Format wire.Opt[string] `json:"format"` // mp3, wav
	Extra  wire.Extra       `json:"-"`
}

// CacheBreakpoint requests that the provider caches the prompt up to a part.
type CacheBreakpoint struct {
	TTL   wire.Opt[string] `json:"ttl"`
	Extra wire.Extra       `json:"-"`
}
