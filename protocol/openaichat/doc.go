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
package openaichat
