package llm

import "slices"

// Block is a part of a turn: one of the types in this file.
type Block interface {
	// Common is what every block has.
	Common() *Meta
}

// Meta is what every block has.
type Meta struct {
	ID    string // the source's own id for it, where it has one
	Cache *CacheMark
	Seals []Seal
	Ext   Ext
}

// Common returns m.
func (m *Meta) Common() *Meta { return m }

// CopyBlock returns a block of its own that can be filled without changing b. What
// a block only refers to, such as the blocks of a tool result, is shared.
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

// Text is what is said.
type Text struct {
	Meta
	Text      string
	Citations []Citation
	Logprobs  Raw    // the source's own list
	Phase     string // commentary or final_answer, where a source tells them apart
}

// Refusal is what a model says in place of an answer.
type Refusal struct {
	Meta
	Text     string
	Logprobs Raw
}

// MediaKind is what sort of thing a medium is.
type MediaKind string

// The kinds of media.
const (
	Image MediaKind = "image"
	Audio MediaKind = "audio"
	Video MediaKind = "video"
	File  MediaKind = "file"
)

// Media is something that is not text. One of Data, URL, FileID and Text is set.
type Media struct {
	Meta
	Kind    MediaKind
	MIME    string
	Data    string // base64, standard alphabet
	URL     string
	FileID  string // a vendor's own reference
	Text    string // a document given as text
	Name    string
	Title   string
	Context string
	Detail  string
}

// Reasoning form values.
const (
	FullReasoning    = "full"
	SummaryReasoning = "summary"
)

// Thought is reasoning that a model shows, or that it has sealed. Both may be
// missing: a redacted thought is only a seal.
type Thought struct {
	Meta
	Parts []ThoughtPart
}

// ThoughtPart is a stretch of reasoning.
type ThoughtPart struct {
	Form string // full or summary
	Text string
}

// Text joins the parts of a form; of any form if it is empty.
func (t *Thought) Text(form string) string {
	s := ""
	for _, p := range t.Parts {
		if form == "" || p.Form == form {
			s += p.Text
		}
	}
	return s
}

// ToolCall is a model's wish to have a tool run by the client.
type ToolCall struct {
	Meta
	CallID    string
	Synthetic bool // CallID was made up: the source had none
	Kind      ToolKind
	Name      string
	Namespace string
	Args      string // a function's arguments as JSON text, or a custom tool's text; may be no valid JSON
}

// ToolResult is what a client's tool gave.
type ToolResult struct {
	Meta
	CallID  string
	Name    string
	Kind    ToolKind // of the call
	Blocks  []Block  // text and media
	Failed  bool
	Listed  bool // the content was a list although plain text would have done
	Missing bool // there was no content at all
}

// ServerCall is a tool that the vendor runs itself, and what it gave. It travels
// only to the protocol that it came from; elsewhere its digest stands for it.
type ServerCall struct {
	Meta
	Protocol string
	Type     string // the source's name for the block
	Raw      Raw    // the block as it was
	Digest   string // what it amounts to, as text
}

// Opaque is a block of a kind that only its own protocol knows.
type Opaque struct {
	Meta
	Protocol string
	Type     string
	Raw      Raw
}

// Seal is data that only its maker can read and that must come back unchanged.
type Seal struct {
	Form   SealForm
	Data   string
	Origin string // the protocol that made it
}

// SealForm is what a seal is for.
type SealForm string

// The forms of seals.
const (
	Signature SealForm = "signature" // proves that reasoning is the model's own
	Encrypted SealForm = "encrypted" // is the reasoning
	Redacted  SealForm = "redacted"  // is reasoning that must not be shown
)

// SealFor returns the seals that a protocol has made.
func (m *Meta) SealFor(protocol string) (Seal, bool) {
	for _, s := range m.Seals {
		if s.Origin == protocol {
			return s, true
		}
	}
	return Seal{}, false
}

// Citation ties a span of a text to its source.
type Citation struct {
	Start, End int // Unicode code points of the block's text; both 0 where the whole block is meant
	URL        string
	Title      string
	FileID     string
	Quote      string // the words that are cited
	Protocol   string // whose Raw is
	Raw        Raw    // the citation as the source has it
}
