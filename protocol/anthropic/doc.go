// Package anthropic is Anthropic's Messages protocol,
// https://docs.claude.com/en/api/messages: POST /v1/messages. The response is one JSON
// body, or a stream of named server-sent events that ends with message_stop.
//
// The header anthropic-version names the version of the protocol. Versions are rows of
// data ([Version]). They differ in what a request may contain; responses and streams are
// the same in all of them.
//
// A client has to send back the seals of other protocols in its next request. The seals of
// reasoning are wrapped into its signature, which every client sends back. The seals of text
// and calls are in the member extra_content of the block. In a stream that member is in
// content_block_start, which the vendor's SDKs keep, or in content_block_stop if the seal
// was not known before.
package anthropic

import "github.com/isogloss-gateway/isogloss/protocol"

// own is the Ext.Protocol and Seal.Origin of everything that this package
// decodes.
const own = string(protocol.Anthropic)

// Codec is the Messages protocol.
type Codec struct{}

var _ protocol.Translator = Codec{}

// Name is "anthropic".
func (Codec) Name() protocol.Name { return protocol.Anthropic }

// NewTap returns a tap for one response. A response has only one choice.
func (Codec) NewTap(int) protocol.Tap { return &Tap{} }
