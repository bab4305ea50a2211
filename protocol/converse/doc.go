// Package converse is the Converse protocol of Amazon Bedrock,
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html:
// POST /model/{modelId}/converse, and /converse-stream for a stream. The model is in the
// path. The response is one JSON body, or a stream of binary frames of the media type
// application/vnd.amazon.eventstream.
//
// Package internal/codec/eventstream turns frames into server-sent events and back. The data of
// such an event is the union ConverseStreamOutput: an object whose only member has the
// name of the event, such as {"messageStart":{"role":"assistant"}}. This package knows only
// that form.
//
// Members of a union exclude each other, and the vendor's SDKs reject a union with two. The
// seals of other protocols are therefore wrapped into the signature of reasoning, or are in
// the member extra_content of toolUse, which is not a union. A text cannot carry a seal.
package converse

import "github.com/isogloss-gateway/isogloss/protocol"

// own is the Ext.Protocol and Seal.Origin of everything that this package decodes.
const own = string(protocol.Converse)

// Codec is the Converse protocol.
type Codec struct{}

var _ protocol.Translator = Codec{}

// Name is "converse".
func (Codec) Name() protocol.Name { return protocol.Converse }

// NewTap returns a tap for one response. A response has only one choice.
func (Codec) NewTap(int) protocol.Tap { return &Tap{} }
