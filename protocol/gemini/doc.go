// Package gemini is Google's generateContent protocol,
// https://ai.google.dev/api/generate-content: POST
// /{version}/models/{model}:generateContent, answered by one JSON body, and
// :streamGenerateContent, answered by unnamed server-sent events, or by one long
// JSON array where the query has no alt=sse. A stream has no last event of its
// own: a finish reason and then the end of the transfer are the proof of its end.
//
//   - [ParsePath] reads version, model and verb from a request's path.
//   - [Codec] translates requests, answers, streams and errors.
//   - [StreamEncoder] can write either form of a stream.
//   - [Tap] reads usage, finish reason and errors from a passing answer.
//   - Counting tokens and embeddings are functions of their own.
//
// Names are read in camelCase and in snake_case, wherever Google's types are, and
// written in camelCase. What belongs to a tool or a user (arguments, results,
// schemas, labels) keeps its names.
package gemini

import "github.com/isogloss-gateway/isogloss/protocol"

// own is the protocol's name where seals and unknown members say whose they are.
const own = string(protocol.Gemini)

// Codec is the generateContent protocol.
type Codec struct{}

var _ protocol.Translator = Codec{}

// Name is "gemini".
func (Codec) Name() protocol.Name { return protocol.Gemini }

// NewTap returns a tap for one answer.
func (Codec) NewTap(choices int) protocol.Tap { return &Tap{open: choices} }
