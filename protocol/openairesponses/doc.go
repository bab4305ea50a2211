// Package openairesponses is OpenAI's Responses protocol,
// https://platform.openai.com/docs/api-reference/responses: POST /v1/responses. The response
// is one JSON body, or a stream of named server-sent events that ends with
// response.completed, response.incomplete or response.failed. The output is also valid by
// the Open Responses schema, https://www.openresponses.org, except for item types that the
// schema does not have (custom_tool_call and hosted tools).
//
// A conversation is a list of items, not of messages. Consecutive items of the assistant
// (reasoning, messages, calls) form one turn of the neutral model. The first block of each
// message keeps the message's members in a mark of its Ext.
//
// A non-streaming response is decoded as a stream that has only its last event, and encoded
// as the snapshot that ends a stream, so that the two forms cannot differ.
//
// The seals of other protocols are in the member extra_content: of the item for reasoning
// and calls, of the part for text. In a stream they are in response.output_item.done and in
// the last snapshot, which SDKs keep.
package openairesponses

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Codec is the Responses protocol.
type Codec struct{}

var _ protocol.Translator = Codec{}

// own is the Ext.Protocol and Seal.Origin of everything that this package
// decodes.
const own = string(protocol.OpenAIResponses)

// Name is "openai-responses".
func (Codec) Name() protocol.Name { return protocol.OpenAIResponses }

// NewTap returns a tap for one response. A response has only one choice.
func (Codec) NewTap(int) protocol.Tap { return &Tap{} }

// NewStreamDecoder returns a decoder for one stream.
func (Codec) NewStreamDecoder() protocol.StreamDecoder { return &streamDecoder{} }

// NewStreamEncoder returns an encoder for one stream.
func (Codec) NewStreamEncoder(req *llm.Request) protocol.StreamEncoder { return newStreamEncoder(req) }
