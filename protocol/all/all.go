// Package all lists the protocols that the gateway speaks.
package all

import (
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
)

// Codecs returns one codec for each protocol.
func Codecs() []protocol.Codec {
	return []protocol.Codec{openaichat.Codec{}}
}
