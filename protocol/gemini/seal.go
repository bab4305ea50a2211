package gemini

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// skipSignature is what Google documents for a call that another model has made:
// from the third generation on a call without a signature is refused.
const skipSignature = "skip_thought_signature_validator"

// readSeals reads the seals of a part. Those of other protocols travel inside
// thoughtSignature: it is opaque bytes to every client, and Google's SDKs send it
// back but drop members that they do not know.
func readSeals(signature string, extraContent wire.Raw) []llm.Seal {
	seals, foreign := protocol.Unwrap(standardBase64(signature))
	if !foreign && signature != "" {
		seals = []llm.Seal{{Form: llm.Signature, Data: signature, Origin: own}}
	}
	return append(seals, protocol.Uncarry(llm.Raw(extraContent))...)
}

// carrySeals gives what a client has to hold for the next turn: the signature of
// a part, and extra_content where the signature is taken by Google's own.
func carrySeals(seals []llm.Seal) (signature string, extraContent llm.Raw) {
	m := llm.Meta{Seals: seals}
	if s, ok := m.SealFor(own); ok && s.Data != "" {
		return s.Data, protocol.Carry(seals, protocol.Gemini)
	}
	return protocol.Wrap(seals, protocol.Gemini), ""
}

// standardBase64 gives base64 in the standard alphabet, padded and without line
// breaks: Google's Python SDK writes the other alphabet.
func standardBase64(s string) string {
	if !strings.ContainsAny(s, "-_ \t\r\n") && len(s)%4 == 0 {
		return s
	}
	s = strings.TrimRight(strings.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		case ' ', '\t', '\r', '\n':
			return -1
		}
		return r
	}, s), "=")
	if missing := -len(s) % 4; missing != 0 {
		s += strings.Repeat("=", 4+missing)
	}
	return s
}
