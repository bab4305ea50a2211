// Package gemini is Google's generateContent protocol,
// https://ai.google.dev/api/generate-content. POST /{version}/models/{model}:generateContent
// returns one JSON body. :streamGenerateContent returns unnamed server-sent events, or one
// JSON array if the query has no alt=sse. A stream has no final event: it is complete when
// it has a finish reason and the transfer ends.
//
//   - [ParsePath] reads version, model and verb from a request's path.
//   - [Codec] translates requests, responses, streams and errors.
//   - [StreamEncoder] writes either form of a stream.
//   - [Tap] reads usage, finish reason and errors from a response that is relayed.
//   - Token counts and embeddings have functions of their own.
//
// The members of Google's types are read in camelCase and in snake_case, and written in
// camelCase. Arguments, results, schemas and labels keep the names that the user gave.
package gemini

import "github.com/isogloss-gateway/isogloss/protocol"

// own is the Ext.Protocol and Seal.Origin of everything that this package
// decodes.
const own = string(protocol.Gemini)

// Codec is the generateContent protocol.
type Codec struct{}

var _ protocol.Translator = Codec{}

// Name is "gemini".
func (Codec) Name() protocol.Name { return protocol.Gemini }

// NewTap returns a tap for one response.
func (Codec) NewTap(choices int) protocol.Tap { return &Tap{open: choices} }
