// Package protocol defines the interface of the wire protocols. Each folder below it
// implements one protocol, and protocol/all lists them.
//
// A protocol only converts between bytes and values. It does no I/O, starts no
// goroutine and reads no clock.
package protocol

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Name is the name of a protocol in the configuration and in logs.
type Name string

// The names of the protocols.
const (
	OpenAIChat      Name = "openai-chat"
	OpenAIResponses Name = "openai-responses"
	Anthropic       Name = "anthropic"
	Gemini          Name = "gemini"
	Converse        Name = "converse"
)

// Names returns the names that are valid in a configuration.
func Names() []Name { return []Name{OpenAIChat, OpenAIResponses, Anthropic, Gemini, Converse} }

// Codec implements the part of a protocol that every request needs, even if it is not
// translated.
type Codec interface {
	Name() Name

	// NewTap returns a tap for one response. The response is complete when the
	// given number of choices has finished.
	NewTap(choices int) Tap

	// EncodeError returns the body of an error response. The status is
	// e.HTTPStatus().
	EncodeError(e *llm.Error) []byte

	// EncodeStreamError returns the server-sent event that ends a stream with an
	// error after its headers were sent.
	EncodeStreamError(e *llm.Error) []byte
}

// Tap reads usage, finish reason and errors from a response that is relayed to the
// client unchanged. It does not keep the response's text.
type Tap interface {
	// Event reads the data of one server-sent event.
	Event(data []byte) Mark

	// Body reads the body of a non-streaming response. It returns an error if the
	// body is an error object or not a response.
	Body(body []byte) *llm.Error

	// Finished reports whether every choice has its finish reason. The usage may still follow.
	Finished() bool

	// Summary returns what the tap has read so far.
	Summary() Summary
}

// Mark classifies a server-sent event.
type Mark int

// The marks.
const (
	Content   Mark = iota // part of the response
	Keepalive             // an event without content
	UsageOnly             // only token counts; to be left out if the client did not request them
	Failed                // an error object, which Summary().Err contains
	Done                  // the last event of the stream
)

// Summary is what a tap has read from a response.
type Summary struct {
	ID       string     // the response's id
	Model    string     // the model that the response names
	Finish   string     // the finish reason in the protocol's own words; empty if there is none yet
	Complete bool       // the response has ended as the protocol requires
	Usage    *llm.Usage // nil if the response has none
	Tier     string     // the service tier that the response names, in the protocol's own words; empty if it names none
	Pending  bool       // the vendor continues the response in the background, and reports its usage later
	Content  bool       // the response is not empty, so that its usage is not zero
	Err      *llm.Error // an error object inside the response
	Kept     []string   // ids of other objects that the vendor stores, as found in the response
}

// maxKept limits the ids that Keep adds.
const maxKept = 64

// Keep adds ids to Kept.
func (s *Summary) Keep(ids ...string) {
	for _, id := range ids {
		if id != "" && len(s.Kept) < maxKept && !slices.Contains(s.Kept, id) {
			s.Kept = append(s.Kept, id)
		}
	}
}
