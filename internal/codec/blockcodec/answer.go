package blockcodec

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// AnswerText returns the text that replaces a block of a response without a counterpart, or the original
// block if it came from own.
func AnswerText(b llm.Block, at string, report *llm.Report, own string) (string, wire.Raw) {
	switch b := b.(type) {
	case *llm.Refusal:
		report.Approximate(at, "refusal.as_text", "the protocol has no block for a refusal")
		DropLogprobs(b.Logprobs, at, report)
		return b.Text, nil
	case *llm.Media:
		report.Approximate(at, "media.unsupported", "a response holds text only")
		return Placeholder(b), nil
	case *llm.ServerCall:
		if b.Protocol == own {
			return "", wire.Raw(b.Raw)
		}
		report.Drop(at, "server_tool.dropped", "a call of another vendor's tool")
	case *llm.Opaque:
		if b.Protocol == own {
			return "", wire.Raw(b.Raw)
		}
		report.Drop(at, "block.unknown", "a block of type "+b.Type)
	}
	return "", nil
}

// DropLogprobs reports log probabilities.
func DropLogprobs(list llm.Raw, at string, report *llm.Report) {
	if list != "" {
		report.Drop(at+".logprobs", "logprobs.unsupported", "the protocol has no log probabilities")
	}
}

// Placeholder returns the text in place of media that a response cannot hold.
func Placeholder(m *llm.Media) string {
	return "[" + string(m.Kind) + " " + m.MIME + ": not shown, because the protocol has no field for it in a response]"
}
