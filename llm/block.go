package llm

import (
	"slices"
	"strings"
)

// Block is one part of a turn. Its type is one of those in this file.
type Block interface {
	// Common returns the fields that all types of blocks share.
	Common() *Meta
}

// Meta holds the fields that all types of blocks share.
type Meta struct {
	ID    string // the source's id of the block, if it has one
	Cache *CacheMark
	Seals []Seal
	Ext   Ext
}

// Common returns m.
func (m *Meta) Common() *Meta { return m }

// CopyBlock returns a copy of b whose fields can be set without changing b. The copy
// shares the nested blocks of a tool result and other values that b refers to.
func CopyBlock(b Block) Block {
	var c Block
	switch b := b.(type) {
	case *Text:
		c = ptrTo(*b)
	case *Refusal:
		c = ptrTo(*b)
	case *Media:
		c = ptrTo(*b)
	case *Thought:
		t := *b
		t.Parts = slices.Clone(b.Parts)
		c = &t
	case *ToolCall:
		c = ptrTo(*b)
	case *ToolResult:
		c = ptrTo(*b)
	case *ServerCall:
		c = ptrTo(*b)
	case *Opaque:
		c = ptrTo(*b)
	default:
		return b
	}
	c.Common().Seals = slices.Clone(b.Common().Seals)
	return c
}

func ptrTo[T any](v T) *T { return &v }

// Text is text of a prompt or of a response.
type Text struct {
	Meta
	Text      string
	Citations []Citation
	Logprobs  Raw    // a JSON array in the form of the source
	Phase     string // commentary or final_answer, if the source has phases
}

// Refusal is the text with which a model declines a request.
type Refusal struct {
	Meta
	Text     string
	Logprobs Raw
}

// MediaKind is the type of a Media block.
type MediaKind string

// The kinds of media.
const (
	Image MediaKind = "image"
	Audio MediaKind = "audio"
	Video MediaKind = "video"
	File  MediaKind = "file"
)

// Media is an image, audio, a video or a file. One of Data, URL, FileID and Text is
// set.
type Media struct {
	Meta
	Kind    MediaKind
	MIME    string
	Data    string // base64, standard alphabet
	URL     string
	FileID  string // the vendor's id of an uploaded file
	Text    string // the content of a plain-text document
	Name    string
	Title   string
	Context string
	Detail  string
}

// The values of [ThoughtPart.Form].
const (
	FullReasoning    = "full"
	SummaryReasoning = "summary"
)

// Thought is a model's reasoning: readable text in Parts, sealed data in Seals, or
// both. A redacted thought has only a seal.
type Thought struct {
	Meta
	Parts []ThoughtPart
}

// ThoughtPart is one section of the readable reasoning.
type ThoughtPart struct {
	Form string // full or summary
	Text string
}

// Text returns the joined text of the parts of one form, or of all parts if form is
// empty.
func (t *Thought) Text(form string) string {
	if len(t.Parts) == 1 && (form == "" || t.Parts[0].Form == form) {
		return t.Parts[0].Text
	}
	var s strings.Builder
	for _, p := range t.Parts {
		if form == "" || p.Form == form {
			s.WriteString(p.Text)
		}
	}
	return s.String()
}

// ToolCall is a model's request that the client runs a tool.
type ToolCall struct {
	Meta
	CallID    string
	Synthetic bool // the codec generated CallID because the source had none
	Kind      ToolKind
	Name      string
	Namespace string
	Args      string // a function's arguments as JSON, not necessarily valid, or a custom tool's input
}

// ToolResult is the output of a tool that the client ran.
type ToolResult struct {
	Meta
	CallID  string
	Name    string
	Kind    ToolKind // of the call
	Blocks  []Block  // text and media
	Failed  bool
	Listed  bool // the source wrote the content as an array where a string was possible
	Missing bool // the source had no content member
}

// ServerCall is a tool call that the vendor ran, with its output. Only the protocol
// that it came from can encode it; other protocols encode its digest.
type ServerCall struct {
	Meta
	Protocol string
	Type     string // the block's type in the source
	Raw      Raw    // the source's JSON
	Digest   string // a summary as text
}

// Opaque is a block of a type that exists only in its own protocol.
type Opaque struct {
	Meta
	Protocol string
	Type     string
	Raw      Raw
}

// Seal is data that only the vendor that made it can read. The client must return it
// unchanged in later requests.
type Seal struct {
	Form   SealForm
	Data   string
	Origin string // the protocol that made it
	ID     string // the vendor's id of the sealed item, if it has one
}

// SealForm is the purpose of a seal.
type SealForm string

// The forms of seals.
const (
	Signature SealForm = "signature" // proves that the model wrote the reasoning
	Encrypted SealForm = "encrypted" // contains the reasoning
	Redacted  SealForm = "redacted"  // contains reasoning that the vendor hides
)

// SealFor returns the block's first seal that the protocol made.
func (m *Meta) SealFor(protocol string) (Seal, bool) {
	for _, s := range m.Seals {
		if s.Origin == protocol {
			return s, true
		}
	}
	return Seal{}, false
}

// Citation names the source of a range of a block's text.
type Citation struct {
	Start, End int // in Unicode code points; both 0 for the whole block
	URL        string
	Title      string
	FileID     string
	Quote      string // the cited text
	Protocol   string // the protocol of Raw
	Raw        Raw    // the source's JSON
}
