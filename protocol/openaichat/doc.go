// Package openaichat is OpenAI's Chat Completions protocol,
// https://platform.openai.com/docs/api-reference/chat: POST /v1/chat/completions. The
// response is one JSON body, or a stream of unnamed server-sent events that ends with
// "data: [DONE]". Most engines and many providers speak the protocol, each with its own
// additions, and the package keeps those.
//
//   - [Request], [Response] and [Chunk] are the bodies as they are on the wire.
//     [wire.Unmarshal] and [wire.Marshal] keep the order of members, the text of
//     numbers and unknown members at every level.
//   - [Tap] reads usage, finish reason and errors from a response that is relayed.
//   - [Codec] translates all of it to and from the neutral model of package llm.
//
// [wire.Unmarshal]: https://pkg.go.dev/github.com/isogloss-gateway/isogloss/protocol/wire#Unmarshal
// [wire.Marshal]: https://pkg.go.dev/github.com/isogloss-gateway/isogloss/protocol/wire#Marshal
package openaichat

import "github.com/isogloss-gateway/isogloss/protocol"

// Codec is the Chat Completions protocol.
type Codec struct{}

var _ protocol.Translator = Codec{}

// Name is "openai-chat".
func (Codec) Name() protocol.Name { return protocol.OpenAIChat }

// NewTap returns a tap for one response.
func (Codec) NewTap(choices int) protocol.Tap { return &Tap{open: choices} }
