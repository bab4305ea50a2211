// Package all lists the protocols that the gateway speaks.
package all

import (
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/anthropic"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
	"github.com/isogloss-gateway/isogloss/protocol/openairesponses"
)

// Codecs returns one codec for each protocol.
func Codecs() []protocol.Translator {
	return []protocol.Translator{openaichat.Codec{}, openairesponses.Codec{}, anthropic.Codec{}, gemini.Codec{}}
}
