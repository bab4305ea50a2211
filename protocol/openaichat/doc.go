// Package openaichat is OpenAI's Chat Completions protocol,
// https://platform.openai.com/docs/api-reference/chat: POST /v1/chat/completions,
// answered by one JSON body or by unnamed server-sent events that end with
// "data: [DONE]". Most engines and many providers speak it, each with its own
// additions, and the package keeps those.
//
//   - [Request], [Response] and [Chunk] are the bodies as they are on the wire.
//     They can be used with encoding/json; decoding and encoding again changes
//     neither the order of members nor the text of numbers, and members that
//     the package does not know are kept at every level.
//   - [Aggregator] makes one Response of a stream, and [Explode] makes a stream
//     of one Response.
//   - [Validator] reports where a stream departs from the specification.
//   - [Tap] reads usage, finish reason and errors from a passing answer.
//   - [Codec] translates all of it to and from the neutral model of package llm.
package openaichat

import "github.com/isogloss-gateway/isogloss/protocol"

// Codec is the Chat Completions protocol.
type Codec struct{}

var _ protocol.Translator = Codec{}

// Name is "openai-chat".
func (Codec) Name() protocol.Name { return protocol.OpenAIChat }

// NewTap returns a tap for one answer.
func (Codec) NewTap(choices int) protocol.Tap { return &Tap{open: choices} }

// NewCollector returns an Aggregator.
func (Codec) NewCollector(limit int64) protocol.Collector { return &Aggregator{MaxBytes: int(limit)} }

// Explode is the function of the same name.
func (Codec) Explode(body []byte) ([][]byte, error) { return Explode(body) }
