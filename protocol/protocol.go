// Package protocol says what a wire protocol is to the gateway. One folder below
// it holds one protocol; protocol/all lists them.
//
// A protocol does no I/O, starts no goroutine and reads no clock: bytes in,
// values out.
package protocol

import "github.com/isogloss-gateway/isogloss/llm"

// Name is how a protocol is called in the configuration and in logs.
type Name string

// The protocols a provider can speak.
const (
	OpenAIChat      Name = "openai-chat"
	OpenAIResponses Name = "openai-responses"
	Anthropic       Name = "anthropic"
	Gemini          Name = "gemini"
)

// Names lists the protocols that a configuration may name.
func Names() []Name { return []Name{OpenAIChat, OpenAIResponses, Anthropic, Gemini} }

// Codec is one wire protocol.
type Codec interface {
	Name() Name

	// NewTap returns a tap for one answer that has the given number of
	// choices: each of them must finish before the answer counts as complete.
	NewTap(choices int) Tap

	// NewCollector returns a collector for one stream, which holds at most
	// limit bytes.
	NewCollector(limit int64) Collector

	// Explode writes a whole answer as the data of the events that a stream
	// of it would have had.
	Explode(body []byte) ([][]byte, error)

	// EncodeError writes the body of an error answer. The status is
	// e.HTTPStatus().
	EncodeError(e *llm.Error) []byte

	// EncodeStreamError writes the server-sent event that ends a stream
	// which has already begun.
	EncodeStreamError(e *llm.Error) []byte
}

// Tap reads what an exchange is measured by from an answer that passes on its
// way to the client. It keeps nothing of the answer's text.
type Tap interface {
	// Event sees the data of one server-sent event.
	Event(data []byte) Mark

	// Body sees a whole answer that was not streamed. It returns an error
	// where the body is an error object or no answer at all.
	Body(body []byte) *llm.Error

	// Summary is what has been seen so far.
	Summary() Summary
}

// Collector makes one whole answer of a stream.
type Collector interface {
	// Add takes the data of one event.
	Add(data []byte) error

	// Done says that the protocol's last event has come, if it has one of
	// its own.
	Done()

	// Body is the whole answer. It is an error if the stream gave no proof
	// of its end.
	Body() ([]byte, error)
}

// Mark is what one event means to whoever relays it.
type Mark int

// The marks.
const (
	Content   Mark = iota // a part of the answer
	Keepalive             // nothing in it
	UsageOnly             // only token counts; the event can be left out for a client that did not ask
	Failed                // an error object; Summary().Err holds it
	Done                  // the protocol's last event
)

// Summary is what a tap has learned of an answer.
type Summary struct {
	ID       string     // the answer's id
	Model    string     // the model that the upstream says has answered
	Finish   string     // the finish reason as it was on the wire; empty if none came
	Complete bool       // the answer gave proof of its end
	Usage    *llm.Usage // nil where none was reported
	Err      *llm.Error // the error that came inside the answer
}
