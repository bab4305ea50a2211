package openairesponses

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Codec is the Responses protocol.
type Codec struct{}

var _ protocol.Translator = Codec{}

// own is how the neutral model calls this protocol.
const own = string(protocol.OpenAIResponses)

// Name is "openai-responses".
func (Codec) Name() protocol.Name { return protocol.OpenAIResponses }

// NewTap returns a tap for one answer. There is only ever one choice.
func (Codec) NewTap(int) protocol.Tap { return &Tap{} }

// NewCollector returns a collector for one stream.
func (Codec) NewCollector(limit int64) protocol.Collector { return &collector{limit: int(limit)} }

// NewStreamDecoder returns a decoder for one stream.
func (Codec) NewStreamDecoder() protocol.StreamDecoder { return &streamDecoder{} }

// NewStreamEncoder returns an encoder for one stream.
func (Codec) NewStreamEncoder(ask *llm.Request) protocol.StreamEncoder { return newStreamEncoder(ask) }

// isOwn reports whether members are this protocol's.
func isOwn(e llm.Ext) bool { return e.Protocol == own }
