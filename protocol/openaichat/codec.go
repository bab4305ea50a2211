package openaichat

import "github.com/isogloss-gateway/isogloss/protocol"

// Codec is the Chat Completions protocol.
type Codec struct{}

// Name is "openai-chat".
func (Codec) Name() protocol.Name { return protocol.OpenAIChat }

// NewTap returns a tap for one answer.
func (Codec) NewTap(choices int) protocol.Tap { return &Tap{open: choices} }

// NewCollector returns an Aggregator.
func (Codec) NewCollector(limit int64) protocol.Collector { return &Aggregator{MaxBytes: int(limit)} }

// Explode is the function of the same name.
func (Codec) Explode(body []byte) ([][]byte, error) { return Explode(body) }
