// Package anthropic is Anthropic's Messages protocol,
// https://docs.claude.com/en/api/messages: POST /v1/messages, answered by one JSON
// body or by named server-sent events that end with message_stop.
//
// The protocol has versions, told apart by the header anthropic-version; they are
// rows of data ([Version]). They differ in what a request may hold; answers and
// streams are the same in all of them, and so there is one writer for those.
//
// Seals of other protocols, which a client has to send back in its next request,
// travel with the block that they seal. Those of reasoning are wrapped into its
// signature, which every client sends back; those of text and calls are the member
// extra_content. In a stream that member stands in content_block_start if the seal
// was known by then, which is the event that the vendor's SDKs keep, else in
// content_block_stop.
package anthropic

import "github.com/isogloss-gateway/isogloss/protocol"

// own is the origin of everything that this package reads.
const own = string(protocol.Anthropic)

// Codec is the Messages protocol.
type Codec struct{}

var _ protocol.Translator = Codec{}

// Name is "anthropic".
func (Codec) Name() protocol.Name { return protocol.Anthropic }

// NewTap returns a tap for one answer. The protocol knows no more than one choice.
func (Codec) NewTap(int) protocol.Tap { return &Tap{} }
