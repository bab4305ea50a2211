// Package all lists the protocols that the gateway speaks.
package all

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/anthropic"
	"github.com/isogloss-gateway/isogloss/protocol/completions"
	"github.com/isogloss-gateway/isogloss/protocol/converse"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
	"github.com/isogloss-gateway/isogloss/protocol/misplaced"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
	"github.com/isogloss-gateway/isogloss/protocol/openairesponses"
	"github.com/isogloss-gateway/isogloss/protocol/rerank"
)

// Dialects returns a description of each protocol. The first one is that of clients
// which give no sign of their own.
func Dialects() []*codec.Dialect {
	chat := openaichat.Dialect(completions.Route(), rerank.Route())
	chat.Other = misplaced.Responses()
	messages, bedrock := anthropic.Dialect(), converse.Dialect()
	messages.Envelope("bedrock").Other = converse.CountBody(bedrock)
	return []*codec.Dialect{
		chat,
		openairesponses.Dialect(),
		messages,
		gemini.Dialect(),
		bedrock,
	}
}

// Codecs returns the codec of each protocol.
func Codecs() []protocol.Translator {
	var list []protocol.Translator
	for _, d := range Dialects() {
		list = append(list, d.Codec)
	}
	return list
}

// Names returns the name of each protocol.
func Names() []protocol.Name {
	var list []protocol.Name
	for _, d := range Dialects() {
		list = append(list, d.Name)
	}
	return list
}
